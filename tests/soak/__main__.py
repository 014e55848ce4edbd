"""``python -m tests.soak [--sessions N] [--json]``: many sessions, then what is left is counted; 1 when it leaks."""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path

import anyio
from tests.soak import daemon_load, pool_load
from tests.soak.belongings import Belongings

from cloche.backends.daemon.link import links
from cloche.backends.daemon.places import SOCKET_VARIABLE, Places
from cloche.backends.jail.backend import JailBackend
from cloche.daemon import lifecycle
from cloche.pool import Pool

SHORT = 2000
"""Sessions below which few spares are kept, so that a small leak can be told from them."""
NOTHING = {"processes": 0, "threads": 12, "descriptors": 4, "cgroups": 0, "mounts": 0, "files": 0, "memory": 8_000}
"""What a process may have more when its jails are ended: threads that are kept, and what the allocator keeps."""
ALLOWED = {"processes": 6, "threads": 12, "descriptors": 60, "cgroups": 6, "mounts": 0, "files": 2, "memory": 8_000}
"""What a daemon may have more at the end than at rest before: one or two spares more, threads that are kept."""
SPARES = {"processes": 60, "threads": 60, "descriptors": 400, "cgroups": 30, "mounts": 0, "files": 4, "memory": 24_000}
"""The same where it keeps as many spares as it likes."""
FEW_SPARES = "import cloche.backends.jail.spares as s; s.MOST = 1; "
PROGRAM = "import sys; {first}from cloche.daemon.__main__ import main; sys.exit(main())"
REST = 20.0
WARM_UP = 0.2


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that must not grow."""

    what: str
    before: int
    after: int
    allowed: int

    @property
    def held(self) -> bool:
        return self.after - self.before <= self.allowed


class Progress:
    """Says where we are, on stderr, about once in two seconds."""

    def __init__(self, name: str, total: int, look: Callable[[], Belongings]) -> None:
        self._name, self._total, self._look = name, total, look
        self.done = 0
        self._began = self._last = time.monotonic()

    def __call__(self, made: int) -> None:
        self.done += made
        now = time.monotonic()
        if now - self._last > 2:
            self._last = now
            rate = self.done / (now - self._began)
            sys.stderr.write(f"{self._name}: {self.done}/{self._total} sessions, {rate:.0f}/s; {self._look()}\n")


def compare(name: str, before: Belongings, after: Belongings, allowed: dict[str, int]) -> list[Check]:
    """Everything that is counted, before and after."""
    return [
        Check(f"{name}: {item.name}", getattr(before, item.name), getattr(after, item.name), allowed[item.name])
        for item in fields(Belongings)
    ]


def at_rest(look: Callable[[], Belongings], before: Belongings, allowed: dict[str, int]) -> Belongings:
    """What is there once all that was closed has ended; what has not by then never will."""
    end = time.monotonic() + REST
    while True:
        found = look()
        if time.monotonic() > end or all(check.held for check in compare("", before, found, allowed)):
            return found
        time.sleep(0.05)


def soak_pool(sessions: int, folder: Path) -> list[Check]:
    """A pool in this process. Its jails are ended before each count, so nothing at all may be left."""
    look = partial(Belongings.of, os.getpid(), folder)

    async def drive(count: int, progress: Progress) -> None:
        async with Pool(config={"backend": "jail"}) as pool:
            await pool_load.drive(pool, count, progress)

    def count() -> Belongings:
        JailBackend.shut_down()
        gc.collect()
        return look()

    warm_up = int(sessions * WARM_UP)
    anyio.run(drive, warm_up, Progress("pool, warming up", warm_up, look))
    before = count()
    anyio.run(drive, sessions - warm_up, Progress("pool", sessions - warm_up, look))
    return compare("pool", before, at_rest(count, before, NOTHING), NOTHING)


@contextmanager
def house(folder: Path, *, few_spares: bool) -> Iterator[tuple[Places, int]]:
    """A daemon, and its process."""
    places = Places(folder / "rlm" / "daemon.sock")
    os.environ[SOCKET_VARIABLE] = str(places.socket)
    ready, told = os.pipe()
    program = PROGRAM.format(first=FEW_SPARES if few_spares else "")
    with subprocess.Popen([sys.executable, "-c", program, "--ready", str(told)], pass_fds=[told]) as process:
        os.close(told)
        if os.read(ready, 4096) != b"ready":
            raise RuntimeError("the daemon did not start")
        os.close(ready)
        yield places, process.pid
        links.close()
        lifecycle.stop(places)


def soak_daemon(sessions: int, folder: Path, *, few_spares: bool) -> list[Check]:
    """A daemon and its clients: the daemon must not grow, this process neither, and its end leaves nothing."""
    allowed = ALLOWED if few_spares else SPARES
    ours = partial(Belongings.of, os.getpid(), folder)
    with house(folder, few_spares=few_spares) as (places, pid):
        look = partial(Belongings.of, pid, folder)
        warm_up = int(sessions * WARM_UP)
        daemon_load.drive(places, warm_up, Progress("daemon, warming up", warm_up, look))
        gc.collect()
        before, ours_before = look(), ours()
        daemon_load.drive(places, sessions - warm_up, Progress("daemon", sessions - warm_up, look))
        gc.collect()
        checks = compare("daemon", before, at_rest(look, before, allowed), allowed)
        # the daemon's processes, and its files, are ours too
        client = {**NOTHING, "processes": allowed["processes"], "files": allowed["files"]}
        checks += compare("its client", ours_before, at_rest(ours, ours_before, client), client)
    left = [str(path) for path in folder.rglob("*") if path.is_file() and path.suffix not in (".lock", ".log")]
    after = at_rest(ours, ours_before, {**NOTHING, "processes": -ours_before.processes})
    return [
        *checks,
        Check("after the daemon: processes", 0, after.processes, 0),
        Check("after the daemon: files", 0, len(left), 0),
    ]


def main() -> int:
    """Run, print the verdict."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--sessions", type=int, default=10_000, help="half of them over the pool, half over the daemon")
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["CLOCHE_SESSIONS_DIR"] = str(folder / "sessions")
        half = options.sessions // 2
        checks = soak_pool(half, folder)
        checks += soak_daemon(options.sessions - half, folder, few_spares=options.sessions < SHORT)
    clean = all(check.held for check in checks)
    seconds = round(time.monotonic() - began, 1)
    if options.json:
        plain = [{**asdict(check), "held": check.held} for check in checks]
        print(json.dumps({"clean": clean, "sessions": options.sessions, "seconds": seconds, "checks": plain}))
    else:
        for check in checks:
            grown = f"{check.before} -> {check.after} (at most {check.allowed} more)"
            print(f"{'ok  ' if check.held else 'LEAK'} {check.what}: {grown}")
        print(f"{'clean' if clean else 'LEAKS'}: {options.sessions} sessions in {seconds:g} s")
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
