"""A process made ahead: booted, never used, so that the next session need not wait for one.

One at most, since each has the memory of a whole interpreter; and only where a second session was opened within
a short time: a program that opens one session should not pay for two.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from typing import TYPE_CHECKING

from cloche.backends.pyodide.process import DenoProcess
from cloche.session.chores import chores

if TYPE_CHECKING:
    from cloche.backends.pyodide.process import Kind

BREATH = 0.02
"""Seconds. Whoever has just claimed is about to use it: the start of another must not get in the way."""
WINDOW = 120.0
"""Seconds in which a second session shows that there will be more."""
KEPT = 60.0
"""Seconds after the last session for which a spare is kept."""


class Spares:
    """The spare of this process. A forked child has none of its parent's."""

    def __init__(self) -> None:
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    _spare: tuple[Kind, DenoProcess] | None = None

    def _forget(self) -> None:
        self._lock = threading.Lock()
        spare, self._spare = self._spare, None
        if spare is not None:
            spare[1].leave()
        self._claimed = 0.0
        self._turn = 0

    def claim(self, kind: Kind) -> DenoProcess:
        """A process of that kind: the spare, or one that is started now. Soon there is another spare."""
        now = time.monotonic()
        with self._lock:
            again = self._claimed > 0 and now - self._claimed < WINDOW
            self._claimed = now
            spare = self._take(kind)
            self._turn += 1
            turn = self._turn
        if again:
            chores.after(BREATH, lambda: self._prepare(turn, kind))
        return spare or DenoProcess(kind)

    def _take(self, kind: Kind) -> DenoProcess | None:
        if self._spare is None or self._spare[0] != kind:
            return None
        process, self._spare = self._spare[1], None
        if process.alive:
            return process
        process.close()
        return None

    def _prepare(self, turn: int, kind: Kind) -> None:
        with self._lock:
            if turn != self._turn:
                return  # somebody came since: it is his turn that counts
            if self._spare is not None and (self._spare[0] != kind or not self._spare[1].alive):
                self._spare[1].close()
                self._spare = None
            if self._spare is None:
                try:
                    self._spare = kind, DenoProcess(kind, ahead=True)
                except OSError:  # no process or descriptor is left: the next session will say so
                    return
        chores.after(KEPT, lambda: self._expire(turn))

    def _expire(self, turn: int) -> None:
        with self._lock:
            if turn == self._turn and self._spare is not None:
                self._spare[1].close()
                self._spare = None

    def close(self) -> None:
        """End it."""
        with self._lock:
            self._turn += 1
            self._claimed = 0.0
            spare, self._spare = self._spare, None
        if spare is not None:
            spare[1].close()


spares = Spares()
atexit.register(spares.close)
