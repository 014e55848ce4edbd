"""Deadlines: every call returns, and the session is there afterwards."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from cloche.conformance.waiting import PATIENCE, release_after
from cloche.errors import CallTimeoutError, ExecutionTimeoutError

if TYPE_CHECKING:
    from cloche.conformance.fixtures import OpenSandbox
    from cloche.sandbox import SessionSandbox

LONG_GRACE = 20_000
"""Time to unwind on a busy machine; a cell that does unwind does not use it up."""

STOPPABLE = {
    "a loop": "while True: pass",
    "a sleep": "import time; time.sleep(1000)",
    "a regular expression": "import re; re.match('(a+)+$', 'a' * 60 + 'b')",
    "arithmetic": "3 ** 10 ** 8",
    "a lock": "import _thread; lock = _thread.allocate_lock(); lock.acquire(); lock.acquire()",
    "a loop that swallows": "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
    "a finally that loops": "try:\n    while True: pass\nfinally:\n    while True: pass",
    "a repr that loops": "class Slow:\n    def __repr__(self):\n        while True: pass\nSlow()",
    "an error text that loops": "class Slow(Exception):\n    def __str__(self):\n        while True: pass\nraise Slow",
    "an await": "import asyncio; await asyncio.sleep(1000)",
}


@pytest.mark.parametrize("kind", STOPPABLE)
def test_a_cell_that_does_not_end_times_out_and_keeps_its_variables(open_sandbox: OpenSandbox, kind: str) -> None:
    """Known defect 1.8.9: the time-out killed all state, or did not stop the code."""
    sandbox = open_sandbox(grace_ms=LONG_GRACE)
    sandbox.execute("x = 1")
    result = sandbox.execute(STOPPABLE[kind], timeout_ms=200)
    assert (result.outcome, result.exit_code, result.session_state) == ("timeout", 124, "kept")
    assert sandbox.execute("x").value == "1"


@pytest.mark.cloche_needs("subprocess")
def test_a_cell_that_hears_no_signal_is_killed(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(grace_ms=100)
    deaf = "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\nwhile True: pass"
    result = sandbox.execute(deaf, timeout_ms=300)
    assert (result.outcome, result.session_state) == ("timeout", "reset")


@pytest.mark.cloche_needs("subprocess")
def test_the_next_cell_after_a_kill_works(open_sandbox: OpenSandbox) -> None:
    """Known defect 1.8.3: after a time-out the worker stayed dead."""
    sandbox = open_sandbox(grace_ms=100)
    sandbox.execute("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)", timeout_ms=300)
    assert sandbox.execute("1 + 1").value == "2"


@pytest.mark.cloche_needs("subprocess")
def test_a_cell_that_ignores_the_interrupt_is_stopped_with_its_variables(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(grace_ms=LONG_GRACE)
    sandbox.execute("x = 1")
    code = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"
    assert sandbox.execute(code, timeout_ms=200).session_state == "kept"
    assert sandbox.execute("x").value == "1"


@pytest.mark.cloche_needs("subprocess")
def test_the_interrupt_works_again_after_a_cell_that_ignored_it(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(grace_ms=LONG_GRACE)
    sandbox.execute("import signal\nfor s in (2, 10, 12): signal.signal(s, signal.SIG_IGN)")
    assert sandbox.execute("while True: pass", timeout_ms=200).session_state == "kept"


def test_the_error_of_a_time_out_says_timeout(sandbox: SessionSandbox) -> None:
    """Known defect 1.8.9: it read KeyboardInterrupt."""
    result = sandbox.execute("while True: pass", timeout_ms=100)
    assert result.error is not None
    assert "timeout" in result.error
    assert "100 ms" in result.error


def test_what_was_printed_before_a_time_out_is_kept(sandbox: SessionSandbox) -> None:
    sandbox.execute("1")  # the deadline covers the start too
    assert sandbox.execute("print('before')\nwhile True: pass", timeout_ms=200).stdout == "before\n"


def test_the_policys_time_out_is_used(open_sandbox: OpenSandbox) -> None:
    """Known defect 2.4.2: a limit of half a second let a cell of three seconds finish."""
    assert open_sandbox(timeout_ms=300).execute("while True: pass").outcome == "timeout"


def test_the_configured_time_out_is_used_in_milliseconds(open_sandbox: OpenSandbox) -> None:
    assert open_sandbox({"timeout": 300}).execute("while True: pass").outcome == "timeout"


def test_the_time_out_of_a_call_outranks_the_policys(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(timeout_ms=1)
    assert sandbox.execute("1 + 1", timeout_ms=30_000).value == "2"


def test_a_time_out_is_a_result_and_raises_only_on_check(sandbox: SessionSandbox) -> None:
    result = sandbox.execute("while True: pass", timeout_ms=100)
    with pytest.raises(ExecutionTimeoutError) as caught:
        result.check()
    assert caught.value.result is result


def test_a_time_out_comes_with_guidance(sandbox: SessionSandbox) -> None:
    assert "100 ms" in str(sandbox.execute("while True: pass", timeout_ms=100).guidance)


def test_time_in_host_functions_does_not_count(open_sandbox: OpenSandbox) -> None:
    """Known defect 1.8.9: a slow sub-call killed the interpreter and all state."""
    sandbox = open_sandbox(on_llm_query=lambda prompt: time.sleep(0.9))
    sandbox.initialize()
    assert sandbox.execute("llm_query('slow')", timeout_ms=600).outcome == "ok"


@pytest.mark.cloche_needs("threads")
def test_the_cpu_clock_runs_while_a_host_function_works(open_sandbox: OpenSandbox) -> None:
    gate = threading.Event()
    sandbox = open_sandbox(on_llm_query=lambda prompt: gate.wait(PATIENCE))
    code = (
        "import threading\nstop = False\ndef burn():\n    while not stop: pass\n"
        "threading.Thread(target=burn, daemon=True).start()\nllm_query('take your time')"
    )
    assert release_after(gate, lambda: sandbox.execute(code, timeout_ms=300)).outcome == "timeout"


def test_a_host_function_that_never_returns_is_abandoned(open_sandbox: OpenSandbox) -> None:
    gate = threading.Event()
    sandbox = open_sandbox(on_llm_query=lambda prompt: gate.wait(PATIENCE), bridge_timeout_ms=100)
    code = "try:\n    llm_query('x')\nexcept BridgeError as exc:\n    print(exc)"
    assert "no answer within 100 ms" in release_after(gate, lambda: sandbox.execute(code)).stdout


def test_the_total_ceiling_counts_time_in_host_functions(open_sandbox: OpenSandbox) -> None:
    gate = threading.Event()
    sandbox = open_sandbox(on_llm_query=lambda prompt: gate.wait(PATIENCE), total_timeout_ms=300)
    assert release_after(gate, lambda: sandbox.execute("llm_query('x')")).outcome == "timeout"


def test_reading_a_variable_has_a_deadline(open_sandbox: OpenSandbox) -> None:
    """Known defect 1.8.5: `getVariable` had none."""
    sandbox = open_sandbox(grace_ms=LONG_GRACE)
    sandbox.execute("class Slow:\n    def __repr__(self):\n        while True: pass\nslow = Slow()")
    with pytest.raises(CallTimeoutError) as caught:
        sandbox.get_variable("slow", timeout_ms=200)
    assert caught.value.session_state == "kept"
    assert sandbox.execute("1").success


def test_a_snapshot_has_a_deadline(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(grace_ms=LONG_GRACE)
    sandbox.execute("class Slow:\n    def __reduce__(self):\n        while True: pass\nslow = Slow()")
    with pytest.raises(CallTimeoutError):
        sandbox.snapshot(timeout_ms=200)
    assert sandbox.execute("1").success


def test_completion_has_a_deadline(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(grace_ms=LONG_GRACE)
    sandbox.execute("class Slow:\n    def __dir__(self):\n        while True: pass\nslow = Slow()")
    with pytest.raises(CallTimeoutError):
        sandbox.complete("slow.", timeout_ms=200)
    assert sandbox.execute("1").success


@pytest.mark.cloche_needs("subprocess")
def test_a_call_that_had_to_be_killed_says_that_the_session_is_reset(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(grace_ms=100)
    deaf = "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\nwhile True: pass"
    indented = deaf.replace("\n", "\n        ")
    sandbox.execute(f"class Deaf:\n    def __repr__(self):\n        {indented}\ndeaf = Deaf()")
    with pytest.raises(CallTimeoutError) as caught:
        sandbox.get_variable("deaf", timeout_ms=200)
    assert caught.value.session_state == "reset"
    assert sandbox.get_variable("deaf", "gone") == "gone"


def test_many_time_outs_in_a_row_keep_the_session(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(grace_ms=LONG_GRACE)
    sandbox.execute("x = 0")
    for _ in range(5):
        sandbox.execute("x += 1\nwhile True: pass", timeout_ms=50)
    assert sandbox.execute("x").value == "5"
