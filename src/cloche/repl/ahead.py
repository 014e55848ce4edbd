"""Calls that are made ahead, side by side, and wait for the code that will ask for them."""

from __future__ import annotations

import contextvars
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

import anyio

from cloche.repl.planning import call_key
from cloche.session.callback_threads import threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from anyio.abc import TaskGroup

    from cloche.repl.planning import PlannedCall

SIDE_BY_SIDE = 8


class Slot:
    """One call. Whoever claims it makes it: a worker, or the one who wants the result and does not find it begun.

    So a call that is asked for never waits for one that is not, and what would end one after the other ends here.
    """

    def __init__(self, action: Callable[[], Any]) -> None:
        self._action = action
        self._claimed = threading.Lock()
        self._done = threading.Event()
        self._value: Any = None
        self._error: BaseException | None = None

    def make(self) -> None:
        """Make the call in this thread, unless somebody does already."""
        if self._claimed.acquire(blocking=False):
            try:
                self._value = self._action()
            except BaseException as exc:  # noqa: BLE001 - raised again where it is waited for
                self._error = exc
            self._done.set()

    def result(self) -> Any:
        """What it returned; what it raised."""
        self.make()
        self._done.wait()
        return self._outcome()

    def result_within(self, seconds: float) -> Any:
        """What somebody else's `make` gives; `TimeoutError` when it takes longer, and then nobody waits for it."""
        if not self._done.wait(seconds):
            raise TimeoutError
        return self._outcome()

    def _outcome(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._value


class AwaitedSlot(Slot):
    """One call that has to be awaited, in the tasks of one event loop."""

    def __init__(self, action: Callable[[], Any]) -> None:
        super().__init__(action)
        self._ended = anyio.Event()

    async def make_async(self) -> None:
        """As `make`."""
        if self._claimed.acquire(blocking=False):
            try:
                self._value = await self._action()
            except (Exception, SystemExit) as exc:  # noqa: BLE001 - raised again where it is waited for
                self._error = exc
            except BaseException as exc:  # cancelled
                self._error = exc
                raise
            finally:
                self._ended.set()

    async def result_async(self) -> Any:
        """As `result`."""
        await self.make_async()
        await self._ended.wait()
        return self._outcome()


class Ahead:
    """The planned calls of one turn. They are made as the code would make them: in the context of who runs the turn."""

    def __init__(
        self,
        calls: Iterable[PlannedCall],
        run: Callable[[PlannedCall], Any],
        group: TaskGroup | None = None,
        is_async: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """`run` makes a call, in a thread; or, where it has to be awaited, in a task of `group`."""
        self._lock = threading.Lock()
        self._slots: dict[str, deque[Slot]] = {}
        self._waiting: deque[Slot] = deque()
        self._awaited: deque[AwaitedSlot] = deque()
        context = contextvars.copy_context()
        for call in calls:
            slot: Slot
            if group is not None and is_async(call.name):
                slot = AwaitedSlot(lambda call=call: run(call))  # type: ignore[misc]  # bound now
                self._awaited.append(slot)
            else:
                slot = Slot(lambda call=call: context.copy().run(run, call))  # type: ignore[misc]  # bound now
                self._waiting.append(slot)
            self._slots.setdefault(call.key, deque()).append(slot)
        self.slots = [slot for slots in self._slots.values() for slot in slots]
        for _ in range(min(SIDE_BY_SIDE, len(self._waiting))):
            threads.run(self._work)
        if group is not None:
            for _ in range(min(SIDE_BY_SIDE, len(self._awaited))):
                group.start_soon(self._work_async)

    def take(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Slot | None:
        """The slot of such a call, once for each time that it was planned."""
        if not self._slots:
            return None
        key = call_key(name, args, kwargs)
        with self._lock:
            slots = self._slots.get(key)
            return slots.popleft() if slots else None

    def forget(self) -> None:
        """Something has changed, or the turn is over: what was made ahead does not count, and no more is begun."""
        with self._lock:
            self._slots.clear()
            self._waiting.clear()
            self._awaited.clear()

    def _next(self, waiting: deque[Any]) -> Any:
        with self._lock:
            return waiting.popleft() if waiting else None

    def _work(self) -> None:
        while slot := self._next(self._waiting):
            slot.make()

    async def _work_async(self) -> None:
        while slot := self._next(self._awaited):
            await slot.make_async()
