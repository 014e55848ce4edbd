"""The jail backend: what it needs of the machine, and how a session is asked for."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, ClassVar

from cloche.backends.interpreter import Interpreter, examine
from cloche.backends.jail.broker import ZYGOTE_ENVIRONMENT, brokers
from cloche.backends.jail.channel import JailChannel, Seat
from cloche.backends.jail.programs import describe_programs
from cloche.backends.native import NativeBackend
from cloche.errors import ClocheError
from cloche.isolation import Isolation, Layer, masked_layers
from cloche.session.channel import Availability
from cloche_guest.jail import syscalls

if TYPE_CHECKING:
    from cloche.policy import ExecutionPolicy
    from cloche.session.workspace import Workspace

SCIENTIFIC = (
    "numpy", "pandas", "scipy", "scipy.stats", "sklearn", "matplotlib", "matplotlib.pyplot", "seaborn",
    "statsmodels.api",
)  # fmt: skip
REMEDY = "allow user namespaces (sysctl kernel.unprivileged_userns_clone=1 or user.max_user_namespaces), or use native"
WORKSPACE_FILES = 16_384
SCOPED = 6
"""The version of Landlock from which it keeps signals and abstract sockets inside."""


def jail_layers() -> tuple[Layer, ...]:
    """The layers of this wall on this machine."""
    masked = masked_layers()
    landlock = syscalls.landlock_version()
    layers = (
        Layer("namespaces", True, "its own users, mounts, processes, IPC and host name"),
        Layer("network", True, "an empty network namespace; only Unix sockets can be made"),
        Layer("view", True, "only the interpreter and system libraries exist, read-only"),
        Layer("seccomp", True, "a list of allowed system calls"),
        Layer(
            "landlock", landlock >= 1, f"a second line on files and signals (version {landlock})", "Linux 5.13 or later"
        ),
        Layer("capabilities", True, "none, and no way to gain any"),
        Layer("rlimits", True, "memory, processes, files and descriptors are bounded"),
        Layer("environment", True, "built from nothing"),
        Layer("lifeline", True, "everything ends when the host ends"),
    )
    return tuple(
        Layer(layer.name, False, layer.purpose, "unset CLOCHE_MASK_LAYERS") if layer.name in masked else layer
        for layer in layers
    )


class JailBackend(NativeBackend):
    """Sessions forked from a warm interpreter into namespaces of their own."""

    name: ClassVar[str] = "jail"
    capabilities: ClassVar[frozenset[str]] = frozenset({"network", "threads", "subprocess", "packages"})
    options: ClassVar[tuple[str, ...]] = ("python",)
    workspace_inside: ClassVar[bool] = True

    def __init__(self, *, python: str | os.PathLike[str] | None = None) -> None:
        super().__init__(python=python)
        self._seat: Seat | None = None

    @classmethod
    def shut_down(cls) -> None:
        brokers.close()

    def release(self) -> None:
        seat, self._seat = self._seat, None
        if seat is not None:
            seat.close()

    def _take_channel(self, python: str | None, options: dict[str, Any]) -> JailChannel:
        """Another worker in our seat, a spare, or a session made for us."""
        if self._seat is not None and self._seat.usable:
            return JailChannel(self._seat, options)
        self.release()
        broker = brokers.for_session(python, SCIENTIFIC)
        spare = broker.claim_spare(options) if "workspace" not in options else None
        if spare is not None:
            self._seat, channel = spare
            return channel
        self._seat = Seat(broker, options.get("workspace"))
        return JailChannel(self._seat, options)

    def expected_isolation(self) -> Isolation:
        return Isolation.SEALED

    @classmethod
    def probe(cls, *, python: str | os.PathLike[str] | None = None, **_: Any) -> Availability:
        if sys.platform != "linux":
            return Availability(False, "needs Linux", "use wasm or pyodide elsewhere")
        found = NativeBackend.probe(python=python)
        if not found.available:
            return found
        try:
            brokers.trial(os.fspath(python) if python is not None else None)
        except ClocheError as exc:
            return Availability(False, f"the jail does not start: {exc.cause or exc.message}", REMEDY)
        details = {**found.details, "programs": describe_programs()}
        return Availability(True, isolation=Isolation.SEALED, layers=jail_layers(), details=details)

    def open(self, policy: ExecutionPolicy, workspace: Workspace, timeout: float) -> JailChannel:  # type: ignore[override]  # another kind of channel, by design
        python = os.fspath(self._python) if self._python is not None else None
        interpreter = examine(python, "jail")
        layers = tuple(layer.name for layer in jail_layers() if layer.active)
        options: dict[str, Any] = {
            "workspace_bytes": policy.workspace_bytes,
            "workspace_files": WORKSPACE_FILES,
            "landlock": "landlock" in layers,
            "scoped": "landlock" in layers and syscalls.landlock_version() >= SCOPED,
            "limit_core": 0,
            "limit_memlock": 0,
            "limit_msgqueue": 0,
        }
        if not workspace.private:
            options["workspace"] = str(workspace.root)
        channel = self._take_channel(python, options)
        channel.layers = layers
        channel.greeting = _greeting(interpreter, policy)
        return channel


def _greeting(interpreter: Interpreter, policy: ExecutionPolicy) -> dict[str, Any]:
    """What is told to a worker at its start: all that may differ between sessions of one zygote."""
    return {
        "path": list(interpreter.path),
        "prefix": interpreter.prefix,
        "exec_prefix": interpreter.exec_prefix,
        "workspace": "/app",
        "environment": {**ZYGOTE_ENVIRONMENT, "PWD": "/app", **policy.environment},
        "limits": {
            "data": policy.memory_bytes,
            "fsize": policy.workspace_bytes,
            "nofile": policy.open_files,
            "nproc": policy.processes,
        },
    }
