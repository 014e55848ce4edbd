"""Small things that are done a moment later, so that whoever is in a hurry need not wait for them."""

from __future__ import annotations

import heapq
import itertools
import os
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

LULL = 0.02
"""Seconds between two looks while there was something to do lately. To wake a thread costs its waker a part of the time
that is to be saved; one that looks by itself need not be woken."""
LATELY = 2.0
IDLE = 10.0
"""Seconds without anything to do after which the thread ends."""


class Chores:
    """One daemon thread for the whole process, there when it is needed. A forked child has none of its parent's."""

    def __init__(self) -> None:
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._running = False
        self._looks_at = 0.0  # when the thread will look next, whatever happens
        self._last = 0.0

    def after(self, seconds: float, chore: Callable[[], None]) -> None:
        """Do it then, or soon after. It must not raise, and others wait while it is done."""
        now = time.monotonic()
        with self._changed:
            heapq.heappush(self._due, (now + seconds, next(self._numbers), chore))
            if seconds < LATELY:
                self._last = now
            if not self._running:
                self._running = True
                try:
                    threading.Thread(target=self._work, name="cloche-chores", daemon=True).start()
                except RuntimeError:  # there is no room for a thread: whoever comes next tries again
                    self._running = False
            elif now + seconds < self._looks_at:
                self._changed.notify()

    def _work(self) -> None:
        try:
            while (chore := self._next()) is not None:
                chore()
        finally:
            with self._changed:
                self._running = False

    def _next(self) -> Callable[[], None] | None:
        idle_since = time.monotonic()
        with self._changed:
            while True:
                now = time.monotonic()
                if self._due and self._due[0][0] <= now:
                    return heapq.heappop(self._due)[2]
                if not self._due and now - idle_since > IDLE:
                    self._running = False  # in the same breath as the look: what comes now starts another thread
                    return None
                wait = self._due[0][0] - now if self._due else IDLE
                if now - self._last < LATELY:
                    wait = min(wait, LULL)
                self._looks_at = now + wait
                self._changed.wait(wait)


chores = Chores()
