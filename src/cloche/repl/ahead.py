"""Calls that are made ahead, side by side, and wait for the code that will ask for them."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from cloche.repl.planning import call_key
from cloche.session.callback_threads import threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cloche.repl.planning import PlannedCall

SIDE_BY_SIDE = 8


class Slot:
    """One call that is under way."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.taken = False
        self._value: Any = None
        self._error: BaseException | None = None

    def fill(self, action: Callable[[], Any]) -> None:
        """Run it, in whatever thread this is."""
        try:
            self._value = action()
        except BaseException as exc:  # noqa: BLE001 - raised again where it is waited for
            self._error = exc
        self.done.set()

    async def fill_from(self, awaitable: Any) -> None:
        """The same for what has to be awaited."""
        try:
            self._value = await awaitable
        except Exception as exc:  # noqa: BLE001 - raised again where it is waited for
            self._error = exc
        except BaseException as exc:  # cancelled
            self._error = exc
            raise
        finally:
            self.done.set()

    def result(self) -> Any:
        """What it returned; what it raised."""
        self.done.wait()
        if self._error is not None:
            raise self._error
        return self._value


class Ahead:
    """The planned calls of one turn."""

    def __init__(
        self,
        calls: Iterable[PlannedCall],
        run: Callable[[PlannedCall], Any],
        start: Callable[[PlannedCall, Slot], bool] | None = None,
    ) -> None:
        """`run` makes a call, in a thread; unless `start` says that it sees to this one in another way."""
        self._run = run
        self._lock = threading.Lock()
        self._slots: dict[str, deque[Slot]] = {}
        self._waiting: deque[tuple[PlannedCall, Slot]] = deque()
        for call in calls:
            slot = Slot()
            self._slots.setdefault(call.key, deque()).append(slot)
            if start is None or not start(call, slot):
                self._waiting.append((call, slot))
        for _ in range(min(SIDE_BY_SIDE, len(self._waiting))):
            threads.run(self._work)

    def take(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Slot | None:
        """The slot of such a call, once for each time that it was planned."""
        if not self._slots:
            return None
        key = call_key(name, args, kwargs)
        with self._lock:
            slots = self._slots.get(key)
            if not slots:
                return None
            slots[0].taken = True
            return slots.popleft()

    def forget(self) -> None:
        """Something has changed, or the turn is over: what was made ahead does not count any more."""
        with self._lock:
            self._slots.clear()
            # Somebody waits for those that were taken.
            self._waiting = deque((call, slot) for call, slot in self._waiting if slot.taken)

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    return
                call, slot = self._waiting.popleft()
            slot.fill(lambda call=call: self._run(call))  # type: ignore[misc]  # bound now, called now
