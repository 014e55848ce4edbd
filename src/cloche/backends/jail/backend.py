"""The jail backend: what it needs of the machine, and how a session is asked for."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, ClassVar

from cloche.backends.interpreter import examine
from cloche.backends.jail.launch import discard_launch, launch_ahead
from cloche.backends.jail.programs import describe_programs
from cloche.backends.native import NativeBackend
from cloche.errors import ClocheError
from cloche.session.channel import Availability

# All the rest is imported where it is used: while the first jail of a process comes up.
if TYPE_CHECKING:
    from cloche.backends.jail.branching import JailBranch, JailSavepoint
    from cloche.backends.jail.channel import JailChannel
    from cloche.backends.jail.tenancy import Tenancy
    from cloche.isolation import Isolation
    from cloche.policy import ExecutionPolicy
    from cloche.session.channel import Channel
    from cloche.session.copying import WaitingCopy
    from cloche.session.workspace import Workspace

_HOUSES = "cloche.backends.jail.houses"


class JailBackend(NativeBackend):
    """Sessions forked from a warm interpreter into namespaces of their own."""

    name: ClassVar[str] = "jail"
    capabilities: ClassVar[frozenset[str]] = (NativeBackend.capabilities - {"network_access"}) | {
        "network", "cpus", "mounts", "fork", "savepoint", "protect_state",
    }  # fmt: skip
    options: ClassVar[tuple[str, ...]] = ("python",)
    workspace_inside: ClassVar[bool] = True

    def __init__(self, *, python: str | os.PathLike[str] | None = None) -> None:
        super().__init__(python=python)
        self._held: Tenancy | None = None

    @property
    def _tenancy(self) -> Tenancy:
        if self._held is None:
            from cloche.backends.jail.tenancy import Tenancy

            self._held = Tenancy()
        return self._held

    @classmethod
    def shut_down(cls) -> None:
        if _HOUSES in sys.modules:
            from cloche.backends.jail.houses import houses
            from cloche.backends.jail.walls import walls

            houses.close()
            walls.forget()

    def release(self) -> None:
        if self._held is not None:
            self._held.release()

    def branch(self, channel: Channel, policy: ExecutionPolicy) -> JailBranch:
        return self._tenancy.branch(channel, policy)

    def savepoint(self, channel: Channel, policy: ExecutionPolicy, replaced: WaitingCopy | None) -> JailSavepoint:
        return self._tenancy.savepoint(channel, policy, replaced)

    def another(self) -> JailBackend:
        return JailBackend(python=self._python)

    def adopt(self, channel: Channel) -> None:
        self._tenancy.adopt(channel)

    def abilities(self) -> frozenset[str]:
        from cloche.backends.jail.tenancy import lacking
        from cloche.backends.jail.walls import walls

        return self.capabilities.difference(lacking(walls.settle(examine(self._python, "jail"))))

    def expected_isolation(self) -> Isolation:
        from cloche.backends.jail.upkeep import upkeep
        from cloche.backends.jail.walls import walls

        return walls.settle(examine(self._python, "jail")).tier(metered=upkeep.meter() is not None)

    @classmethod
    def probe(cls, *, python: str | os.PathLike[str] | None = None, **_: Any) -> Availability:
        if sys.platform != "linux":
            return Availability(False, "needs Linux", "use wasm or pyodide elsewhere")
        found = NativeBackend.probe(python=python)
        if not found.available:
            return found
        from cloche.backends.jail.tenancy import lacking
        from cloche.backends.jail.tiers import layers_of
        from cloche.backends.jail.upkeep import upkeep
        from cloche.backends.jail.walls import walls

        try:
            mode = walls.settle(examine(python, "jail"))
        except ClocheError as exc:
            return Availability(False, exc.cause or exc.message, exc.remedy or "cloche doctor shows what is missing")
        details = {**found.details, "programs": describe_programs()}
        layers = (*layers_of(mode), upkeep.layer())
        tier = mode.tier(metered=layers[-1].active)
        return Availability(True, isolation=tier, layers=layers, details=details, lacking=lacking(mode))

    @classmethod
    def look_closer(
        cls, policy: ExecutionPolicy, *, python: str | os.PathLike[str] | None = None, **_: Any
    ) -> dict[str, Any]:
        from cloche.backends.jail.houses import NOT_INSTALLED, houses
        from cloche.backends.jail.tenancy import modules_of
        from cloche.backends.jail.walls import walls

        interpreter = examine(python, "jail")
        house = houses.warm(interpreter, modules_of(policy), walls.settle(interpreter))
        found = [name for name in house.preload if name not in house.left_out]
        broken = [f"{name} ({why})" for name, why in house.left_out.items() if why != NOT_INSTALLED]
        absent = [name for name, why in house.left_out.items() if why == NOT_INSTALLED]
        told = {"preloaded": found, "not installed": absent, "broken at import": broken}
        return {what: ", ".join(names) for what, names in told.items() if names}

    def warm(self, policy: ExecutionPolicy) -> None:
        self.look_closer(policy, python=self._python)

    def claim(self, policy: ExecutionPolicy) -> JailChannel | None:
        """A session with a workspace of its own, where one is at hand: for those who must not wait, and else `open`."""
        return self._tenancy.claim(examine(self._python, "jail"), policy) if _HOUSES in sys.modules else None

    def open(self, policy: ExecutionPolicy, workspace: Workspace, timeout: float) -> JailChannel:  # type: ignore[override]  # another kind of channel, by design
        interpreter = examine(self._python, "jail")
        if _HOUSES in sys.modules:
            return self._tenancy.open(interpreter, policy, workspace, self.context)
        launch_ahead(interpreter)  # the first of this process: it comes up while the rest is imported
        try:
            return self._tenancy.open(interpreter, policy, workspace, self.context)
        finally:
            discard_launch()
