"""Removing what a guest left behind without waiting for all of it: a guest can make more than any call may wait for."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from cloche.host.removal import removing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MOMENT = 0.5
"""Seconds for which a call waits; nearly everything is gone by then."""


class LateRemovals:
    """What this process is still removing, in one thread. What is left when the process ends is a dead host's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Iterator[None]] = deque()
        self._thread: threading.Thread | None = None
        os.register_at_fork(after_in_child=self._forget)

    def remove(self, path: Path, then: Callable[[], object] | None = None) -> bool:
        """Remove a tree, and call `then` when it is gone. Whether it is by now; otherwise that goes on by itself."""
        steps = _remove(path, then)
        until = time.monotonic() + MOMENT
        for _ in steps:
            if time.monotonic() > until:
                self._go_on(steps)
                return False
        return True

    def _go_on(self, steps: Iterator[None]) -> None:
        with self._lock:
            self._waiting.append(steps)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="cloche-removal", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                steps = self._waiting.popleft()
            for _ in steps:
                pass

    def _forget(self) -> None:
        """In a forked child: they are its parent's."""
        self._lock = threading.Lock()
        self._waiting.clear()
        self._thread = None


def _remove(path: Path, then: Callable[[], object] | None) -> Iterator[None]:
    yield from removing(path)
    if then is not None:
        then()


late_removals = LateRemovals()
