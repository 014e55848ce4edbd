"""Threads that run host functions, so that one that never returns can be abandoned.

One small set for the whole process. A thread waits for its next function when it is done; beyond a few idle ones it
ends. They are daemons: an abandoned function does not keep the process alive.
"""

from __future__ import annotations

import os
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_IDLE = 16


class _Worker:
    def __init__(self, pool: CallbackThreads) -> None:
        self._pool = pool
        self.inbox: SimpleQueue[Callable[[], None]] = SimpleQueue()
        threading.Thread(target=self._work, name="cloche-callback", daemon=True).start()

    def _work(self) -> None:
        while True:
            self.inbox.get()()
            if not self._pool.keep(self):
                return


class CallbackThreads:
    """Hands functions to threads; never makes one wait for another."""

    def __init__(self) -> None:
        self._idle: list[_Worker] = []
        os.register_at_fork(after_in_child=self._idle.clear)  # a child has none of its parent's threads

    def run(self, function: Callable[[], None]) -> None:
        """Run `function`, which must not raise, in some thread."""
        try:
            worker = self._idle.pop()
        except IndexError:
            worker = _Worker(self)
        worker.inbox.put(function)

    def keep(self, worker: _Worker) -> bool:
        """A worker is done: does it stay?"""
        if len(self._idle) >= MAX_IDLE:
            return False
        self._idle.append(worker)
        return True


threads = CallbackThreads()
