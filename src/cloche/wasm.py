"""`PythonSandbox`: CPython behind a WebAssembly wall, with every instruction counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from cloche.backends.wasm.backend import WasmBackend
from cloche.sandbox import SessionSandbox
from cloche.session.face import given_options

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from cloche.logger import SandboxLogger
    from cloche.policy import ExecutionPolicy
    from cloche.result import SandboxResult
    from cloche.sandbox import OnOutput


class PythonSandbox(SessionSandbox):
    """Runs code in CPython on WebAssembly. Isolation: METERED.

    `wasm_binary_path` is a component of ours or a stock ``python.wasm`` for WASI preview 1; without it, the one that
    Cloche builds at first use. `site_packages` is a folder of packages, which the guest sees read-only as
    ``/app/site-packages``.
    """

    backend_type: ClassVar[type[WasmBackend]] = WasmBackend
    _backend: WasmBackend

    @property
    def wasm_binary_path(self) -> Path:
        """The guest's binary. It need not be there yet."""
        return self._backend.wasm_binary_path

    def execute(
        self,
        code: str,
        inject_setup: bool = True,
        *,
        timeout_ms: int | None = None,
        on_output: OnOutput | None = None,
        stdin: str | None = None,
    ) -> SandboxResult:
        """Run a cell. `inject_setup=False`: without the paths of ``/app`` among those that are searched for modules."""
        return run_untrusted_python(
            code, sandbox=self, inject_setup=inject_setup, timeout_ms=timeout_ms, on_output=on_output, stdin=stdin
        )

    def _run(
        self, code: str, inject_setup: bool, timeout_ms: int | None, on_output: OnOutput | None, stdin: str | None
    ) -> SandboxResult:
        options = given_options(setup=None if inject_setup else False, stdin=stdin)
        return self._driver.execute(code, timeout_ms, on_output, **options)


def run_untrusted_python(
    code: str,
    policy: ExecutionPolicy | None = None,
    workspace: str | os.PathLike[str] | None = None,
    logger: SandboxLogger | None = None,
    *,
    sandbox: PythonSandbox | None = None,
    inject_setup: bool = True,
    timeout_ms: int | None = None,
    on_output: OnOutput | None = None,
    stdin: str | None = None,
    **options: Any,
) -> SandboxResult:
    """Run one piece of code behind the WebAssembly wall: in a fresh session, or in that of `sandbox`."""
    if sandbox is not None:
        return sandbox._run(code, inject_setup, timeout_ms, on_output, stdin)
    with PythonSandbox(policy, workspace, logger, **options) as fresh:
        return fresh._run(code, inject_setup, timeout_ms, on_output, stdin)
