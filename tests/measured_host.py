"""A host process of its own, whose memory is measured: what a guest makes it hold shows in its peak."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

SPEAK = """
import os, socket, stat

def wires():
    for name in os.listdir("/proc/self/fd"):
        try:
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                with socket.socket(fileno=os.dup(int(name))) as found:
                    if found.type == socket.SOCK_STREAM:
                        yield int(name)
        except OSError:
            pass
    if os.path.exists("/dev/wire"):  # where it is a device
        yield os.open("/dev/wire", os.O_RDWR)

wire, *_ = wires()

def say(data):
    view = memoryview(data)
    while view:
        view = view[os.write(wire, view) :]

"""
"""With this before it, a cell can `say()` any bytes to the host."""

_HOST = '''
import json, sys, threading
from cloche import ExecutionPolicy, create_sandbox

given = json.loads(sys.stdin.readline())
opened = threading.Event()
threading.Timer(given["slow"], opened.set).start()

def slow(*args):
    """A host function that takes long; after a while all of its calls return at once."""
    opened.wait()
    return len(args)

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))

policy = ExecutionPolicy(**given["policy"])
with create_sandbox(backend=given["backend"], tools={"slow": slow}, policy=policy) as sandbox:
    sandbox.execute("x = 1").check()
    before = peak()
    result = sandbox.execute(given["code"])
    print(json.dumps({"outcome": result.outcome, "value": result.value, "error": result.error,
                      "calls": result.usage.bridge_calls, "grown": peak() - before}))
'''


def peak() -> int:
    """The most memory that this process has had, in bytes."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


@contextmanager
def peak_of() -> Iterator[Callable[[], int]]:
    """By how many bytes this process has grown since, at the most."""
    with suppress(OSError):  # begins to count the peak anew, where the kernel can
        Path("/proc/self/clear_refs").write_text("5")
    before = peak()
    yield lambda: peak() - before


def run_measured(code: str, *, backend: str = "native", slow: float = 1.0, **policy: Any) -> dict[str, Any]:
    """What came of a cell, and by how many bytes the host has grown for it (`grown`)."""
    given = {"code": code, "backend": backend, "policy": policy, "slow": slow}
    done = subprocess.run(
        [sys.executable, "-c", _HOST], input=json.dumps(given) + "\n", capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told
