"""The Pyodide backend: what it needs of the machine, and how a session is opened."""

from __future__ import annotations

import sys
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from cloche.backends.pyodide import release, runtime
from cloche.backends.pyodide.channel import PyodideChannel
from cloche.backends.pyodide.confinement import can_confine
from cloche.backends.pyodide.packages import provide
from cloche.backends.pyodide.process import DenoProcess, Kind
from cloche.backends.pyodide.spares import spares
from cloche.errors import ClocheError, StartError
from cloche.guarantees import LAYERS
from cloche.isolation import Isolation, Layer, masked_layers
from cloche.logger import SandboxLogger
from cloche.session.channel import Availability, Backend

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cloche.policy import ExecutionPolicy
    from cloche.session.channel import Channel
    from cloche.session.workspace import Workspace

T = TypeVar("T")

HOME = "/home/pyodide"
WORKSPACE = "/app"
SECOND_WALL = "Linux 5.13 or later on x86-64"


def pyodide_layers() -> tuple[Layer, ...]:
    """The layers of this wall on this machine."""
    linux = sys.platform == "linux"
    masked = masked_layers()
    second = linux and not masked & {"landlock", "seccomp"} and can_confine()
    says = LAYERS["pyodide"]
    layers = (
        Layer("process", True, says["process"]),
        Layer("webassembly", True, says["webassembly"]),
        Layer("permissions", True, says["permissions"]),
        Layer("network", True, says["network"]),
        Layer("environment", True, says["environment"]),
        Layer("landlock", second, says["landlock"], SECOND_WALL),
        Layer("seccomp", second, says["seccomp"], SECOND_WALL),
        Layer("lifeline", linux, says["lifeline"], "use Linux"),
        Layer("rlimits", linux, says["rlimits"], "use Linux"),
    )
    return tuple(
        Layer(layer.name, False, layer.purpose, "unset CLOCHE_MASK_LAYERS")
        if layer.name in masked & {"landlock", "seccomp", "lifeline", "rlimits"}
        else layer
        for layer in layers
    )


class PyodideBackend(Backend):
    """Sessions in a Deno process each."""

    name: ClassVar[str] = "pyodide"
    capabilities: ClassVar[frozenset[str]] = frozenset({"network", "deterministic", "packages", "links", "byte_names"})

    @classmethod
    def probe(cls, **_: Any) -> Availability:
        if sys.platform != "linux":
            return Availability(False, "needs Linux", "use Linux, or WSL")
        try:
            deno = runtime.find_deno()
            found = runtime.ready()
        except ClocheError as exc:
            return Availability(False, exc.message, exc.remedy or "")
        state = "done" if found is not None else "at the first session, or now with: cloche setup pyodide"
        details = {"deno": deno, "pyodide": release.VERSION, "set-up": state}
        return Availability(True, isolation=Isolation.CONFINED, layers=pyodide_layers(), details=details)

    def expected_isolation(self) -> Isolation:
        return Isolation.CONFINED

    @classmethod
    def set_up(
        cls,
        tell: Callable[[str], object],
        advance: Callable[[float], object] = float,  # noqa: ARG003 - the steps cannot tell
    ) -> Mapping[str, Any]:
        found = runtime.ready() or runtime.set_up(tell)
        places = {"deno": found.deno, "files": str(found.folder), "snapshot": str(found.snapshot)}
        return {"pyodide": release.VERSION, **places}

    @classmethod
    def shut_down(cls) -> None:
        spares.close()

    def open(self, policy: ExecutionPolicy, workspace: Workspace, timeout: float) -> Channel:
        if not workspace.private:
            from cloche.backends.protected_places import refuse_protected

            refuse_protected(workspace)
        found = runtime.ready() or _within(timeout, "Pyodide is still being set up", _set_up)
        archive = None
        if policy.packages:
            fetch = partial(provide, found, policy.packages)
            archive = _within(timeout, "packages are still being fetched", fetch).read_bytes()
        layers = tuple(layer.name for layer in pyodide_layers() if layer.active)
        try:
            kind = Kind(found, policy.memory_bytes, layers)
            # one that has rehearsed has other addresses than one that has not
            process = DenoProcess(kind) if policy.deterministic else spares.claim(kind)
        except OSError as exc:
            raise StartError(f"{found.deno} could not be started", cause=str(exc)) from None
        process.wire.setblocking(False)
        return PyodideChannel(process, policy, workspace, layers, _greeting(policy), archive)


def _greeting(policy: ExecutionPolicy) -> dict[str, Any]:
    return {
        "workspace": WORKSPACE,
        "file_bytes": policy.workspace_bytes,
        "deterministic": policy.deterministic,
        "environment": {
            "HOME": HOME, "PWD": WORKSPACE, "TMPDIR": f"{HOME}/tmp", "LANG": "C.UTF-8", "MPLBACKEND": "Agg",
            **policy.environment,
        },
    }  # fmt: skip


def _set_up() -> runtime.Runtime:
    logger = SandboxLogger()
    return runtime.set_up(lambda step: logger.log_session_event("setup", backend="pyodide", step=step))


def _within(timeout: float, what: str, action: Callable[[], T]) -> T:
    """What a first session waits for, which has a deadline. Where that is too short it goes on, for the next one."""
    trouble: list[BaseException] = []
    found: list[T] = []

    def work() -> None:
        try:
            found.append(action())
        except BaseException as exc:  # noqa: BLE001 - raised again by whoever waits
            trouble.append(exc)

    thread = threading.Thread(target=work, name="cloche-setup", daemon=True)
    began = time.monotonic()
    thread.start()
    thread.join(max(0.0, timeout))
    if trouble:
        raise trouble[0]
    if not found:
        raise StartError(
            f"{what} after {time.monotonic() - began:.0f} s",
            remedy="call again in a while; what takes long is done once (see: cloche setup pyodide)",
        )
    return found[0]
