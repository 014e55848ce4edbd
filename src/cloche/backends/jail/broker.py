"""The host's end of a jail: one init process with its zygote, and the sessions asked of it."""

from __future__ import annotations

import _socket
import itertools
import os
import select
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from cloche.backends.jail.ends import readable
from cloche.backends.jail.hierarchies import NoGroups
from cloche.backends.jail.launch import take_launch
from cloche.backends.jail.mounts import Place
from cloche.backends.jail.tiers import Failure, Mode
from cloche.backends.jail.upkeep import upkeep
from cloche.errors import StartError
from cloche.session.callback_threads import threads
from cloche.session.deadline import CLEAN_UP, current_deadline, time_left
from cloche_guest.jail import messages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cloche.backends.interpreter import Interpreter
    from cloche.backends.jail.cgroups import Group, Limits
    from cloche.backends.jail.spares import Stock
    from cloche.backends.jail.templates import Templates

START_PATIENCE = 10.0
ANSWER_PATIENCE = 10.0
IMPORT_PATIENCE = 60.0
"""Of one module. A library that takes longer to import is left out."""

HANDLES = 3
"""That come with the answer to a request: of the worker, of its seat, of the workspace."""


class Ticket:
    """A session that was asked for. The wire works at once; the rest comes with the zygote's answer."""

    __slots__ = ("arrived", "error", "number", "seat", "template", "until", "worker", "workspace")

    def __init__(
        self, number: int, *, arrived: bool = False, seat: int = -1, workspace: int = -1, template: int | None = None
    ) -> None:
        """`template`: the one that it is forked from."""
        self.number = number
        self.arrived = arrived
        self.error: str | None = None
        self.worker = -1
        self.seat = seat
        self.workspace = workspace
        self.template = template
        self.until = current_deadline()
        """Nobody waits for the answer longer than the call that asked for it may take."""


class Broker:
    """One jail of this process: its init, its zygote, and what they answered. Any thread may ask."""

    def __init__(self, interpreter: Interpreter, preload: Sequence[str], mode: Mode = Mode.SEALED) -> None:
        self.interpreter = interpreter
        self.preload = tuple(preload)
        self.mode = mode
        self.standing = False
        """Its wall is up; imports may still be under way."""
        self.ready = False
        self.importing: str | None = None
        """What its zygote is importing, or was when it ended."""
        self.left_out: dict[str, str] = {}
        """What could not be imported, and why."""
        self.sessions = 0
        """How many were made, spares included."""
        self._numbers = itertools.count(1)
        self._tickets: dict[int, Ticket] = {}
        self._owner = os.getpid()
        self._failure: str | None = None
        self._failure_code: int | None = None
        self.stock: Stock | None = None
        """What is kept ready in it."""
        self.templates: Templates | None = None
        """Contexts that are kept in it."""
        self._seats = 0
        self._folders_asked = 0
        self._retired = False
        self._make_locks()
        self._launch = take_launch(interpreter, self.preload, confined=mode is Mode.CONFINED)
        self.user = self._launch.user
        """Of its own processes."""
        self.own_users = self._launch.own_users
        """Whether each session has a user of its own."""
        self.trees_under_tmp = _outermost([path for path in self._launch.trees if path.startswith("/tmp/")])
        self._line, self._folders = self._launch.line, self._launch.folders
        self.meter = upkeep.meter()  # while the process comes up

    def _make_locks(self) -> None:
        self._state = threading.Lock()  # never held while waiting
        self._sending = threading.Lock()
        self._reading = threading.Lock()  # held by the one who waits for all
        self._mapping = threading.Lock()

    @property
    def alive(self) -> bool:
        """Whether sessions can still be asked for. Looks: a jail that died says so by closing its line."""
        if self._failure is None and self._owner == os.getpid():
            self.look(0)
        return self._failure is None and self._owner == os.getpid()

    def request(self, options: dict[str, Any], descriptors: list[int], *, again: bool = False) -> Ticket:
        """Ask for a session over these descriptors (`again`: in a seat that is there). Returns at once."""
        ticket = Ticket(next(self._numbers), template=options.get("template"))
        self.sessions += 1
        with self._state:
            self._tickets[ticket.number] = ticket
        try:
            with self._sending:
                messages.send(self._line, {**options, "id": ticket.number, "again": again}, descriptors)
        except ConnectionError:
            self.look(0)  # it is gone, and may have said why
        except OSError as exc:  # no room for the descriptors, or no memory: of this request alone
            with self._state:
                self._tickets.pop(ticket.number, None)
            ticket.error, ticket.arrived = f"the jail could not be asked: {exc}", True
        return ticket

    def tell(self, message: dict[str, Any], descriptors: list[int]) -> bool:
        """Something for the zygote itself, which is not answered; whether it could be sent."""
        try:
            with self._sending:
                messages.send(self._line, {**message, "again": True}, descriptors)
        except OSError:
            return False
        return True

    def make_group(self, limits: Limits) -> Group | None:
        """The cgroup of one session, where this jail has them."""
        if self.meter is None:
            return None
        try:
            return self.meter.make_group(limits)
        except (OSError, NoGroups) as exc:
            raise StartError(
                "the session's cgroup could not be made",
                cause=str(exc),
                remedy="cloche doctor shows what is here; CLOCHE_MASK_LAYERS=cgroup does without, at a lower tier",
            ) from None

    def map_folder(self, path: str, uid: int, *, read_only: bool = False) -> int:
        """A mount of a host folder for this user, who is a session's."""
        try:
            place = Place.of(path)
        except OSError as exc:
            raise _not_given(path, os.strerror(exc.errno or 0)) from None
        request = {"folder": place.path, "device": place.device, "inode": place.inode, "uid": uid}
        request["read_only"] = read_only
        with self._mapping:
            message, descriptors = self._ask_for_folder(request)
        if not descriptors:
            raise _not_given(path, "the jail is gone" if message is None else message.get("error"))
        return descriptors[0]

    def _ask_for_folder(self, request: dict[str, Any]) -> tuple[dict[str, Any] | None, list[int]]:
        """The answer to this request; those that came too late for earlier ones are dropped on the way."""
        messages.send(self._folders, request)
        self._folders_asked += 1
        message: dict[str, Any] | None = {}
        descriptors: list[int] = []
        while self._folders_asked and message is not None:
            for descriptor in descriptors:
                os.close(descriptor)
            if not readable(self._folders.fileno(), time_left(ANSWER_PATIENCE)):
                return {"error": "the jail did not answer in time"}, []
            message, descriptors = messages.receive(self._folders)
            self._folders_asked -= 1
        return message, descriptors

    def wait(self, ticket: Ticket) -> Ticket:
        """Wait for the answer to a request. Whoever waits reads for all."""
        end = min(time.monotonic() + time_left(ANSWER_PATIENCE, least=CLEAN_UP), ticket.until + CLEAN_UP)
        while not ticket.arrived:
            left = end - time.monotonic()
            if left <= 0:
                raise StartError("the jail did not answer in time")
            self.look(min(left, 0.5), ticket)
        if ticket.error is not None:
            raise StartError("the jail could not make a session", cause=ticket.error)
        return ticket

    def forget(self, ticket: Ticket) -> None:
        """Nobody wants what was asked for any more: should it still come, it is closed, and ends by that."""
        with self._state:
            waiting = self._tickets.pop(ticket.number, None)
        if waiting is not None:
            ticket.error, ticket.arrived = "nobody waits for it any more", True

    def wait_ready(self) -> None:
        """Wait until its zygote has come up and has imported what it should."""
        seen, end = None, time.monotonic() + START_PATIENCE
        while not self.ready:
            if self._failure is not None:
                raise StartError("the jail did not start", cause=self._failure)
            if self.importing != seen:
                seen, end = self.importing, time.monotonic() + IMPORT_PATIENCE
            if time.monotonic() > end:
                raise StartError("the jail did not start in time")
            self.look(0.1)

    def wait_standing(self) -> Failure | None:
        """Wait until its wall is up, or could not be built: then the reason."""
        end = time.monotonic() + time_left(START_PATIENCE)
        while not self.standing:
            if self._failure is not None:
                return Failure(self._failure, self._failure_code)
            if time.monotonic() > end:
                raise StartError("the jail did not start in time")
            self.look(0.1)
        return None

    def look(self, timeout: float, ticket: Ticket | None = None) -> None:
        """Take all that has been answered. Whoever waits (for `ticket`) may find that another has read its answer."""
        if not (self._reading.acquire(timeout=timeout) if timeout else self._reading.acquire(blocking=False)):
            return
        try:
            if self._failure is not None or self._line.fileno() < 0:
                self._fail("closed")
            elif ticket is None or not ticket.arrived:
                self._read(timeout)
        finally:
            self._reading.release()

    def _read(self, timeout: float) -> None:
        poll = select.poll()
        poll.register(self._line.fileno(), select.POLLIN)
        while poll.poll(timeout * 1000):
            message, descriptors = messages.receive(self._line)
            self._take(message, descriptors)
            if message is None:
                return
            timeout = 0

    def _take(self, message: dict[str, Any] | None, descriptors: list[int]) -> None:
        if message is None:
            self._fail("the jail's init ended")
        elif "standing" in message:
            self.standing = True
        elif "importing" in message:
            self.importing = message["importing"]
        elif "unfit" in message:
            self._fail(message["why"])
        elif "ready" in message:
            self.left_out, self.importing = dict(message.get("left_out") or {}), None
            self.ready = self.standing = True
        elif "error" in message and "failed" not in message:
            self._failure_code = message.get("errno")
            self._fail(message["error"])
        elif "template_ready" in message or "template_gone" in message:
            self._hear_of_template(message)
        else:
            self._hear_of_ticket(message, descriptors)

    def _hear_of_ticket(self, message: dict[str, Any], descriptors: list[int]) -> None:
        """A session that was asked for: its handles, or why there is none."""
        with self._state:
            ticket = self._tickets.pop(int(message.get("session") or message.get("failed") or 0), None)
        whole = len(descriptors) == HANDLES  # those for which there was no room here were dropped on the way
        if ticket is not None and whole and "error" not in message:
            ticket.worker, ticket.seat, ticket.workspace = descriptors
        else:
            for descriptor in descriptors:
                os.close(descriptor)
        if ticket is not None:
            ticket.error = message.get("error", None if whole else "there are no file descriptors left")
            ticket.arrived = True

    def _hear_of_template(self, message: dict[str, Any]) -> None:
        gone = message.get("template_gone")
        if gone is None:
            if self.templates is not None:
                self.templates.is_ready(message["template_ready"])
            return
        if self.templates is not None:
            self.templates.is_gone(gone)
        with self._state:
            lost = [ticket for ticket in self._tickets.values() if ticket.template == gone]
            for ticket in lost:
                del self._tickets[ticket.number]
        for ticket in lost:
            ticket.error, ticket.arrived = "its template is gone", True

    def _fail(self, why: str) -> None:
        """From now on nothing can be asked. The first reason stands: what follows is its consequence."""
        with self._state:
            self._failure = why = self._failure or why
            tickets, self._tickets = self._tickets, {}
        for ticket in tickets.values():
            ticket.error, ticket.arrived = why, True

    # -- the end -------------------------------------------------------------------------------

    def hold(self) -> None:
        """Somebody has a seat here."""
        with self._state:
            self._seats += 1

    def let_go(self) -> None:
        """A seat was given up. A retired jail ends with the last one."""
        with self._state:
            self._seats -= 1
            over = self._retired and not self._seats
        if over and self._owner == os.getpid():
            threads.run(self.close)

    def retire(self) -> None:
        """Another one takes the new sessions; this one lives on for those that it has."""
        with self._state:
            self._retired = True
        for kept in (self.stock, self.templates):
            if kept is not None:
                kept.close()
        with self._state:
            over = not self._seats
        if over:
            self.close()

    def leave(self) -> None:
        """In a forked child: let go of the parent's jail without touching it."""
        self._make_locks()  # whoever held one is not here
        self._launch.leave()

    def close(self) -> None:
        """End the jail and every session in it."""
        for kept in (self.stock, self.templates):
            if kept is not None:
                kept.close()
        self._fail("closed")
        with suppress(OSError):
            self._line.shutdown(_socket.SHUT_RDWR)  # whoever waits on it wakes up
        with self._reading, self._sending, self._mapping:
            self._launch.hang_up()
        self._launch.close()


def _outermost(paths: list[str]) -> list[str]:
    """Without those that lie in others."""
    return [path for path in paths if not any(path.startswith(other + "/") for other in paths)]


def _not_given(path: str, why: str | None) -> StartError:
    return StartError(
        f"{path} cannot be given to the jail",
        cause=why,
        remedy="use a folder of your own (as root: on a file system with mapped mounts), or leave it out",
    )
