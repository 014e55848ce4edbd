"""The in-process backend: code that keeps to the guard-rails, in a worker or in this very process. No boundary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from cloche.backends.inprocess.guards import (
    Guard,
    Worker,
    allowed_modules,
    one_of,
    require_restricted,
    violations_in,
    why_not_restricted,
)
from cloche.backends.native import NativeBackend, NativeChannel
from cloche.isolation import Isolation
from cloche.session.channel import Availability

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cloche.backends.inprocess.kernel import InlineKernel
    from cloche.policy import ExecutionPolicy
    from cloche.session.aio import AsyncDriver
    from cloche.session.live import LiveSession
    from cloche.session.sync import SyncDriver
    from cloche.session.workspace import Workspace

_FLAVOURS = {"ast": "checked", "restricted": "restricted"}


class GuardedChannel(NativeChannel):
    """A worker. The host reads each cell before the worker does."""

    isolation = Isolation.NONE
    checks_here = True
    """Whether the guard is the one that reads the tree, here, and not the worker's compiler."""

    def remarks(self, code: Any) -> dict[str, Any]:
        if not self.checks_here or type(code) is not str:
            return {}
        refused = violations_in(code)
        return {"refused": refused} if refused else {}


class InProcessBackend(NativeBackend):
    """Guard-rails. `guard` and `worker` as in `cloche.InProcessSandbox`."""

    name: ClassVar[str] = "inprocess"
    capabilities: ClassVar[frozenset[str]] = frozenset({"network_access", "site_packages"})
    options: ClassVar[tuple[str, ...]] = ("guard", "worker", "modules")
    channel_type: ClassVar[type[NativeChannel]] = GuardedChannel

    def __init__(
        self, *, guard: Guard = "ast", worker: Worker = "process", modules: Iterable[str] | None = None
    ) -> None:
        super().__init__()
        self.guard: Guard = one_of(Guard, guard, "guard")
        self.worker: Worker = one_of(Worker, worker, "worker")
        self.modules = allowed_modules(modules)
        self.flavour = _FLAVOURS[self.guard]
        self.inline: InlineKernel | None = None
        """With ``worker="inline"``: the session's kernel, until it is reset."""
        if self.guard == "restricted":
            require_restricted()

    @classmethod
    def probe(cls, *, guard: str = "ast", **_: Any) -> Availability:
        found = super().probe()
        restricted = why_not_restricted()
        if guard == "restricted" and restricted is not None:
            return Availability(False, restricted, "pip install 'cloche[restricted]'")
        details = {**found.details, "restricted": restricted or "available"}
        return Availability(
            found.available, found.reason, found.remedy, Isolation.NONE, layers=found.layers, details=details
        )

    def drive(self, session: LiveSession) -> SyncDriver | None:
        if self.worker == "process":
            return None
        from cloche.backends.inprocess.drivers import InlineDriver

        return InlineDriver(session, self)

    def drive_async(self, session: LiveSession) -> AsyncDriver | None:
        if self.worker == "process":
            return None
        from cloche.backends.inprocess.async_driver import AsyncInlineDriver

        return AsyncInlineDriver(session, self)

    def release(self) -> None:
        kernel, self.inline = self.inline, None
        if kernel is not None:
            kernel.forget()

    def expected_isolation(self) -> Isolation:
        return Isolation.NONE

    def open(self, policy: ExecutionPolicy, workspace: Workspace, timeout: float) -> NativeChannel:
        channel = super().open(policy, workspace, timeout)
        if isinstance(channel, GuardedChannel):
            channel.checks_here = self.guard == "ast"
        channel.greeting = {**channel.greeting, "modules": sorted(self.modules)}
        return channel
