"""Interrupts at random moments: no frame is lost, no cell answers twice, the kernel lives."""

from __future__ import annotations

import os
import random
import signal
import threading
import time

from tests.guest.sessions import executable, found_versions, sandbox

from cloche import NativePythonSandbox

__all__ = ["executable", "sandbox"]

SIGNALS = 2000
CELLS = (
    ("sum(range(2000))", "1999000"),
    ("for i in range(50): print(i)\n'printed'", "'printed'"),
    ("echo([1, 2, 3])", "[1, 2, 3]"),
    ("[echo(i) for i in range(5)]", "[0, 1, 2, 3, 4]"),
    ("import time\ntime.sleep(0.002)\n'slept'", "'slept'"),
    ("try:\n    1/0\nexcept ZeroDivisionError as exc:\n    x = str(exc)\nx", "'division by zero'"),
    ("def f(n): return n if n < 2 else f(n - 1) + f(n - 2)\nf(14)", "377"),
    ("import sys\nsys.modules.pop('colorsys', None)\nimport colorsys\n'imported'", "'imported'"),
    ("display(5)\n'shown'", "'shown'"),
    ("import asyncio\nawait asyncio.sleep(0, 'awaited')", "'awaited'"),
    ("kept", "'kept'"),
)  # fmt: skip


def test_two_thousand_interrupts_at_random_moments(sandbox: NativePythonSandbox):
    share = SIGNALS // max(1, len(found_versions()))
    sandbox.execute("kept = 'kept'")
    pid = sandbox.execute("import os\nos.getpid()").value
    assert pid is not None
    over = threading.Event()
    choose = random.Random(1)

    def storm() -> None:
        for _ in range(share):
            time.sleep(choose.random() * 0.0012)
            os.kill(int(pid), signal.SIGINT)
        over.set()

    thread = threading.Thread(target=storm)
    thread.start()
    answered = interrupted = 0
    while not over.is_set():
        code, value = CELLS[(answered + interrupted) % len(CELLS)]
        result = sandbox.execute(code)
        assert result.session_state == "kept"
        if result.outcome == "ok":
            answered += 1
            assert result.value == value, code
        else:
            interrupted += 1
            assert result.outcome == "error", result.error
            assert "KeyboardInterrupt" in (result.error or "") or "interrupt" in result.stderr.lower(), result.error
    thread.join()
    assert answered > 0
    assert interrupted > 0
    assert sandbox.execute("kept, echo(1), 1 + 1").value == "('kept', 1, 2)"
    assert sandbox.execute("while True: pass", timeout_ms=100).outcome == "timeout", "and still hears the host"
