"""A seat as the host holds it: the namespaces and files of one session, behind its idle PID 1."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cloche.backends.jail.broker import ANSWER_PATIENCE, Ticket
from cloche.backends.jail.ends import is_beside, process_of, readable
from cloche.backends.jail.outside_users import outside_users
from cloche.backends.jail.tiers import Mode
from cloche.errors import BranchError, ClocheError, StartError
from cloche.session.callback_threads import threads
from cloche.session.deadline import CLEAN_UP, time_left
from cloche.session.workspace import Workspace
from cloche_guest.jail import messages, syscalls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from cloche.backends.jail.broker import Broker
    from cloche.backends.jail.cgroups import Group, Limits

END_PATIENCE = 5.0
CLEAR_PATIENCE = 2.0
NOT_YET = -2
FIRST_INSIDE = 1000
"""The jail's own user as its processes see it; `INSIDE` of ``places.h``."""
NAMESPACES = 4
"""Those of a seat that a copy of a worker enters: of users, of mounts, of processes."""
_family = threading.Lock()
"""Guards who is below whom: seats of one family may be closed by different threads."""


class JailWorkspace(Workspace):
    """Files inside the seat. Where we are root, they are touched as the guest's user: no file of ours can be meant."""

    def __init__(self, root: Path, user: tuple[int, int], *, private: bool, descriptor: int) -> None:
        super().__init__(root, private=private, location=f"/proc/self/fd/{descriptor}/.")
        self.descriptor = descriptor
        self._user = user

    @contextmanager
    def acting(self) -> Iterator[None]:
        if os.getuid() != 0:
            yield
            return
        try:
            syscalls.set_file_user(*self._user)
            yield
        finally:
            syscalls.set_file_user(0, 0)


class Seat:
    """The namespaces and files of one session. It outlives the worker in it: what crashes leaves its files behind.

    The seat of a branch lies below its parent's, and the kernel ends it with that; so a seat that is done with
    stays, empty, as long as there are others below it.
    """

    def __init__(
        self, broker: Broker, given: str | None, limits: Limits, parent: Seat | None = None, *, private: bool = False
    ) -> None:
        """`given`: a folder of the host that is its workspace; `private`: nobody else's. One with a parent is not
        bounded yet."""
        self.broker = broker
        self._limits = limits
        self.group: Group | None = None
        """What bounds all that runs in it; every worker joins it. That of a branch is its own: what one uses up is
        not missing in the other."""
        self.parent = parent
        if parent is None:
            self._make_group()
        self._given = given
        self._private = private or given is None
        self._owner = os.getpid()
        self._workspace: JailWorkspace | None = None
        self.ticket: Ticket | None = None
        """The answer that brought the seat."""
        self._unanswered = 0
        self._below: set[Seat] = set()
        self.births = self.birth = 0
        """How many branches were made of the session here; which of its parent's this is."""
        self._left = False
        self._ended = False
        self.spared: list[Callable[[float], int]] = []
        """Give handles of processes that outlive the worker: savepoints, for which they wait so long. -1 where there is
        none; `NOT_YET` where it is still to be seen."""
        self._uncleared = False
        self.control, self.their_control = messages.pair()
        self._talking = threading.RLock()  # the PID 1 of a family's first session is asked by all of them
        self.approving = threading.Lock()
        """Held while a branch enters its namespaces: what is allowed then is meant for it alone."""
        self.namespaces: list[int] = []
        self._user = outside_users.take() if parent is None and broker.own_users else 0
        broker.hold()

    # -- handles -------------------------------------------------------------------------------

    def answer(self) -> Ticket:
        """Handles of the seat; waited for when they are first needed."""
        if self.ticket is None:
            raise StartError("the seat was not asked for")
        return self.broker.wait(self.ticket)

    @property
    def usable(self) -> bool:
        """Whether another worker can be put into it."""
        return (
            self.broker.alive
            and self.ticket is not None
            and self.ticket.arrived
            and self.ticket.error is None
            and not readable(self.ticket.seat, 0)
            and self._is_cleared()
        )

    def _is_cleared(self) -> bool:
        if self._uncleared:
            self.clear(patience=time_left(CLEAR_PATIENCE), surely=True)
        return self.is_clear()

    @property
    def workspace(self) -> JailWorkspace:
        """Its files."""
        if self._workspace is None:
            self._workspace = JailWorkspace(
                Path(self._given or "/app"),
                self.user,
                private=self._private,
                descriptor=self.answer().workspace,
            )
        return self._workspace

    # -- its user ------------------------------------------------------------------------------

    @property
    def user(self) -> tuple[int, int]:
        """Who its guest is to us. The user of a branch is its session's: the kernel lets it enter its seat by that."""
        if self.parent is not None:
            return self.parent.user
        uid, gid = self.broker.user
        return uid + self._user, gid

    @property
    def inside_user(self) -> int:
        """Who its guest is to its PID 1."""
        return FIRST_INSIDE + self._user

    # -- its cgroup ----------------------------------------------------------------------------

    def _make_group(self) -> None:
        self.group = self.broker.make_group(self._limits)

    def limit(self, limits: Limits) -> None:
        """What it may use from now on: one that was made ahead has its limits only now."""
        self._limits = limits
        if self.group is not None:
            self.group.limit(limits)

    def open_group(self) -> list[int]:
        """Descriptors by which a worker joins."""
        meter = self.broker.meter
        if meter is not None and meter.joining_waits:
            threads.run(meter.stir)  # while the worker is being made
        try:
            return [] if self.group is None else self.group.open_joins()
        except OSError as exc:
            raise StartError("the session's cgroup is gone", cause=str(exc)) from None

    def put_into_group(self, handle: int) -> None:
        """Move the worker of a branch, which is a copy of one in another group, before anything is asked of it.

        It is told to do so itself, which is quicker; but it is the guest's, and may have forgotten.
        """
        try:
            if self.group is not None:
                pid = process_of(handle) or 0
                if not self.group.has(pid):
                    self.group.join(pid)
        except OSError as exc:
            raise BranchError("the branch could not be put into its cgroup", cause=str(exc)) from None

    # -- orders to its PID 1 -------------------------------------------------------------------

    def send(self, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        """An order that is not answered."""
        with suppress(OSError):
            messages.send(self.control, message, list(descriptors))

    def ask(
        self,
        message: dict[str, Any],
        descriptors: Sequence[int] = (),
        meanwhile: Callable[[], None] = lambda: None,
    ) -> list[int]:
        """An order that is answered with descriptors; something may be done until the answer comes."""
        reply: dict[str, Any] | None = {"error": "it does not answer"}
        handles: list[int] = []
        with self._talking:
            try:
                if self.is_clear():
                    self._order(message, descriptors)
                    try:
                        meanwhile()
                    finally:
                        if readable(self.control.fileno(), time_left(ANSWER_PATIENCE)):
                            self._unanswered -= 1
                            reply, handles = messages.receive(self.control)
            except OSError as exc:
                reply = {"error": str(exc)}
            except ClocheError:
                for handle in handles:
                    os.close(handle)
                raise
        if reply is None or "error" in reply:
            raise BranchError("the seat's PID 1 refused", cause="it is gone" if reply is None else reply["error"])
        return handles

    def clear(
        self, *, keep: Sequence[int] = (), since: int | None = None, patience: float = 0.0, surely: bool = False
    ) -> None:
        """End everything that runs in it but its idle PID 1, savepoints, and those behind `keep`.

        `since`: only what is younger. Savepoints that have not shown themselves yet are waited for so long; then all is
        left for later, or ended with them (`surely`).
        """
        order = {"kill": True} if since is None else {"kill": True, "since": since}
        found = [find(patience) for find in self.spared]
        if since is None:
            self._uncleared = NOT_YET in found and not surely
            if self._uncleared:  # who is to be spared is not known yet: later, before the seat is used again
                return
        with suppress(OSError):
            self._order(order, [*(handle for handle in found if handle >= 0), *keep])

    def wake(self) -> None:
        """Let everything go on that was stopped: a guest can stop its own savepoint."""
        with suppress(OSError):
            self._order({"wake": True})

    def allow(self, key: int) -> None:
        """Let one process of this family, the one that has this key, enter the seat of a branch once. 0: none."""
        if key:
            self.ask({"allow": key})  # must be known before the worker tries
        else:
            with suppress(OSError):
                self._order({"allow": 0})

    def _order(self, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        with self._talking:
            messages.send(self.control, message, list(descriptors))
            self._unanswered += 1

    def is_clear(self) -> bool:
        """Every order has been carried out: one to end all that is still on its way would hit the next worker."""
        with self._talking:
            while self._unanswered:
                patience = time_left(CLEAR_PATIENCE)
                if not readable(self.control.fileno(), patience) or messages.receive(self.control)[0] is None:
                    return False
                self._unanswered -= 1
        return True

    def holds(self, pid: int) -> bool:
        """Whether this process is a worker in here, by its namespaces. Raises OSError."""
        return is_beside(pid, process_of(self.answer().seat) or 0, below=self.parent is not None)

    def branched_since(self, births: int) -> bool:
        """Whether there are branches of the session here that were made after so many others."""
        with _family:
            return any(seat.birth > births for seat in self._below)

    def make_below(self, options: dict[str, Any]) -> Seat:
        """The seat of a branch of the worker here, with empty folders."""
        seat = Seat(self.broker, None, self._limits, parent=self)
        try:
            handles = self.ask({"branch": True, **options}, [seat.their_control.fileno()], meanwhile=seat._make_group)
        except ClocheError:
            seat._end()
            raise
        finally:
            seat.their_control.close()
        pid_one, *namespaces = handles[: 1 + NAMESPACES]
        workspace, private, parents_private = handles[1 + NAMESPACES :]
        seat.namespaces = namespaces
        seat.private_folders = (parents_private, private)
        seat.ticket = Ticket(0, arrived=True, seat=pid_one, workspace=workspace)
        with _family:
            self.births += 1
            seat.birth = self.births
            self._below.add(seat)
        return seat

    private_folders: tuple[int, int] = (-1, -1)
    """Only while a branch is made: the parent's private folder and the branch's."""

    def drop_namespaces(self) -> None:
        """When the worker is in; nobody else enters by them."""
        for descriptor in (*self.namespaces, *self.private_folders):
            if descriptor >= 0:
                os.close(descriptor)
        self.namespaces, self.private_folders = [], (-1, -1)

    # -- end -----------------------------------------------------------------------------------

    def close(self) -> None:
        """End everything in it; itself too, when nobody is below it."""
        if self._owner != os.getpid():  # a fork of the host: let go, and leave all to the parent
            self._end()
            return
        with _family:
            self._left = True
            if self._below:
                self.spared = []
                self.clear()
                return
            if self.parent is not None:
                self.parent._below.discard(self)
            orphaned = self.parent is not None and self.parent._left and not self.parent._below
        self._end()
        if orphaned and self.parent is not None:
            self.parent.close()

    def _end(self) -> None:
        """Kill its PID 1 and wait for the end of all."""
        if self._ended:
            return
        self._ended = True
        self.their_control.close()
        self.drop_namespaces()
        ticket = self.ticket
        if ticket is not None and self._owner == os.getpid():
            with suppress(StartError):
                self.answer()
            if ticket.seat >= 0:
                self._end_pid_one(ticket.seat)
        if self.group is not None:
            self.group.remove()
        self.control.close()
        for descriptor in (ticket.seat, ticket.workspace) if ticket is not None else ():
            if descriptor >= 0:
                with suppress(OSError):
                    os.close(descriptor)
        if self._user and self._owner == os.getpid():
            outside_users.give_back(self._user)
        self.broker.let_go()

    def _end_pid_one(self, handle: int) -> None:
        """It takes its namespace along. A keeper, in its place, must be left the time to end the others itself."""
        if self.broker.mode is Mode.CONFINED:
            self.control.close()
            if readable(handle, time_left(END_PATIENCE, least=CLEAN_UP)):
                return
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        readable(handle, time_left(END_PATIENCE, least=CLEAN_UP))
