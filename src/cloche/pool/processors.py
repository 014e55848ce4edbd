"""On which processors the cells of an owner run that asks for more than its share: not on those of the others."""

from __future__ import annotations

import os
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from cloche.pool.fair_queue import FairQueue


class HasGuest(Protocol):
    """A sandbox, as far as this is concerned."""

    @property
    def guest_pid(self) -> int | None:
        """The process that runs its cells."""


class Processors:
    """Keeps crowds to their share. Who asks for no more than that runs anywhere.

    The kernel would share fairly too, but by the tick: whoever wakes up beside a crowd waits for milliseconds.
    """

    def __init__(self, queue: FairQueue) -> None:
        self._queue = queue
        self._all = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        self._kept: weakref.WeakSet[HasGuest] = weakref.WeakSet()  # those that are not free to run anywhere

    def assign(self, owner: str, sandbox: HasGuest) -> None:
        """Before a cell."""
        crowd, guest = self._queue.crowd_of(owner), sandbox.guest_pid
        if guest is None or len(self._all) < 2:
            return
        if crowd is None:
            if sandbox in self._kept:
                self._kept.discard(sandbox)
                self._allow(guest, self._all)
            return
        place, present = crowd
        share = max(1, len(self._all) // present)
        first = place * share % len(self._all)
        self._kept.add(sandbox)
        self._allow(guest, self._all[first : first + share])

    @staticmethod
    def _allow(guest: int, processors: list[int]) -> None:
        with suppress(OSError):  # it has ended, or is not ours to bind
            os.sched_setaffinity(guest, processors)
