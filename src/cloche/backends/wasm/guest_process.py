"""The process of a session, as the host holds it: a line, and what the worker's ledger says of it."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from cloche.backends.wasm.ledger import End, Entry
from cloche.session.processes import process_start

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloche.backends.wasm.control import ControlLine
    from cloche.backends.wasm.workers import Worker

MAX_SESSIONS = 64
"""Sessions that a process runs, one after the other: what little each leaves behind goes with it."""
_LOOK = 0.001
LARGE = 128 << 20
"""Memory of a guest after which its process is not used again."""


class GuestProcess:
    """Forked by a worker. Runs one session at a time; any thread may ask it for something."""

    def __init__(
        self, worker: Worker, number: int, slot: int, line: ControlLine, free: Callable[[GuestProcess], None]
    ) -> None:
        self.worker = worker
        self.number = number
        self.slot = slot
        self._line = line
        self._free = free
        self._lock = threading.Lock()
        self._holders = 0
        self._sessions = 0

    @property
    def pid(self) -> int:
        """The process; before it is known, that which forks it."""
        return self.worker.ledger.process(self.slot) or self.worker.pid

    @property
    def alive(self) -> bool:
        """Whether it is there. Nothing but its end ever comes over its line."""
        return not self._line.ended

    @property
    def used(self) -> bool:
        """Whether it has run a session before."""
        return self._sessions > 0

    @property
    def entry(self) -> Entry:
        """What the ledger says of its session."""
        return self.worker.ledger.read(self.slot)

    @property
    def reusable(self) -> bool:
        """Whether another session can have it."""
        entry = self.entry
        if entry.end in (End.NOT, End.FAILED) or entry.memory >= LARGE:
            return False
        return self._sessions < MAX_SESSIONS and self.alive

    def open(self, descriptors: list[int], options: dict[str, Any]) -> None:
        """Begin a session over these descriptors."""
        with self._lock:
            self._sessions += 1
            self.worker.ledger.write(self.slot, Entry())
        self._send({"open": options}, descriptors)

    def interrupt(self, *, insist: bool) -> None:
        """Have the session hear a signal."""
        self._send({"interrupt": insist})

    def end(self) -> None:
        """End the session."""
        self._send({"end": True})

    def forget(self, copy: int) -> None:
        """A copy of the session is not wanted any more."""
        self._send({"forget": copy})

    def kill(self) -> None:
        """End the process, wherever it is."""
        self.worker.kill_process(self.number)

    def wait(self, seconds: float) -> None:
        """Until it has ended, with all that it held open, but not longer."""
        until = time.monotonic() + seconds
        self._line.wait_for_end(seconds)
        pid = self.worker.ledger.process(self.slot)
        while pid and _has_threads(pid) and time.monotonic() < until:
            time.sleep(_LOOK)

    def hold(self) -> None:
        """A session runs here, or a copy of one is kept."""
        with self._lock:
            self._holders += 1

    def let_go(self) -> None:
        """One of those is no more. After the last, the process is for another session."""
        with self._lock:
            self._holders -= 1
            if self._holders:
                return
        self._free(self)

    def close(self) -> None:
        """Without its line it ends."""
        if self.entry.end is End.NOT:
            self.kill()
        self._line.close()

    def leave(self) -> None:
        """In a forked child: it is our parent's."""
        self._lock = threading.Lock()
        self._line.close()

    def _send(self, message: dict[str, Any], descriptors: list[int] | tuple[int, ...] = ()) -> None:
        with self._lock, suppress(OSError):  # gone: who looks for the session's end finds that
            self._line.send(message, descriptors)


def _has_threads(pid: int) -> bool:
    """Whether any is left: the last of them closes what the process had open, and that need not be the first one."""
    try:
        return process_start(pid) is not None or len(os.listdir(f"/proc/{pid}/task")) > 1
    except OSError:
        return False
