"""The blocking driver: reads the wire in the caller's thread."""

from __future__ import annotations

import os
import threading
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from cloche.errors import BusyError
from cloche.session.call_loop import Bell, CallLoop
from cloche.session.callbacks import refuse_reentry
from cloche.session.clock import clock
from cloche.session.copying import Step, Work
from cloche.session.deadline import CLEAN_UP, working_for
from cloche.session.guest import Guest
from cloche.session.live import LiveSession
from cloche.session.pump import PollWatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloche.result import SandboxResult
    from cloche.session.copying import Steps
    from cloche.session.machine import Call
    from cloche.session.operations import Operation

T = TypeVar("T")

_drivers: weakref.WeakSet[SyncDriver] = weakref.WeakSet()


def _leave_threads() -> None:
    """In a forked child no other thread is left: whoever held a lock will not give it back."""
    for driver in list(_drivers):
        driver.leave_threads()


os.register_at_fork(after_in_child=_leave_threads)


class SyncDriver:
    """Drives one session for threads that block."""

    def __init__(self, session: LiveSession) -> None:
        self._session = session
        session.make_watch = self._make_watch
        self._turn = threading.Lock()
        self._bell: Bell | None = None
        self._machine_lock = threading.Lock()
        self._loop: CallLoop | None = None  # the call that is under way
        _drivers.add(self)

    # -- calls ---------------------------------------------------------------------------------

    def execute(
        self, code: str, timeout_ms: int | None, on_output: Callable[[str, str], object] | None, **options: Any
    ) -> SandboxResult:
        """Run a cell. `options` are what some walls' guests understand."""
        session = self._session
        limit, started = self._take_turn(timeout_ms)
        try:
            live = on_output is not None
            try:
                guest = self._drive(
                    lambda: session.requests.cell_call(code, live=live, **options), started, limit, on_output
                )
            except BaseException:
                session.requests.cell_abandoned(code, started, limit)
                raise
            return session.requests.read_cell(code, guest, started, limit)
        finally:
            self._turn.release()

    def run(self, operation: Operation[T], timeout_ms: int | None = None) -> T:
        """Carry out an operation."""
        session = self._session
        limit, started = self._take_turn(timeout_ms)
        try:
            guest = self._drive(operation.call, started, limit, None)
            return session.requests.read_operation(operation, guest)
        finally:
            self._turn.release()

    def perform(self, steps: Steps[T], timeout_ms: int | None = None) -> T:
        """Carry out several steps while nobody else has the session."""
        session = self._session
        limit, started = self._take_turn(timeout_ms)
        try:
            proceed: Callable[[], Step] = partial(next, steps)
            while True:
                # the steps themselves clean up when one of them has failed, also after the deadline
                with working_for(limit / 1000 - (clock() - started), least=CLEAN_UP):
                    step = proceed()
                try:
                    if isinstance(step, Work):
                        with working_for(limit / 1000 - (clock() - started)):
                            given = step.action()
                    else:
                        given = session.requests.read_operation(step, self._drive(step.call, started, limit, None))
                except BaseException as exc:  # noqa: BLE001 - the steps decide what becomes of it
                    proceed = partial(steps.throw, exc)
                else:
                    proceed = partial(steps.send, given)
        except StopIteration as done:
            value: T = done.value
            return value
        finally:
            self._turn.release()

    def exclusive(self, action: Callable[[], T], timeout_ms: int | None = None) -> T:
        """Run host-side work (files, reset) when no call is under way."""
        self._enter(self._session.limit_ms(timeout_ms))
        try:
            return action()
        finally:
            self._turn.release()

    def cancel(self) -> None:
        """From any thread: stop the running call. Harmless when there is none."""
        loop = self._loop
        if loop is not None:
            loop.cancel()

    def close(self) -> None:
        """End the session, and the call that is under way with it."""
        session = self._session
        if session.closed and session.guest is None:
            return
        refuse_reentry(session.number)
        session.closed = True
        self.cancel()
        with self._turn:
            self.dispose()

    # -- inside --------------------------------------------------------------------------------

    def _take_turn(self, timeout_ms: int | None) -> tuple[int, float]:
        """(the deadline of this call, when it began to count)."""
        limit = self._session.limit_ms(timeout_ms)
        self._session.prepare()
        return limit, self._enter(limit)

    def _enter(self, limit_ms: int) -> float:
        refuse_reentry(self._session.number)
        self._session.check_open()
        started = clock()
        if not self._turn.acquire(timeout=min(limit_ms / 1000, threading.TIMEOUT_MAX)):
            raise BusyError(f"another call held this sandbox for {limit_ms} ms", remedy="wait for it, or cancel()")
        try:
            self._session.check_open()
            self._session.leave_parent()
        except BaseException:
            self._turn.release()
            raise
        return started

    def _drive(
        self,
        make_call: Callable[[], Call],
        started: float,
        limit_ms: int,
        on_output: Callable[[str, str], object] | None,
    ) -> Guest:
        """Have one request served, whatever happens on the way."""
        session, bell = self._session, self._hearing()
        try:
            guest = session.guest or self._open_guest(limit_ms / 1000 - (clock() - started))
            calls = guest.requests(make_call())
            with self._machine_lock:
                guest.machine.begin(
                    calls, now=clock(), started=started, timeout=limit_ms / 1000, live=on_output is not None
                )
            self._loop = loop = CallLoop(session, guest, self._machine_lock, bell, on_output)
            if session.closed:
                loop.cancel()  # destroy() came while there was no loop yet that it could have cancelled
            loop.run()
        except BaseException:
            self._drop_unfinished()
            raise
        finally:
            self._loop = None
        return guest

    def _open_guest(self, seconds: float) -> Guest:
        with working_for(seconds):
            return self._session.guest_for(seconds)

    def _drop_unfinished(self) -> None:
        """Ctrl-C before a guest was greeted, or again while its cell was being stopped: nobody knows its state."""
        guest = self._session.guest
        if guest is not None and (guest.machine.finished is None or guest.machine.finished.death is not None):
            self._session.drop_guest("lost")

    def _make_watch(self) -> PollWatch:
        watch = PollWatch()
        watch.add(self._hearing().reader)
        return watch

    def _hearing(self) -> Bell:
        if self._bell is None:
            self._bell = Bell()
        return self._bell

    def leave_threads(self) -> None:
        """In a forked child."""
        self._turn, self._machine_lock, self._loop = threading.Lock(), threading.Lock(), None
        bell, self._bell = self._bell, None
        if bell is not None:
            bell.leave()

    def dispose(self) -> None:
        """For a sandbox that nobody holds any more, and for the end of the process."""
        self._session.close()
        bell, self._bell = self._bell, None
        if bell is not None:
            bell.close()
