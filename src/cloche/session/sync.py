"""The blocking driver: reads the wire in the caller's thread."""

from __future__ import annotations

import contextvars
import inspect
import os
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, TypeVar

from cloche.errors import BusyError
from cloche.session.actions import CallBridge, Emit
from cloche.session.callback_threads import threads
from cloche.session.callbacks import refuse_reentry
from cloche.session.core import Guest, SessionCore, clock
from cloche.session.machine import Call
from cloche.session.pump import PollWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cloche.result import SandboxResult
    from cloche.session.machine import Machine
    from cloche.session.operations import Operation

T = TypeVar("T")


class _Bell:
    """Wakes the waiting thread from any other."""

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe()
        os.set_blocking(self.reader, False)
        os.set_blocking(self._writer, False)

    def ring(self) -> None:
        try:
            os.write(self._writer, b"!")
        except (BlockingIOError, OSError):
            return  # already rung, or closed

    def silence(self) -> None:
        try:
            os.read(self.reader, 4096)
        except BlockingIOError:
            return

    def close(self) -> None:
        for end in (self.reader, self._writer):
            os.close(end)


class SyncDriver:
    """Drives one session for threads that block."""

    def __init__(self, core: SessionCore) -> None:
        self._core = core
        self._turn = threading.Lock()
        self._bell: _Bell | None = None
        self._done: deque[tuple[Machine, int, Any, BaseException | None]] = deque()
        self._cancelled = False
        self._running = False

    # -- calls ---------------------------------------------------------------------------------

    def execute(self, code: str, timeout_ms: int | None, on_output: Callable[[str, str], object] | None) -> SandboxResult:
        """Run a cell."""
        core = self._core
        limit = core.policy.timeout_ms if timeout_ms is None else timeout_ms
        started = self._enter(limit)
        try:
            guest = self._drive(lambda: core.cell_call(code, live=on_output is not None), started, limit, on_output)
            return core.read_cell(code, guest, started, limit)
        finally:
            self._leave()

    def run(self, operation: Operation[T], timeout_ms: int | None = None) -> T:
        """Carry out an operation."""
        core = self._core
        limit = core.policy.timeout_ms if timeout_ms is None else timeout_ms
        started = self._enter(limit)
        try:
            guest = self._drive(operation.call, started, limit, None)
            return core.read_operation(operation, guest)
        finally:
            self._leave()

    def exclusive(self, action: Callable[[], T], timeout_ms: int | None = None) -> T:
        """Run host-side work (files, reset) when no call is under way."""
        self._enter(self._core.policy.timeout_ms if timeout_ms is None else timeout_ms)
        try:
            return action()
        finally:
            self._leave()

    def cancel(self) -> None:
        """From any thread: stop the running call. Harmless when there is none."""
        if self._running and self._bell is not None:
            self._cancelled = True
            self._bell.ring()

    def close(self) -> None:
        """End the session, and the call that is under way with it."""
        core = self._core
        if core.closed and core.guest is None:
            return
        refuse_reentry(core.number)
        core.closed = True
        self.cancel()
        with self._turn:
            core.close()
            bell, self._bell = self._bell, None
            if bell is not None:
                bell.close()

    # -- inside --------------------------------------------------------------------------------

    def _enter(self, limit_ms: int) -> float:
        refuse_reentry(self._core.number)
        self._core.check_open()
        started = clock()
        if not self._turn.acquire(timeout=limit_ms / 1000):
            raise BusyError(f"another call held this sandbox for {limit_ms} ms", remedy="wait for it, or cancel()")
        self._cancelled = False
        self._running = True
        if self._core.closed:
            self._leave()
            self._core.check_open()
        return started

    def _leave(self) -> None:
        self._running = False
        self._turn.release()

    def _drive(
        self, make_call: Callable[[], Call], started: float, limit_ms: int, on_output: Callable[[str, str], object] | None
    ) -> Guest:
        """Have one request served, whatever happens on the way."""
        if self._bell is None:
            self._bell = _Bell()
        left = limit_ms / 1000 - (clock() - started)
        guest, calls = self._core.guest_for(self._make_watch, left)
        calls.append(make_call())
        guest.machine.begin(calls, now=clock(), started=started, timeout=limit_ms / 1000, live=on_output is not None)
        try:
            self._loop(guest, on_output)
        except BaseException:
            # Ctrl-C, or the listener raised: the cell must not go on, and its reply must not meet the next call.
            guest.machine.cancel(clock())
            self._loop(guest, None)
            if guest.machine.finished is not None and guest.machine.finished.death is not None:
                self._core.drop_guest("lost")
            raise
        return guest

    def _make_watch(self) -> PollWatch:
        watch = PollWatch()
        if self._bell is not None:
            watch.add(self._bell.reader)
        return watch

    def _loop(self, guest: Guest, on_output: Callable[[str, str], object] | None) -> None:
        pump, machine, watch = guest.pump, guest.machine, guest.pump.watch
        while True:
            now = clock()
            self._carry_out(pump.perform(now), machine, on_output)
            if machine.finished is not None:
                break
            ready = watch.ready(pump.next_wake(now))
            now = clock()
            pump.handle(ready, now)
            if self._done or self._cancelled:
                self._take_notes(machine, now)
            machine.tick(now)
        pump.drain()
        self._carry_out(pump.perform(clock()), machine, on_output)

    def _take_notes(self, machine: Machine, now: float) -> None:
        """What other threads left here."""
        if self._bell is not None:
            self._bell.silence()
        if self._cancelled:
            self._cancelled = False
            machine.cancel(now)
        for owner, key, value, error in self._notes():
            if owner is machine:
                machine.bridge_done(key, value, error, now)

    def _notes(self) -> Iterator[tuple[Machine, int, Any, BaseException | None]]:
        while self._done:
            yield self._done.popleft()

    def _carry_out(self, actions: list[Any], machine: Machine, on_output: Callable[[str, str], object] | None) -> None:
        for action in actions:
            if isinstance(action, CallBridge):
                self._start(action, machine)
            elif isinstance(action, Emit) and on_output is not None:
                on_output(action.stream, action.text)

    def _start(self, call: CallBridge, machine: Machine) -> None:
        """Run a host function in a thread of its own, with the caller's context variables."""
        context = contextvars.copy_context()
        bell = self._bell

        def work() -> None:
            value, error = None, None
            try:
                value = context.run(self._core.callbacks.call, call.name, call.args, call.kwargs)
                if inspect.isawaitable(value):
                    if inspect.iscoroutine(value):
                        value.close()
                    raise TypeError(f"the callback for {call.name} is async; use create_async_sandbox()")
            except BaseException as exc:
                error = exc
            self._done.append((machine, call.key, value, error))
            if bell is not None:
                bell.ring()

        threads.run(work)
