"""What a backend gives a session: a way to reach a guest. It knows nothing of cells, bridges or deadlines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from cloche.errors import ProtocolError, UnsupportedError

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping

    from cloche.isolation import Isolation, Layer
    from cloche.policy import ExecutionPolicy
    from cloche.session.copying import BranchCopy, WaitingCopy
    from cloche.session.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Exit:
    """How a guest's process ended: a status, or a signal."""

    code: int | None = None
    signal: int | None = None
    out_of_memory: bool = False
    """The kernel ended a process of the guest because the guest's memory was used up."""
    out_of_fuel: bool = False
    """The wall ended the guest because it had used the instructions that it was given."""
    reason: str = ""
    """Where the wall knows better than a status or a signal can say."""

    def describe(self) -> str:
        """One phrase for people."""
        if self.out_of_fuel:
            return "out of fuel"
        if self.reason:
            return self.reason
        if self.signal is not None:
            import signal

            try:
                name = signal.Signals(self.signal).name
            except ValueError:
                name = str(self.signal)
            return f"killed by {name}" + (", out of memory" if self.out_of_memory else "")
        return "ended; its status went to somebody else" if self.code is None else f"exited with status {self.code}"


@dataclass(frozen=True, slots=True)
class Counted:
    """What a wall has counted itself; better than what a guest says of itself. None where it cannot count."""

    cpu_ms: float | None = None
    """CPU time of the cell, its child processes included."""
    peak_bytes: int | None = None
    """The most memory that the session has had at once, all of its processes together."""
    oom_kills: int = 0
    """Processes of the guest that were ended in this cell because its memory was used up."""
    fuel: int | None = None
    """Instructions that the user's code has used in this cell."""


NOTHING_COUNTED = Counted()


class Channel(ABC):
    """A live guest. The wire is a non-blocking stream socket; capture pipes are non-blocking descriptors."""

    wire: socket.socket
    stdout: int | None = None
    stderr: int | None = None
    isolation: Isolation
    layers: tuple[str, ...] = ()
    workspace: Workspace
    holds_context: bool = False
    """Whether the guest has the context already (see `Backend.context`), and need not be sent it."""
    greeting: Mapping[str, Any]
    """Backend-specific parameters of `initialize` (search path, limits the guest sets on itself)."""

    @property
    def pid(self) -> int | None:
        """The guest's process, as this host numbers it, where it has one."""
        return None

    @property
    def pid_now(self) -> int | None:
        """The same, where that can be told without waiting."""
        return self.pid

    @abstractmethod
    def interrupt(self, *, insist: bool) -> None:
        """Ask the running code to stop, or insist."""

    @abstractmethod
    def kill(self) -> None:
        """End the guest and what it started; returns at once."""

    def end_children(self, seconds: float) -> None:  # noqa: B027 - not every wall can tell them
        """The cell that began so many seconds ago was interrupted: end what it started and left running."""

    @abstractmethod
    def reap(self, timeout: float) -> Exit | None:
        """Wait for the guest's end. None when it has not ended in time."""

    def watch_exit(self) -> int | None:
        """A descriptor that is readable when the guest's process has ended, where the system has such a thing."""
        return None

    @abstractmethod
    def close(self) -> None:
        """Kill, and release everything that belongs to this guest but not to the session. Idempotent."""

    def errands(self) -> list[tuple[str, dict[str, Any], bytes | None]]:
        """Requests that go before the next cell, for a guest that keeps files of its own: method, parameters, body."""
        return []

    def remarks(self, code: Any) -> dict[str, Any]:
        """What the guest is told about code that it is to run or to compile, beside the code."""
        return {}

    def take_file(self, params: Any) -> None:
        """A guest that keeps files of its own tells what became of one. Raises `ProtocolError` for what is none."""
        raise ProtocolError("the guest called a method that does not exist", cause="'file'")

    def cpu_seconds(self) -> float | None:
        """CPU time the guest has used, where it can be told."""
        return None

    def begin_cell(self) -> None:  # noqa: B027 - most walls do not count
        """Count from here on. Not called for the first cell of a guest, whose start is no part of it."""

    def counted(self) -> Counted:
        """What was counted since the beginning of the cell."""
        return NOTHING_COUNTED


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether a backend can run here, and what it would give. Found without starting a session."""

    available: bool
    reason: str = ""
    remedy: str = ""
    isolation: Isolation | None = None
    layers: tuple[Layer, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    lacking: tuple[str, ...] = ()
    """Capabilities of the backend that this machine does not let it have."""


class Backend(ABC):
    """Opens channels. One instance belongs to one sandbox."""

    name: ClassVar[str]
    capabilities: ClassVar[frozenset[str]] = frozenset()
    """What it can do beyond the common contract; also the names of policy fields it can honour."""
    workspace_inside: ClassVar[bool] = False
    """Whether a session's files live with its guest, and not in a folder of the host."""
    has_opened: ClassVar[bool] = False
    """Whether a session of this backend was opened in this process: the first one may take much longer."""
    options: ClassVar[tuple[str, ...]] = ()
    """Names of the keyword options it takes."""
    sandbox: ClassVar[type[Any] | None] = None
    """The class that users see, where the backend brings one of its own."""

    context: Any = None
    """What the next guest is to find as `context`; set before `open`, for those that can bring it themselves."""

    passed_over: Mapping[str, str] = MappingProxyType({})
    """Backends that ``auto`` tried before this one, and why each was not taken."""

    def abilities(self) -> frozenset[str]:
        """Its capabilities, as far as the wall that can be had on this machine has them."""
        return self.capabilities

    @property
    def prepared(self) -> bool:
        """Whether nothing is left to be done once for all sessions, such as building what they run."""
        return True

    def prepare(self) -> None:  # noqa: B027 - most backends need nothing
        """Do that. It may take minutes, and no deadline counts meanwhile."""

    def refuse_context(self, context: Any, policy: ExecutionPolicy) -> None:  # noqa: B027 - most can take any
        """Raise `ValueTransferError` for one that no guest of this backend could hold."""

    def expected_isolation(self) -> Isolation:
        """The tier that a session would have here."""
        found = type(self).probe().isolation
        if found is None:
            from cloche.isolation import Isolation

            return Isolation.NONE
        return found

    @classmethod
    @abstractmethod
    def probe(cls, **options: Any) -> Availability:
        """Whether it can run here; quick (under 100 ms) and without side effects."""

    @classmethod
    def look_closer(cls, policy: ExecutionPolicy, **options: Any) -> Mapping[str, Any]:  # noqa: ARG003 - most have none
        """Details that take too long to find for `probe`; asked for by ``cloche doctor --preload``."""
        return {}

    def warm(self, policy: ExecutionPolicy) -> None:  # noqa: B027 - most backends start cold
        """Wait until sessions of this policy begin with their modules imported."""

    @classmethod
    def set_up(
        cls,
        tell: Callable[[str], object],  # noqa: ARG003 - most need none
        advance: Callable[[float], object] = float,  # noqa: ARG003 - as above
    ) -> Mapping[str, Any] | None:
        """Fetch and build what sessions need beyond this package, unless it is there; the first session does it too.

        `tell` is given a sentence before each step that takes time, `advance` how far that step is, from 0 to 1, where
        that can be told. Returns what is there afterwards, for people to read; None where there is nothing to set up.
        """
        return None

    def drive(self, session: Any) -> Any:
        """A driver of its own, where a session is no other process; None: the common one. Not for other packages."""
        return None

    def drive_async(self, session: Any) -> Any:
        """The same for event loops."""
        return None

    def release(self) -> None:  # noqa: B027 - most backends keep nothing
        """Give up what outlives a guest, such as the files of the session."""

    @classmethod  # noqa: B027 - most backends keep nothing
    def shut_down(cls) -> None:
        """End what this process keeps for all sessions of this backend. The next session starts it again."""

    def branch(self, channel: Channel, policy: ExecutionPolicy) -> BranchCopy:
        """Begin a branch of this backend's session. May block."""
        raise lacking(self.name, "fork")

    def savepoint(self, channel: Channel, policy: ExecutionPolicy, replaced: WaitingCopy | None) -> WaitingCopy:
        """Begin a savepoint, in place of an older one. May block."""
        raise lacking(self.name, "savepoint")

    def another(self) -> Backend:
        """One like this, for a branch of its session."""
        raise lacking(self.name, "fork")

    def adopt(self, channel: Channel) -> None:
        """This instance serves the session behind `channel` from now on."""
        raise lacking(self.name, "fork")

    @abstractmethod
    def open(self, policy: ExecutionPolicy, workspace: Workspace, timeout: float) -> Channel:
        """Start a guest. Returns before the guest is ready; requests may be sent at once."""


def lacking(backend: str, capability: str) -> UnsupportedError:
    """The error of a backend that cannot do something."""
    return UnsupportedError(
        f"the {backend} backend cannot {capability}",
        capability=capability,
        remedy="cloche doctor lists what each backend can do",
    )
