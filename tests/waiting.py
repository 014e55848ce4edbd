"""Waiting for what happens elsewhere and tells nobody: one way, which fails when it does not happen."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

PATIENCE = 30.0


def wait_until(condition: Callable[[], object], missed: str = "what was waited for did not happen") -> None:
    """Look until it holds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, missed
        time.sleep(0.01)


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
