"""The deadline of one call: wall time that stops while the host is working for the guest, CPU time that does not."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

clock = perf_counter
"""The one clock of sessions."""
_CPU_LOOK = 0.05
"""While the wall clock stands still, how often at the most the guest's CPU time is looked at."""


class Clock:
    """Spent time = wall time outside of bridge calls + CPU time burnt during them."""

    def __init__(self, started: float, budget: float, ceiling: float, read_cpu: Callable[[], float | None]) -> None:
        self.started = started
        self.ceiling_at = started + ceiling
        self.bridge_seconds = 0.0
        self._budget = budget
        self._read_cpu = read_cpu
        self._credit = 0.0  # time that does not count
        self._paused_at: float | None = None
        self._paused_cpu: float | None = None

    def pause(self, now: float) -> None:
        """A bridge call went out."""
        if self._paused_at is None:
            self._paused_at = now
            self._paused_cpu = self._read_cpu()

    def resume(self, now: float) -> None:
        """The last bridge call came back."""
        if self._paused_at is not None:
            self.bridge_seconds += now - self._paused_at
            self._credit += self._excused(now)
            self._paused_at = None

    def _excused(self, now: float) -> float:
        """Of the current pause, what does not count. Without a CPU reading, all of it."""
        if self._paused_at is None:
            return 0.0
        pause = now - self._paused_at
        cpu = self._read_cpu() if self._paused_cpu is not None else None
        burnt = cpu - self._paused_cpu if cpu is not None and self._paused_cpu is not None else 0.0
        return max(0.0, pause - burnt)

    def left(self, now: float) -> float:
        """Seconds of budget left, negative when it is spent."""
        return self._budget - (now - self.started - self._credit - self._excused(now))

    def wake_at(self, now: float) -> float:
        """When to look again."""
        if self._paused_at is None:
            return min(self.started + self._budget + self._credit, self.ceiling_at)
        return min(now + max(_CPU_LOOK, self.left(now) / 4), self.ceiling_at)

    def expired(self, now: float) -> bool:
        """The budget or the ceiling is used up."""
        return now >= self.ceiling_at or (now >= self.started + self._budget + self._credit and self.left(now) <= 0)
