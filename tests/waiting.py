"""Waiting for processes that tell nobody of their end."""

from __future__ import annotations

from pathlib import Path

from cloche.conformance.waiting import wait_until


def gone(pid: int) -> bool:
    """Whether a process has ended, waited for or not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state in "ZX"


def until_gone(*pids: int | None) -> None:
    """Look until all of them have ended."""
    wait_until(lambda: all(pid is None or gone(pid) for pid in pids), "a process outlived its house")
