"""What the kernel tells of a process: when it began, and what it has used."""

from __future__ import annotations

import os

CLOCK_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_STATE, _USER_TIME, _SYSTEM_TIME, _START = 0, 11, 12, 19


def process_start(pid: int) -> int | None:
    """When a process began, in the kernel's own ticks: with the pid, its identity. None when it is gone."""
    fields = _fields(pid)
    return None if fields is None or fields[_STATE] in (b"Z", b"X") else int(fields[_START])


def cpu_seconds(pid: int | None, thread: int | None = None) -> float | None:
    """CPU time that a process, or one thread of it, has used. None where that cannot be told."""
    fields = None if pid is None else _fields(pid if thread is None else f"{pid}/task/{thread}")
    return None if fields is None else (int(fields[_USER_TIME]) + int(fields[_SYSTEM_TIME])) / CLOCK_TICKS


def _fields(pid: int | str) -> list[bytes] | None:
    """Those after the name, which may contain anything."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as handle:
            fields = handle.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return fields if len(fields) > _START else None
