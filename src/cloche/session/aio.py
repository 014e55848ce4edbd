"""The asynchronous driver, on anyio: waits for one descriptor, uses no thread of its own."""

from __future__ import annotations

import contextvars
import inspect
import os
import threading
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import anyio.to_thread

from cloche.errors import BusyError
from cloche.session.actions import AbandonBridge, CallBridge, Emit
from cloche.session.call_loop import Bell
from cloche.session.callback_threads import threads
from cloche.session.callbacks import mark_inside, refuse_reentry
from cloche.session.clock import clock
from cloche.session.copying import Step, Work
from cloche.session.deadline import CLEAN_UP, working_for
from cloche.session.guest import Guest
from cloche.session.live import LiveSession
from cloche.session.machine import Call
from cloche.session.pump import SelectorWatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from anyio.abc import TaskGroup

    from cloche.result import SandboxResult
    from cloche.session.copying import Steps
    from cloche.session.operations import Operation

T = TypeVar("T")


class AsyncDriver:
    """Drives one session for tasks of an event loop."""

    def __init__(self, session: LiveSession) -> None:
        self._session = session
        session.make_watch = SelectorWatch
        self._turn = anyio.Lock()
        self._wait: anyio.CancelScope | None = None
        self._scopes: dict[int, anyio.CancelScope] = {}
        self._tasks: set[int] = set()
        """Calls that run in the task group: with its end they are all over, those too that never began."""
        self._guest: Guest | None = None  # whose call is under way
        self._bell: Bell | None = None
        self._heard_by: Guest | None = None  # whose watch has the bell
        self._answers: deque[tuple[Guest, int, Any, BaseException | None]] = deque()

    # -- calls ---------------------------------------------------------------------------------

    async def execute(
        self, code: str, timeout_ms: int | None, on_output: Callable[[str, str], object] | None, **options: Any
    ) -> SandboxResult:
        """Run a cell. `options` are what some walls' guests understand."""
        session = self._session
        limit, started = await self._take_turn(timeout_ms)
        try:
            live = on_output is not None
            try:
                guest = await self._drive(
                    lambda: session.requests.cell_call(code, live=live, **options), started, limit, on_output
                )
            except BaseException:
                session.requests.cell_abandoned(code, started, limit)
                raise
            if session.policy.protect_state:  # may have to put files back
                return await anyio.to_thread.run_sync(session.requests.read_cell, code, guest, started, limit)
            return session.requests.read_cell(code, guest, started, limit)
        finally:
            self._turn.release()

    async def run(self, operation: Operation[T], timeout_ms: int | None = None) -> T:
        """Carry out an operation."""
        session = self._session
        limit, started = await self._take_turn(timeout_ms)
        try:
            guest = await self._drive(operation.call, started, limit, None)
            return session.requests.read_operation(operation, guest)
        finally:
            self._turn.release()

    async def perform(self, steps: Steps[T], timeout_ms: int | None = None) -> T:
        """Carry out several steps while nobody else has the session; what blocks, in a thread."""
        session = self._session
        limit, started = await self._take_turn(timeout_ms)
        try:
            proceed: Callable[[], Step] = partial(next, steps)
            while True:
                # the steps themselves clean up when one of them has failed, also after the deadline
                with working_for(limit / 1000 - (clock() - started), least=CLEAN_UP):
                    step = proceed()
                try:
                    if isinstance(step, Work):
                        with working_for(limit / 1000 - (clock() - started)):
                            given = await anyio.to_thread.run_sync(step.action)
                    else:
                        given = session.requests.read_operation(
                            step, await self._drive(step.call, started, limit, None)
                        )
                except BaseException as exc:  # noqa: BLE001 - the steps decide what becomes of it
                    proceed = partial(steps.throw, exc)
                else:
                    proceed = partial(steps.send, given)
        except StopIteration as done:
            value: T = done.value
            return value
        finally:
            self._turn.release()

    async def exclusive(self, action: Callable[[], T], timeout_ms: int | None = None) -> T:
        """Run host-side work (files, reset) when no call is under way, in a thread: a disk may be slow."""
        await self._enter(self._session.limit_ms(timeout_ms))
        try:
            return await anyio.to_thread.run_sync(action)
        finally:
            self._turn.release()

    def cancel(self) -> None:
        """Stop the running call. Harmless when there is none."""
        if self._guest is not None:
            self._guest.machine.cancel(clock())
            self._wake()

    async def close(self) -> None:
        """End the session, and the call that is under way with it."""
        session = self._session
        if session.closed and session.guest is None:
            return
        refuse_reentry(session.number)
        session.closed = True
        self.cancel()
        with anyio.CancelScope(shield=True):
            async with self._turn:
                await anyio.to_thread.run_sync(session.close)
                self._close_bell()

    def dispose(self) -> None:
        """End the session of a sandbox that was collected, or of a process that ends. No call is under way."""
        self._session.close()
        self._close_bell()

    def _close_bell(self) -> None:
        bell, self._bell = self._bell, None
        if bell is not None:
            bell.close()

    # -- inside --------------------------------------------------------------------------------

    async def _take_turn(self, timeout_ms: int | None) -> tuple[int, float]:
        """(the deadline of this call, when it began to count)."""
        session = self._session
        limit = session.limit_ms(timeout_ms)
        if not session.is_prepared:
            await _in_passing_thread(session.prepare)
        return limit, await self._enter(limit)

    async def _enter(self, limit_ms: int) -> float:
        refuse_reentry(self._session.number)
        self._session.check_open()
        started = clock()
        with anyio.move_on_after(limit_ms / 1000) as scope:
            await self._turn.acquire()
        if scope.cancelled_caught:
            raise BusyError(f"another call held this sandbox for {limit_ms} ms", remedy="wait for it, or cancel()")
        if self._session.closed:
            self._turn.release()
            self._session.check_open()
        return started

    async def _drive(
        self,
        make_call: Callable[[], Call],
        started: float,
        limit_ms: int,
        on_output: Callable[[str, str], object] | None,
    ) -> Guest:
        """Have one request served. Cancelling the waiting task cancels the cell and waits for its end."""
        left = limit_ms / 1000 - (clock() - started)
        self._session.leave_parent()
        guest = self._session.guest or await self._open_guest(left)
        calls = guest.requests(make_call())
        guest.machine.begin(calls, now=clock(), started=started, timeout=limit_ms / 1000, live=on_output is not None)
        self._guest = guest
        trouble: BaseException | None = None
        try:
            async with anyio.create_task_group() as group:
                try:
                    await self._loop(guest, group, on_output)
                except BaseException as exc:  # noqa: BLE001 - raised again below, when the guest has come to rest
                    trouble = exc
                    guest.machine.cancel(clock())
                    with anyio.CancelScope(shield=True):
                        await self._loop(guest, group, None)
                group.cancel_scope.cancel()  # host functions that nobody waits for any more
        finally:
            self._guest = None
            for key in self._tasks:
                guest.machine.desk.returned(key)
            self._tasks.clear()
        if trouble is not None:
            if guest.machine.finished is not None and guest.machine.finished.death is not None:
                self._session.drop_guest("lost")
            raise trouble
        return guest

    async def _open_guest(self, seconds: float) -> Guest:
        """The first one of a process may take long; any other is opened here and now."""
        with working_for(seconds):
            if not self._session.backend.has_opened:
                await _in_passing_thread(lambda: self._session.guest_for(seconds))
            return self._session.guest_for(seconds)

    async def _loop(self, guest: Guest, group: TaskGroup, on_output: Callable[[str, str], object] | None) -> None:
        pump, machine, watch = guest.pump, guest.machine, guest.pump.watch
        assert isinstance(watch, SelectorWatch)
        while True:
            now = clock()
            await self._carry_out(pump.perform(now), guest, group, on_output)
            if machine.finished is not None:
                break
            await self._wait_for(watch, pump.next_wake(now))
            now = clock()
            ready = watch.ready(0)
            pump.handle(ready, now)
            if self._bell is not None and self._bell.reader in ready:
                self._take_answers(self._bell, guest, group, now)
            machine.tick(now)
        pump.drain()
        await self._carry_out(pump.perform(clock()), guest, group, on_output)

    async def _wait_for(self, watch: SelectorWatch, seconds: float | None) -> None:
        with anyio.CancelScope(deadline=float("inf") if seconds is None else anyio.current_time() + seconds) as scope:
            self._wait = scope
            try:
                await anyio.wait_readable(watch.fileno())
            finally:
                self._wait = None

    def _wake(self) -> None:
        if self._wait is not None:
            self._wait.cancel()

    async def _carry_out(
        self, actions: list[Any], guest: Guest, group: TaskGroup, on_output: Callable[[str, str], object] | None
    ) -> None:
        for action in actions:
            if isinstance(action, CallBridge):
                if self._session.callbacks.is_async(action.name):
                    self._tasks.add(action.key)
                    group.start_soon(self._serve, action, guest)
                else:
                    self._serve_in_thread(action, guest)
            elif isinstance(action, AbandonBridge):
                scope = self._scopes.get(action.key)
                if scope is not None:
                    scope.cancel()
            elif isinstance(action, Emit) and on_output is not None:
                shown = on_output(action.stream, action.text)
                if inspect.isawaitable(shown):
                    await shown

    async def _serve(self, call: CallBridge, guest: Guest) -> None:
        """One async host function."""

        async def run() -> Any:  # also what calling it raises, before anything can be awaited, is the guest's to see
            return await self._session.callbacks.call(call.name, call.args, call.kwargs)

        await self._await(call.key, run(), guest)

    async def _await(self, key: int, awaitable: Any, guest: Guest) -> None:
        mark_inside(self._session.number)  # also where a plain function, in a thread, returned something to await
        value, error = None, None
        with anyio.CancelScope() as scope:
            self._scopes[key] = scope
            try:
                value = await awaitable
            except (Exception, SystemExit) as exc:  # noqa: BLE001 - whatever a callback raises is the guest's to see
                error = exc
            finally:
                del self._scopes[key]
        if scope.cancelled_caught:
            guest.machine.desk.returned(key)
        else:
            guest.machine.bridge_done(key, value, error, clock())
            self._wake()

    def _serve_in_thread(self, call: CallBridge, guest: Guest) -> None:
        """One host function that blocks. In a daemon thread: should it never return, the process can still end."""
        context, bell = contextvars.copy_context(), self._hearing(guest)

        def work() -> None:
            value, error = None, None
            try:
                value = context.run(self._session.callbacks.call, call.name, call.args, call.kwargs)
            except BaseException as exc:  # noqa: BLE001 - whatever a callback raises is the guest's to see
                error = exc
            self._answers.append((guest, call.key, value, error))
            bell.ring()

        threads.run(work)

    def _hearing(self, guest: Guest) -> Bell:
        if self._bell is None or self._bell.owner != os.getpid():
            self._bell, self._heard_by = Bell(), None
        if self._heard_by is not guest:
            self._heard_by = guest
            guest.pump.watch.add(self._bell.reader)
        return self._bell

    def _take_answers(self, bell: Bell, guest: Guest, group: TaskGroup, now: float) -> None:
        """What host functions in threads returned."""
        bell.silence()
        while self._answers:
            owner, key, value, error = self._answers.popleft()
            if inspect.isawaitable(value):
                if owner is guest:
                    self._tasks.add(key)
                group.start_soon(self._await, key, value, owner)
            elif owner is guest:
                guest.machine.bridge_done(key, value, error, now)
            else:
                owner.machine.desk.returned(key)


async def _in_passing_thread(action: Callable[[], object]) -> None:
    """Run what blocks in a thread that is gone afterwards: a pool's would stay, for one use in a process's life."""
    bell, trouble = Bell(), []

    def work() -> None:
        try:
            action()
        except BaseException as exc:  # noqa: BLE001 - raised again where it is waited for
            trouble.append(exc)
        bell.ring()

    thread = threading.Thread(target=contextvars.copy_context().run, args=(work,), name="cloche-open", daemon=True)
    thread.start()
    with anyio.CancelScope(shield=True):
        await anyio.wait_readable(bell.reader)
    thread.join()
    bell.close()
    if trouble:
        raise trouble[0]
