"""Copies to which a session returns: the mark of a savepoint, and the guard of a protected cell."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from cloche.errors import BranchError, ClocheError
from cloche.session.machine import Call

if TYPE_CHECKING:
    from cloche.result import SessionState
    from cloche.session.copying import WaitingCopy
    from cloche.session.guest import Guest
    from cloche.session.live import LiveSession


class Returns:
    """What one session can go back to. Each copy waits beside the guest, which runs on."""

    def __init__(self, session: LiveSession) -> None:
        self._session = session
        self._mark: WaitingCopy | None = None
        self._guard: WaitingCopy | None = None
        self.unprotected: str | None = None
        """Why the next cell has no copy to return to, where the policy demands one."""

    # -- when it is told to --------------------------------------------------------------------

    def begin_mark(self) -> WaitingCopy:
        """What goes before the request for a savepoint."""
        session = self._session
        return session.backend.savepoint(session.live_guest().channel, session.policy, None)

    def set_mark(self, mark: WaitingCopy) -> None:
        """`undo` returns here from now on."""
        older, self._mark = self._mark, mark
        if older is not None:
            older.abandon()

    def mark_in_pause(self, mark: WaitingCopy) -> None:
        """Have the mark made while nobody waits for it. What fails then is told by whoever wants to return to it."""
        guest = self._session.live_guest()
        _post_copy(guest, mark)
        self.set_mark(mark)
        self.renew_guard(guest)

    def return_to_mark(self) -> None:
        """Be again what we were at the last savepoint."""
        mark = self._mark
        if mark is None:
            raise BranchError("there is no savepoint", remedy="call savepoint() before the cells to be undone")
        mark.check()
        self._mark = None
        if self._guard is not None:
            self._guard.abandon()
            self._guard = None
        self._replace_guest(mark)

    # -- because a cell died -------------------------------------------------------------------

    def guard_next(self, guest: Guest) -> None:
        """Before the next request: a copy of the state of now, to which a cell that dies returns."""
        if self._session.policy.protect_state:
            self._guard = self._save(guest, None)
            if self._guard is not None:
                guest.pending.append(Call("branch", self._guard.params, silent=True))

    def renew_guard(self, guest: Guest) -> None:
        """In the pause after a change: a copy of the state of now."""
        if not self._session.policy.protect_state:
            return
        older, self._guard = self._guard, None
        self._guard = self._save(guest, older)
        if self._guard is not None:
            _post_copy(guest, self._guard)
        if older is not None:
            older.abandon()

    def _save(self, guest: Guest, older: WaitingCopy | None) -> WaitingCopy | None:
        """A copy of the state of now. The cell has run, or is to run, whether there is one or not: without it the next
        cell says "reset" should it die, and the result before it says why."""
        self.unprotected = None
        try:
            return self._session.backend.savepoint(guest.channel, self._session.policy, older)
        except (ClocheError, OSError) as exc:
            self.unprotected = str(exc).partition("\n")[0]
            return None

    def files_changed(self) -> None:
        """The host has put a file there: that is not the next cell's doing."""
        if self._guard is not None:
            self._guard.files_changed()

    def recover(self) -> SessionState:
        """The guest has died: return to the state before the cell, where there is a copy of it."""
        guard, self._guard = self._guard, None
        if guard is None:
            self._session.forget_guest()
            return "reset"
        try:
            guest = self._replace_guest(guard)
        except (ClocheError, OSError):  # it died too, or was never made, or there is no room for it
            guard.abandon()
            self._session.forget_guest()
            return "reset"
        guest.pending.append(Call("resume"))
        self.guard_next(guest)
        return "restored"

    def _replace_guest(self, copy: WaitingCopy) -> Guest:
        """A copy that has waited becomes the guest. Its first request tells it so."""
        self._session.forget_guest()
        return self._session.attend(copy.take_over(), greeted=True)

    # -- the end -------------------------------------------------------------------------------

    def forget(self) -> None:
        """End them all."""
        copies = (self._mark, self._guard)
        self.leave()
        for copy in copies:
            if copy is not None:
                copy.abandon()

    def leave(self) -> None:
        """They belong to somebody else: to the parent of a forked child, or to whoever has the guest now."""
        self._mark = self._guard = None


def _post_copy(guest: Guest, copy: WaitingCopy) -> None:
    guest.machine.post(Call("branch", copy.params, silent=True))
    guest.pump.perform(perf_counter())
