"""After a client that was killed: its list of sessions, which it could not strike off itself."""

from __future__ import annotations

import os
from contextlib import suppress

import anyio

from cloche.paths import sessions_dir
from cloche.session.hosts import Host
from cloche.session.processes import process_start

LOOKS = 50
PAUSE = 0.02


async def sweep_after(pid: int) -> None:
    """Remove the register of a process, should it be ending. One that lives keeps its own."""
    for _ in range(LOOKS):
        if process_start(pid) is None and not _remove_registers(pid):
            return
        await anyio.sleep(PAUSE)  # its connection ends a moment before the rest of it does


def _remove_registers(pid: int) -> int:
    """How many are still there."""
    left = 0
    folder = sessions_dir()
    with suppress(OSError):
        for name in os.listdir(folder):
            host = Host.parse(name)
            if host is None or host.pid != pid:
                continue
            if host.has_left(str(folder / name)):
                (folder / name).unlink(missing_ok=True)
            else:
                left += 1
    return left
