"""The deadline of the call that is under way, as every wait below a driver sees it.

A driver says until when the host may work for a call (`working_for`), and each wait of a wall asks how long it may
take (`time_left`): a guest that keeps the host waiting somewhere costs its caller no more than the call's own deadline.
Host functions and guest code run outside of it. Where no call is under way, the wait's own limit holds.
"""

from __future__ import annotations

from contextvars import ContextVar
from math import inf
from time import monotonic

CLEAN_UP = 1.0
"""Seconds beyond a deadline that has passed: to return to a savepoint, to end processes, to remove what they had."""

_until: ContextVar[float] = ContextVar("cloche_deadline", default=inf)


class working_for:  # noqa: N801 - a context manager, called like a function
    """All waits in here end within so many seconds; `least`: what is granted where that is less or nothing."""

    def __init__(self, seconds: float, *, least: float = 0.0) -> None:
        self._seconds = max(seconds, least)

    def __enter__(self) -> None:
        self._before = _until.set(monotonic() + self._seconds)

    def __exit__(self, *_: object) -> None:
        _until.reset(self._before)


def current_deadline() -> float:
    """When the call that is under way must be over, by `time.monotonic`; infinite where there is none."""
    return _until.get()


def time_left(most: float, *, least: float = 0.0) -> float:
    """Seconds that a wait may take: `most`, or what the call has left; where that is nothing, `least`."""
    until = _until.get()
    return most if until == inf else min(most, max(until - monotonic(), least))
