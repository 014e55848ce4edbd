"""``python -m benchmarks.flood SOCKET SESSIONS``: one owner that asks for all that it can get, when it is told to.

It reads `rise` and `fall` from stdin; it answers `high` when all of its sessions have a cell to run, and `low` when
none has any more.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from benchmarks.wire_client import WireClient
from cloche.backends.daemon.places import Places

BUSY = "for _ in range(2_000_000): pass"


class Flood:
    """Clients that all belong to one owner."""

    def __init__(self, path: Path, count: int) -> None:
        token = Places(path).read_token() or ""
        self._clients = [WireClient(path, token, "greedy") for _ in range(count)]
        self._on, self._over = threading.Event(), False
        self._high, self._low = threading.Semaphore(0), threading.Semaphore(0)
        self._threads = [threading.Thread(target=self._work, args=(client,)) for client in self._clients]
        for thread in self._threads:
            thread.start()

    def _work(self, client: WireClient) -> None:
        while self._on.wait() and not self._over:
            self._high.release()
            while self._on.is_set():
                client.run(BUSY)
            self._low.release()

    def rise(self) -> None:
        """All of them."""
        self._on.set()
        for _ in self._clients:
            self._high.acquire()

    def fall(self) -> None:
        """None of them any more."""
        self._on.clear()
        for _ in self._clients:
            self._low.acquire()

    def close(self) -> None:
        self._over = True
        self._on.set()
        for thread in self._threads:
            thread.join()
        for client in self._clients:
            client.close()


def main() -> int:
    """Until stdin ends."""
    flood = Flood(Path(sys.argv[1]), int(sys.argv[2]))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        if line.strip() == "rise":
            flood.rise()
            sys.stdout.write("high\n")
        else:
            flood.fall()
            sys.stdout.write("low\n")
        sys.stdout.flush()
    flood.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
