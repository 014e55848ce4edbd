"""Clean-up of objects that were dropped without being closed, in a thread of its own.

The garbage collector runs in whatever thread allocates next, also inside a lock that this very thread holds, inside an
event loop, or in the middle of a system call's preparation. So a finalizer here does one thing: it hands the clean-up
over, by an operation that takes no lock. A thread that holds nothing carries it out.
"""

from __future__ import annotations

import atexit
import itertools
import logging
import os
import threading
import weakref
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

IDLE_SECONDS = 10.0
"""How long the thread stays when no object is watched any more."""
EXIT_SECONDS = 10.0
"""How long the end of the process waits for a clean-up that is under way."""

_log = logging.getLogger("cloche")


class Watched:
    """An object whose clean-up is due when it is collected. `cancel()` when it was closed in the ordinary way."""

    __slots__ = ("_key", "_pending")

    def __init__(self, pending: dict[int, Callable[[], object]], key: int) -> None:
        self._pending = pending
        self._key = key

    def cancel(self) -> None:
        """Forget the clean-up: it has been done."""
        self._pending.pop(self._key, None)


class CleanupThread:
    """Cleans up after collected objects: at once in a daemon thread, or when the process ends.

    The thread is started with the first object that is watched, since none may be started by a finalizer, and ends
    when there was none for a while. A forked child starts its own.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._pending: dict[int, Callable[[], object]] = {}
        self._registered = False
        self._forget_thread()
        os.register_at_fork(after_in_child=self._forget_thread)

    def _forget_thread(self) -> None:
        self._starting = threading.Lock()  # never taken by a finalizer
        self._due: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def watch(self, owner: object, clean_up: Callable[[], object]) -> Watched:
        """Have `clean_up`, which must not refer to `owner`, called after `owner` was collected."""
        key = next(self._numbers)
        with self._starting:
            self._pending[key] = clean_up
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, args=(self._due,), name="cloche-clean-up", daemon=True
                )
                self._thread.start()
            if not self._registered:
                self._registered = True
                # Now: what sessions run on was loaded before them and ends after them.
                atexit.register(self._finish)
        weakref.finalize(owner, self._hand_over, key).atexit = False
        return Watched(self._pending, key)

    def _hand_over(self, key: int) -> None:
        """Called by the collector. `SimpleQueue.put` is re-entrant: it may interrupt itself."""
        clean_up = self._pending.pop(key, None)
        if clean_up is not None:
            self._due.put(clean_up)

    def _work(self, due: SimpleQueue[Callable[[], object] | None]) -> None:
        while True:
            try:
                clean_up = due.get(timeout=IDLE_SECONDS)
            except Empty:
                with self._starting:
                    if not self._pending and due.empty():
                        if self._due is due:
                            self._thread = None
                        return
                continue
            if clean_up is None:
                return
            _carry_out(clean_up)
            del clean_up  # or it would be kept until the next one comes

    def _finish(self) -> None:
        """At the end of the process: wait for what is under way, then clean up whatever was never closed."""
        thread, due = self._thread, self._due
        if thread is not None and thread.is_alive():
            due.put(None)
            thread.join(EXIT_SECONDS)
        while True:
            try:
                clean_up = due.get_nowait()
            except Empty:
                break
            if clean_up is not None:
                _carry_out(clean_up)
        while self._pending:
            _carry_out(self._pending.popitem()[1])


def _carry_out(clean_up: Callable[[], object]) -> None:
    try:
        clean_up()
    except Exception as exc:  # noqa: BLE001 - the next clean-up must not suffer, and there is no caller to tell
        _log.warning("a sandbox that was never destroyed could not be ended cleanly: %s", exc)


abandoned = CleanupThread()
