"""Host functions, called from a cell of this process: by the same rules and through the same desk as across a wall."""

from __future__ import annotations

import contextvars
import inspect
import json
from contextlib import contextmanager, suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from cloche.backends.inprocess.deadlines import Alarm, CellStopped, watchdog
from cloche.backends.inprocess.streams import streams
from cloche.session.actions import CallBridge, Send
from cloche.session.bridge_desk import BridgeDesk
from cloche.session.callback_threads import threads
from cloche.session.clock import Clock, clock
from cloche_guest.bridges import BridgeError, Bridges
from cloche_guest.values import decode, encode_call
from cloche_guest.wire import RemoteError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cloche.session.actions import Action
    from cloche.session.live import LiveSession

    Answer = tuple[int, Any, BaseException | None]
    Serve = Callable[[list[CallBridge], float | None], list[Answer]]


class Counter:
    """The desk of one session, and the clock of its running cell, which stands still while the host works."""

    def __init__(self, session: LiveSession) -> None:
        self._session = session
        self._actions: list[Action] = []
        self.desk = BridgeDesk(session.policy, session.callbacks.names, self._actions, self._answered)
        self._ending = session.callbacks.ending
        self.concluded_by: str | None = None
        self.alarm: Alarm | None = None
        self.clock = Clock(0.0, 0.0, 0.0, lambda: None)
        self.serve: Serve = self.serve_in_threads
        self._inbox: SimpleQueue[Answer | None] = SimpleQueue()
        self.abandoned = False
        """Whether a host function of this run was given up because the time of all was over."""
        self.on_end: Callable[[], None] = lambda: None

    def begin(self, started: float, limit_ms: int, serve: Serve | None) -> Alarm:
        """A run begins; the alarm that ends it."""
        self.desk.begin_call()
        self.concluded_by = None
        self.abandoned = False
        self.serve = serve or self.serve_in_threads
        with suppress(Empty):  # functions that an earlier run gave up have returned meanwhile
            while True:
                late = self._inbox.get_nowait()
                if late is not None:
                    self.desk.returned(late[0])
        self.clock = Clock(started, limit_ms / 1000, self._session.policy.total_timeout_ms / 1000, lambda: None)
        self.alarm = alarm = Alarm(self.clock.wake_at(started))
        return alarm

    def cancel(self) -> None:
        """Stop what runs. From any thread."""
        alarm = self.alarm
        if alarm is not None:
            watchdog.hurry(alarm, "cancelled")
            self._inbox.put(None)

    def call(self, method: str, params: dict[str, Any]) -> Any:
        """For the stubs: what the host function returned, or `RemoteError`."""
        with self.host_at_work():
            now = clock()
            refusal = f"the cell ended with {self.concluded_by}" if self.concluded_by is not None else None
            self.desk.request(1, params, now, refusal=refusal)
            while True:
                calls, reply = self._take_actions()
                if reply is not None:
                    return _result(reply)
                self._have_served(calls)

    def _take_actions(self) -> tuple[list[CallBridge], dict[str, Any] | None]:
        taken, self._actions[:] = list(self._actions), []
        reply = next((json.loads(action.data) for action in taken if isinstance(action, Send)), None)
        return [action for action in taken if isinstance(action, CallBridge)], reply

    def _have_served(self, calls: list[CallBridge]) -> None:
        due = self.desk.wake_at()
        until = min(self.clock.ceiling_at, float("inf") if due is None else due)
        answers = self.serve(calls, until)
        now = clock()
        for key, value, error in answers:
            self.desk.done(key, value, error, now)
        self.desk.expire(now)
        if self.concluded_by is not None:
            self.on_end()
        if self.alarm is not None and (self.alarm.reason == "cancelled" or now >= self.clock.ceiling_at):
            self.abandoned = True
            self.desk.abandon_all("the cell was stopped")
        if self.serve != self.serve_in_threads:  # an event loop has ended what it did not answer
            for call in calls:
                self.desk.returned(call.key)

    def _answered(self, call: CallBridge, value: Any, error: BaseException | None) -> None:
        self._session.bridge_answered(call, value, error)
        if error is None and call.name in self._ending:
            self.concluded_by = call.name

    @contextmanager
    def host_at_work(self) -> Iterator[None]:
        """Neither the deadline nor the cell's streams are for the host's own code."""
        alarm = self.alarm
        if alarm is None:
            raise RemoteError(0, "no cell is running", {"type": "Abandoned"})
        watchdog.rest(alarm)
        aside = streams.set_aside()
        self.clock.pause(clock())
        try:
            yield
        finally:
            now = clock()
            self.clock.resume(now)
            streams.resume(aside)
            alarm.due = 0.0 if alarm.reason == "cancelled" else self.clock.wake_at(now)
            watchdog.watch(alarm)

    # -- how they are run ----------------------------------------------------------------------

    def serve_in_threads(self, calls: list[CallBridge], until: float | None) -> list[Answer]:
        """In threads that can be abandoned; in this one where the policy sets no limit and there is only one."""
        if self._session.policy.bridge_timeout_ms is None and len(calls) == 1 and self.desk.under_way == 1:
            return [self._call(calls[0], contextvars.copy_context())]
        inbox = self._inbox
        for call in calls:
            context = contextvars.copy_context()
            threads.run(partial(_answer_into, inbox, self._call, call, context))
        try:
            first = inbox.get(timeout=None if until is None or until == float("inf") else max(0.0, until - clock()))
        except Empty:
            return []
        return [] if first is None else [first]

    def _call(self, call: CallBridge, context: contextvars.Context) -> Answer:
        try:
            value = context.run(self._session.callbacks.call, call.name, call.args, call.kwargs)
            if inspect.isawaitable(value):
                if inspect.iscoroutine(value):
                    value.close()
                raise TypeError(f"the callback for {call.name} is async; use create_async_sandbox()")
        except BaseException as exc:  # noqa: BLE001 - whatever a callback raises is the cell's to see
            return call.key, None, exc
        return call.key, value, None


def _answer_into(
    inbox: SimpleQueue[Answer | None], run: Callable[..., Answer], call: CallBridge, context: contextvars.Context
) -> None:
    inbox.put(run(call, context))


def _result(reply: dict[str, Any]) -> Any:
    error = reply.get("error")
    if error is not None:
        raise RemoteError(error["code"], error["message"], error.get("data"))
    return reply["result"]


class InlineBridges(Bridges):
    """The stubs, without signals: this process has its own."""

    def __init__(
        self, counter: Counter, flush: Callable[[], None], current_context: Callable[[], tuple[bool, Any]], limit: int
    ) -> None:
        super().__init__(counter.call, flush, current_context)
        self._counter = counter
        self.value_limit = limit

    def invoke(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        failure: BridgeError | None = None
        self._flush()
        try:
            params = {"name": name, **encode_call(args, kwargs, self.value_limit)}
            return decode(self._counter.call("bridge", params))
        except RemoteError as exc:
            data = exc.data if isinstance(exc.data, dict) else {}
            if data.get("type") != "Abandoned":
                failure = BridgeError(f"{name} failed: {exc}", str(data.get("type", "")))
        if failure is None:
            raise CellStopped  # the watchdog, a moment behind, might come too late for a cell that goes on
        raise failure  # outside of the handler: no context, no frames of ours

    def end_cell(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.invoke(name, args, kwargs)
        if self._counter.alarm is not None:
            watchdog.hurry(self._counter.alarm, "cancelled")  # whoever catches the next line meets another
        raise CellStopped
