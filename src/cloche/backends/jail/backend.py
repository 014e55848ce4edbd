"""The jail backend: what it needs of the machine, and how a session is asked for."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, ClassVar

from cloche.backends.interpreter import Interpreter, examine
from cloche.backends.jail.branching import JailBranch, JailSavepoint
from cloche.backends.jail.broker import ZYGOTE_ENVIRONMENT
from cloche.backends.jail.cgroups import Limits
from cloche.backends.jail.channel import JailChannel
from cloche.backends.jail.houses import NOT_INSTALLED, SCIENTIFIC, houses
from cloche.backends.jail.programs import describe_programs
from cloche.backends.jail.seat import Seat
from cloche.backends.jail.upkeep import LAYER, upkeep
from cloche.backends.native import NativeBackend
from cloche.errors import ClocheError, UnsupportedError
from cloche.isolation import Isolation, Layer, masked_layers
from cloche.session.channel import Availability
from cloche_guest.jail import syscalls

if TYPE_CHECKING:
    from cloche.policy import ExecutionPolicy
    from cloche.session.channel import Channel
    from cloche.session.copying import SessionCopy
    from cloche.session.workspace import Workspace

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
    capabilities: ClassVar[frozenset[str]] = frozenset(
        {"network", "threads", "subprocess", "packages", "cpus", "fork", "savepoint", "protect_state"}
    )
    options: ClassVar[tuple[str, ...]] = ("python",)
    workspace_inside: ClassVar[bool] = True

    def __init__(self, *, python: str | os.PathLike[str] | None = None) -> None:
        super().__init__(python=python)
        self._seat: Seat | None = None

    @classmethod
    def shut_down(cls) -> None:
        houses.close()

    def release(self) -> None:
        seat, self._seat = self._seat, None
        if seat is not None:
            seat.close()

    def _take_channel(
        self, interpreter: Interpreter, preload: tuple[str, ...], options: dict[str, Any], limits: Limits
    ) -> JailChannel:
        """Another worker in our seat, a spare, or a session made for us."""
        if self._seat is not None and self._seat.usable:
            return JailChannel.start(self._seat, options)
        self.release()
        with houses.lease(interpreter, preload) as broker:
            spare = None
            if broker.stock is not None and "workspace" not in options:
                spare = broker.stock.claim(options, limits)
            if spare is not None:
                self._seat, channel = spare
                return channel
            self._seat = Seat(broker, options.get("workspace"), limits)
            return JailChannel.start(self._seat, options)

    def branch(self, channel: Channel, policy: ExecutionPolicy) -> JailBranch:
        assert isinstance(channel, JailChannel)
        return JailBranch(channel, {**_quota(policy), "under_tmp": channel.seat.broker.trees_under_tmp})

    def savepoint(self, channel: Channel, policy: ExecutionPolicy, replaced: SessionCopy | None) -> JailSavepoint:
        assert isinstance(channel, JailChannel)
        quota = {"bytes": 2 * policy.workspace_bytes, "files": 2 * WORKSPACE_FILES}
        older = replaced if isinstance(replaced, JailSavepoint) else None
        return JailSavepoint(channel, quota, older)

    def another(self) -> JailBackend:
        return JailBackend(python=self._python)

    def adopt(self, channel: Channel) -> None:
        assert isinstance(channel, JailChannel)
        self._seat = channel.seat

    def expected_isolation(self) -> Isolation:
        return Isolation.SEALED if upkeep.meter() is None else Isolation.METERED

    @classmethod
    def probe(cls, *, python: str | os.PathLike[str] | None = None, **_: Any) -> Availability:
        if sys.platform != "linux":
            return Availability(False, "needs Linux", "use wasm or pyodide elsewhere")
        found = NativeBackend.probe(python=python)
        if not found.available:
            return found
        try:
            interpreter = examine(python, "jail")
            houses.trial(interpreter)
        except ClocheError as exc:
            return Availability(False, f"the jail does not start: {exc.cause or exc.message}", REMEDY)
        details = {**found.details, "programs": describe_programs()}
        layers = (*jail_layers(), upkeep.layer())
        tier = Isolation.METERED if layers[-1].active else Isolation.SEALED
        return Availability(True, isolation=tier, layers=layers, details=details, lacking=_lacking())

    @classmethod
    def look_closer(
        cls, policy: ExecutionPolicy, *, python: str | os.PathLike[str] | None = None, **_: Any
    ) -> dict[str, Any]:
        house = houses.warm(examine(python, "jail"), _modules(policy))
        found = [name for name in house.preload if name not in house.left_out]
        broken = [f"{name} ({why})" for name, why in house.left_out.items() if why != NOT_INSTALLED]
        absent = [name for name, why in house.left_out.items() if why == NOT_INSTALLED]
        told = {"preloaded": found, "not installed": absent, "broken at import": broken}
        return {what: ", ".join(names) for what, names in told.items() if names}

    def open(self, policy: ExecutionPolicy, workspace: Workspace, timeout: float) -> JailChannel:  # type: ignore[override]  # another kind of channel, by design
        interpreter = examine(self._python, "jail")
        layers = tuple(layer.name for layer in jail_layers() if layer.active)
        options: dict[str, Any] = {
            **_quota(policy),
            "landlock": "landlock" in layers,
            "scoped": "landlock" in layers and syscalls.landlock_version() >= SCOPED,
            "limit_core": 0,
            "limit_memlock": 0,
            "limit_msgqueue": 0,
        }
        if not workspace.private:
            options["workspace"] = str(workspace.root)
        if policy.cpus is not None and "cpus" in _lacking():
            raise UnsupportedError(
                "the CPU of a session cannot be bounded here", capability="cpus", cause=upkeep.layer().purpose,
                remedy="drop policy.cpus; cloche doctor says what is missing",
            )  # fmt: skip
        limits = Limits.of(policy)
        channel = self._take_channel(interpreter, _modules(policy), options, limits)
        channel.layers = layers if channel.isolation < Isolation.METERED else (*layers, LAYER)
        channel.greeting = _greeting(policy)
        return channel


def _modules(policy: ExecutionPolicy) -> tuple[str, ...]:
    """What its sessions find imported."""
    return SCIENTIFIC if policy.preload is None else policy.preload


def _quota(policy: ExecutionPolicy) -> dict[str, Any]:
    return {"workspace_bytes": policy.workspace_bytes, "workspace_files": WORKSPACE_FILES}


def _lacking() -> tuple[str, ...]:
    """What this wall could honour elsewhere, but not here."""
    meter = upkeep.meter()
    return () if meter is not None and "cpu" in meter.controllers else ("cpus",)


def _greeting(policy: ExecutionPolicy) -> dict[str, Any]:
    """What is told to a worker at its start: all that may differ between sessions of one zygote, and nothing else."""
    own = {"environment": {**ZYGOTE_ENVIRONMENT, **policy.environment}} if policy.environment else {}
    return {
        "workspace": "/app",
        **own,
        "limits": {
            "data": policy.memory_bytes,
            "fsize": policy.workspace_bytes,
            "nofile": policy.open_files,
            "nproc": policy.processes,
        },
    }
