"""Requests of a session: how one for a cell is made, what became of it, and who is told."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeVar

from cloche.errors import (
    CallTimeoutError,
    ProtocolError,
    RequestError,
    SessionLostError,
    StartError,
    ValueTransferError,
)
from cloche.guidance import unprotected_guidance
from cloche.result import SandboxResult
from cloche.session.clock import clock
from cloche.session.deadline import CLEAN_UP, working_for
from cloche.session.machine import Call, Finished
from cloche.session.operations import Operation, read_reply
from cloche.session.verdict import build_result
from cloche_guest.codes import INTERNAL_ERROR

if TYPE_CHECKING:
    from cloche.result import SessionState
    from cloche.session.guest import Guest
    from cloche.session.live import LiveSession

T = TypeVar("T")


class Requests:
    """Those of one session, one at a time."""

    def __init__(self, session: LiveSession) -> None:
        self._session = session
        self._cell_begun = False
        self._stdin: str | None = None
        self.cells = 0
        """How many have been run."""

    def cell_call(self, code: str, *, live: bool, **options: Any) -> Call:
        """The request for one cell. `options` are what some walls' guests understand."""
        if type(code) is not str:
            raise RequestError(f"code must be a str, not {type(code).__name__}")
        self._stdin = options.get("stdin")
        check_stdin(self._stdin, self._session.policy.value_max_bytes)
        self.cells += 1
        self._cell_begun = True
        session, guest = self._session, self._session.guest
        if session.given_workspace is not None and guest is not None:
            guest.channel.workspace.before_cell()
        if guest is not None and guest.greeted:
            guest.channel.begin_cell()
        session.logger.log_execution_start("python", session.policy, backend=session.backend.name, cell=self.cells)
        return Call("execute", {"code": code, "cell": self.cells, "live": live, **options})

    def read_operation(self, operation: Operation[T], guest: Guest) -> T:
        """The value of a finished operation, or the error it ended in."""
        session = self._session
        finished = guest.finished
        if finished.death is not None:
            state = self._recover(guest)
            if state == "reset":
                self._tell_lost(guest)
            guest.raise_absence()
            if finished.stop is not None:
                raise CallTimeoutError(
                    f"{operation.name} did not return in time; the session was ended",
                    session_state=state,
                    cause=finished.stop,
                )
            raise SessionLostError(f"the session ended during {operation.name}", cause=finished.detail)
        if finished.failed_method is not None:
            session.forget_guest()
            raise StartError("the guest refused to start", cause=(finished.error or {}).get("message"))
        self._greet(guest)
        if finished.stop is not None and finished.error is not None:
            raise CallTimeoutError(
                f"{operation.name} did not return in time",
                session_state="kept",
                cause=f"{finished.stop}; the object's own code ran",
            )
        value = read_reply(operation, finished)
        if operation.changes_state:
            self._renew_guard(guest)
        if session.witness is not None:
            operation.tell(session.witness)
        return value

    def read_cell(self, code: str, guest: Guest, started: float, timeout_ms: int) -> SandboxResult:
        """The result of a finished cell, however it ended."""
        session = self._session
        elapsed = (clock() - started) * 1000
        self._cell_begun = False
        try:
            result = self._result(code, guest, guest.finished, elapsed, timeout_ms)
        except ProtocolError as exc:
            broken = dataclasses.replace(guest.finished, result=None, death="protocol", detail=str(exc))
            result = build_result(code, guest.channel, guest.machine, broken, session.policy, elapsed, timeout_ms)
        except (StartError, SessionLostError):
            session.forget_guest()
            self._tell_lost(guest)
            raise
        if self._stdin is not None:
            result = dataclasses.replace(result, stdin=self._stdin)
        if result.session_state == "reset":  # after the result: its files may go with it
            result = dataclasses.replace(result, session_state=self._recover(guest))
        else:
            self._after_kept_cell(guest, started)
        why = session.returns.unprotected
        if why is not None and result.guidance is None:
            result = dataclasses.replace(result, guidance=unprotected_guidance(why))
        self.tell_of(result, timeout_ms)
        return result

    def tell_of(self, result: SandboxResult, timeout_ms: int) -> None:
        """A cell has ended: for the log and whoever keeps a record."""
        session = self._session
        self._log_limits(result)
        session.logger.log_execution_complete(result)
        if session.witness is not None:
            session.witness.cell_ended(result, timeout_ms)

    def cell_abandoned(self, code: str, started: float, timeout_ms: int) -> None:
        """Whoever waited for a cell has gone away, and it was stopped; nobody gets a result, but it has run."""
        session = self._session
        begun, self._cell_begun = self._cell_begun, False
        if not begun or session.witness is None:
            return
        elapsed = (clock() - started) * 1000
        state: SessionState = "reset" if session.guest is None else "kept"
        stopped = SandboxResult(
            outcome="cancelled",
            exit_code=130,
            code=code,
            stdin=self._stdin,
            duration_ms=elapsed,
            session_state=state,
            error="abandoned",
        )
        session.witness.cell_ended(stopped, timeout_ms)

    def _tell_lost(self, guest: Guest) -> None:
        session = self._session
        if session.witness is not None and guest.greeted:
            session.witness.lost()

    def _result(self, code: str, guest: Guest, finished: Finished, elapsed: float, timeout_ms: int) -> SandboxResult:
        if finished.death is not None:
            guest.raise_absence()
        elif finished.error is not None:
            if finished.failed_method is not None:
                raise StartError("the guest refused to start", cause=finished.error["message"])
            if finished.error["code"] != INTERNAL_ERROR:
                if isinstance(code, str):  # no guest of ours refuses a text: the cell has spoken
                    raise ProtocolError("the guest refused a cell", cause=finished.error["message"][:200])
                raise RequestError(f"execute: {finished.error['message']}")
            # the cell was accepted; what failed is the making of its reply
            kind = finished.error["message"][:200]
            said = {"outcome": "memory" if kind == "MemoryError" else "error", "exception": {"type": kind}}
            finished = dataclasses.replace(finished, result=said, error=None)
        self._greet(guest)
        return build_result(code, guest.channel, guest.machine, finished, self._session.policy, elapsed, timeout_ms)

    def _greet(self, guest: Guest) -> None:
        """It has answered; by now it is known which process it is."""
        guest.greeted = True
        if not guest.listed:
            guest.listed = True
            self._session.folder.record(guest.channel.pid)

    def _log_limits(self, result: SandboxResult) -> None:
        session = self._session
        events = {"timeout": "timeout", "memory": "memory_limit", "killed": "killed", "out_of_fuel": "fuel_exhaustion"}
        if result.outcome in events:
            session.logger.log_security_event(events[result.outcome], session=session.folder.id, error=result.error)

    def _after_kept_cell(self, guest: Guest, started: float) -> None:
        """What is done in the pause after a cell."""
        if guest.finished.stop is not None:
            with working_for(guest.machine.seconds_left(clock()), least=CLEAN_UP):
                guest.channel.end_children(clock() - started)
        self._renew_guard(guest)

    def _renew_guard(self, guest: Guest) -> None:
        """In the pause after a change, within what is left of the call's deadline."""
        if self._session.policy.protect_state:
            with working_for(guest.machine.seconds_left(clock()), least=CLEAN_UP):
                self._session.returns.renew_guard(guest)

    def _recover(self, guest: Guest) -> SessionState:
        """The guest has died: within what is left of the call's deadline, return to the state before the call."""
        with working_for(guest.machine.seconds_left(clock()), least=CLEAN_UP):
            return self._session.returns.recover()


def check_stdin(stdin: object, limit: int) -> None:
    """Refuse standard input that is no text, or more than crosses the wall at once."""
    if stdin is None:
        return
    if type(stdin) is not str:
        raise RequestError(f"stdin must be a str, not {type(stdin).__name__}", remedy="decode it first")
    if len(stdin) > limit:
        raise ValueTransferError(
            f"stdin has {len(stdin)} characters; the limit is {limit}",
            remedy="raise policy.value_max_bytes, or write it into a file with put_file() and open that",
        )
