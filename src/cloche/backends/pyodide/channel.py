"""A guest in Deno, as a session holds it."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

from cloche.backends.native import NativeChannel
from cloche.backends.pyodide.mirror import Mirror
from cloche.isolation import Isolation
from cloche.session.channel import Exit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cloche.backends.pyodide.process import DenoProcess
    from cloche.policy import ExecutionPolicy
    from cloche.session.workspace import Workspace

ABORTED = 134
"""The status with which the program around the interpreter says that the interpreter is broken."""
AT_REST = 1_450 << 20
"""What V8 reserves beside the memory of the guest."""
PROCESSORS = 4
"""How many threads of V8 may work for one second of a cell."""
ASK, INSIST = 2, 12
"""SIGINT and SIGUSR2, by the numbers that they have inside, whatever system is outside."""


class PyodideChannel(NativeChannel):
    """One Deno process. Interrupts travel on the wire; files are copied in and out."""

    isolation = Isolation.CONFINED

    def __init__(
        self, process: DenoProcess, policy: ExecutionPolicy, workspace: Workspace,
        layers: tuple[str, ...], greeting: Mapping[str, Any], packages: bytes | None,
    ) -> None:  # fmt: skip
        super().__init__(process.popen, process.wire, None, process.stderr, workspace, layers, greeting)
        self._deno = process
        self._packets = process.wire
        self._packages = packages
        self._seconds = policy.total_timeout_ms // 1000 + 1
        self._mirror = Mirror(workspace, policy.workspace_bytes)
        if "rlimits" in layers:
            self._limit(policy)

    def _limit(self, policy: ExecutionPolicy) -> None:
        import resource

        self._deno.limit(resource.RLIMIT_CORE, 0)
        self._deno.limit(resource.RLIMIT_FSIZE, 0)  # it has no file to write
        if policy.memory_bytes is not None:
            self._deno.limit(resource.RLIMIT_DATA, AT_REST + policy.memory_bytes)
        self._extend_cpu(resource)

    def _extend_cpu(self, resource: Any) -> None:
        """Should we ever fail to end it: it ends by itself, a while after its longest cell could have lasted."""
        used = self.cpu_seconds() or 0
        self._deno.limit(resource.RLIMIT_CPU, int(used) + PROCESSORS * self._seconds, resource.RLIM_INFINITY)

    def begin_cell(self) -> None:
        if "rlimits" in self.layers:
            import resource

            self._extend_cpu(resource)

    def errands(self) -> list[tuple[str, dict[str, Any], bytes | None]]:
        packages, self._packages = self._packages, None
        return [*([] if packages is None else [("install", {}, packages)]), *self._mirror.errands()]

    def take_file(self, params: Any) -> None:
        self._mirror.take(params)

    def interrupt(self, *, insist: bool) -> None:
        self._packets.send_signal(INSIST if insist else ASK)

    def reap(self, timeout: float) -> Exit | None:
        ended = super().reap(timeout)
        return Exit(signal=signal.SIGABRT) if ended is not None and ended.code == ABORTED else ended

    def close(self) -> None:
        self._mirror.close()
        super().close()
