"""Places that several owners want: whoever has fewest is served first, and in turn."""

from __future__ import annotations

import time
from collections import deque

import anyio

from cloche.errors import AdmissionError

PRESENT = 1.0
"""Seconds for which an owner counts after it has given a place back: the next request may come any moment."""


class _Waiter:
    """One request for a place."""

    def __init__(self) -> None:
        self.called = anyio.Event()
        self.has_place = False


class FairQueue:
    """`places` in all. A flood of requests by one owner delays that owner, and hardly the others."""

    def __init__(self, places: int, waiting: int, what: str, *, spare: int = 0, shared: int | None = None) -> None:
        """`spare`: places that one owner alone cannot take, so that the next one who comes need not wait.
        `shared`: so much is there behind the places, and is divided among the owners who have come lately."""
        self._places = places
        self._most_of_one = max(1, places - spare)
        self._shared = shared
        self._seen: dict[str, float] = {}  # when an owner last had a place; of those who may count as present
        self._most_waiting = waiting
        self._what = what
        self._taken: dict[str, int] = {}
        self._queues: dict[str, deque[_Waiter]] = {}
        self._served: dict[str, int] = {}  # when an owner that has places, or wants one, was last served
        self._count = 0

    @property
    def taken(self) -> int:
        """Places in use."""
        return sum(self._taken.values())

    @property
    def waiting(self) -> int:
        """Requests that have none yet."""
        return sum(map(len, self._queues.values()))

    @property
    def has_room(self) -> bool:
        """Whether a place is free for somebody."""
        return self.taken < self._places and not self._queues

    def held_by(self, owner: str) -> int:
        """Places of one owner."""
        return self._taken.get(owner, 0)

    async def enter(self, owner: str, wait_ms: int) -> None:
        """Take a place, or raise `AdmissionError`."""
        if self.taken < self._places and owner not in self._queues and self.held_by(owner) < self._most_for(owner):
            self._take(owner)
            return
        queue = self._queues.setdefault(owner, deque())
        if len(queue) >= self._most_waiting:
            self._drop_empty(owner)
            raise AdmissionError(
                f"{len(queue)} requests of this owner wait for {self._what} already",
                remedy="ask for less at once, or raise the pool's limit `waiting`",
            )
        waiter = _Waiter()
        queue.append(waiter)
        try:
            with anyio.move_on_after(wait_ms / 1000):
                await waiter.called.wait()
        except BaseException:
            if waiter.has_place:
                self.leave(owner)
            raise
        finally:
            if not waiter.has_place:
                queue.remove(waiter)
                self._drop_empty(owner)
        if not waiter.has_place:
            raise AdmissionError(
                f"no place for {self._what} became free within {wait_ms} ms",
                cause=f"{self.taken} of {self._places} are taken",
                remedy="try again, close sessions that are not needed, or make the pool larger",
            )

    def leave(self, owner: str) -> None:
        """Give a place back; the next request is served."""
        if self._shared is not None:
            self._seen[owner] = time.monotonic()
        left = self._taken[owner] - 1
        if left:
            self._taken[owner] = left
        else:
            del self._taken[owner]
        self._serve()
        self._forget(owner)

    def _most_for(self, owner: str) -> int:
        """How many one owner may have now."""
        if self._shared is None:
            return self._most_of_one
        present = self._present(owner)
        return self._most_of_one if present == 1 else max(1, min(self._most_of_one, self._shared // present))

    def _present(self, owner: str) -> int:
        """How many are there, this one among them."""
        since = time.monotonic() - PRESENT
        self._seen = {name: seen for name, seen in self._seen.items() if seen > since}
        return len({owner, *self._taken, *self._queues, *self._seen})

    def crowd_of(self, owner: str) -> tuple[int, int] | None:
        """Of an owner that wants more than its share while others are there: which of such it is, and how many
        owners there are. None of any other."""
        present = self._present(owner)
        return (list(self._queues).index(owner), present) if owner in self._queues and present > 1 else None

    def _take(self, owner: str) -> None:
        self._taken[owner] = self._taken.get(owner, 0) + 1
        self._count += 1
        self._served[owner] = self._count

    def _serve(self) -> None:
        """Whoever has fewest places; of those, whoever has waited longest for a turn."""
        while self.taken < self._places:
            may = [name for name in self._queues if self.held_by(name) < self._most_for(name)]
            if not may:
                return
            owner = min(may, key=lambda name: (self.held_by(name), self._served.get(name, 0)))
            waiter = self._queues[owner].popleft()
            self._drop_empty(owner)
            waiter.has_place = True
            self._take(owner)
            waiter.called.set()

    def _drop_empty(self, owner: str) -> None:
        if owner in self._queues and not self._queues[owner]:
            del self._queues[owner]
        self._forget(owner)

    def _forget(self, owner: str) -> None:
        if owner not in self._taken and owner not in self._queues:
            self._served.pop(owner, None)
