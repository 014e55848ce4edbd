"""Waiting for processes that are not ours to wait for."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

PATIENCE = 30.0


def open_process(pid: int) -> int:
    """A descriptor that becomes readable when the process has ended."""
    return os.pidfd_open(pid)


def has_ended(descriptor: int) -> bool:
    """Wait for the end of a process; False when it does not come."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    try:
        return bool(poll.poll(PATIENCE * 1000))
    finally:
        os.close(descriptor)


def run_script(code: str, *args: str, **environment: str) -> subprocess.Popen[str]:
    """A host of its own, which prints what the test wants to know."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *args], stdout=subprocess.PIPE, text=True, env={**os.environ, **environment}
    )


def read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, f"the script ended with {process.wait()}"
    return line.strip()


def open_descriptors() -> set[str]:
    """What this process has open, by what it is."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add(f"{name} {os.readlink(f'/proc/self/fd/{name}')}")
        except OSError:
            continue  # the one that listed the folder
    return found


def children() -> list[int]:
    """Processes whose parent we are, ended ones that nobody waited for included."""
    found: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        found += map(int, (task / "children").read_text().split())
    return found
