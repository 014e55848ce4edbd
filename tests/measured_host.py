"""A host process of its own, whose memory is measured: what a guest makes it hold shows in its peak."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

SPEAK = (Path(__file__).parent / "hostile_cells" / "before" / "forge.py").read_text("utf-8")
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
                      "calls": result.metrics.bridge_calls, "grown": peak() - before}))
'''


def run_measured(code: str, *, backend: str = "native", slow: float = 1.0, **policy: Any) -> dict[str, Any]:
    """What came of a cell, and by how many bytes the host has grown for it (`grown`)."""
    given = {"code": code, "backend": backend, "policy": policy, "slow": slow}
    done = subprocess.run(
        [sys.executable, "-c", _HOST], input=json.dumps(given) + "\n", capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told
