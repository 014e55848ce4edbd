"""Stopping a cell from outside."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from cloche.conformance.waiting import PATIENCE, Background, start_cell
from cloche.errors import CallTimeoutError
from cloche.factory import create_async_sandbox

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal

    from cloche.conformance.fixtures import OpenSandbox
    from cloche.sandbox import SessionSandbox

LONG_GRACE = 20_000


@pytest.mark.parametrize("code", ["while True: pass", "import time; time.sleep(1000)"])
def test_cancel_from_another_thread_stops_the_cell(open_sandbox: OpenSandbox, code: str) -> None:
    sandbox = open_sandbox(grace_ms=LONG_GRACE)
    cell = start_cell(sandbox, f"x = 1\nprint('on', flush=True)\n{code}")
    sandbox.cancel()
    result = cell.result()
    assert (result.outcome, result.error, result.exit_code) == ("cancelled", "cancelled", 130)


def test_the_session_lives_on_after_cancel(open_sandbox: OpenSandbox) -> None:
    """Known defect 1.8.5: `cancel()` ended the runner process."""
    sandbox = open_sandbox(grace_ms=LONG_GRACE)
    cell = start_cell(sandbox, "x = 1\nprint('on', flush=True)\nwhile True: pass")
    sandbox.cancel()
    assert cell.result().session_state == "kept"
    assert sandbox.execute("x").value == "1"


def test_cancel_when_idle_is_harmless(sandbox: SessionSandbox) -> None:
    """Known defect 1.8.5: a `cancel()` of an idle session ended the runner process."""
    sandbox.cancel()
    sandbox.execute("x = 1")
    sandbox.cancel()
    assert sandbox.execute("x").value == "1"


def test_cancel_does_not_reach_the_next_cell(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(grace_ms=LONG_GRACE)
    for _ in range(5):
        cell = start_cell(sandbox, "print('on', flush=True)\nwhile True: pass")
        sandbox.cancel()
        cell.result()
        assert sandbox.execute("sum(range(100_000))").outcome == "ok"


def test_cancel_stops_a_cell_that_waits_for_the_host(open_sandbox: OpenSandbox) -> None:
    asked, gate = threading.Event(), threading.Event()

    def callback(prompt: str) -> bool:
        asked.set()
        return gate.wait(PATIENCE)

    sandbox = open_sandbox(on_llm_query=callback, grace_ms=LONG_GRACE)
    cell = Background(lambda: sandbox.execute("llm_query('x')"))
    try:
        assert asked.wait(PATIENCE)
        sandbox.cancel()
        assert cell.result().outcome == "cancelled"
    finally:
        gate.set()


def test_cancel_stops_a_variable_that_is_being_read(open_sandbox: OpenSandbox) -> None:
    reading = threading.Event()
    sandbox = open_sandbox(on_llm_query=lambda prompt: reading.set(), grace_ms=LONG_GRACE)
    sandbox.execute(
        "class Slow:\n    def __repr__(self):\n        llm_query('reading')\n        while True: pass\nslow = Slow()"
    )
    call = Background(lambda: sandbox.get_variable("slow"))
    assert reading.wait(PATIENCE)
    sandbox.cancel()
    with pytest.raises(CallTimeoutError):
        call.result()


@pytest.mark.cloche_needs("subprocess")
def test_cancel_kills_a_cell_that_does_not_listen(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(grace_ms=100)
    deaf = "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())"
    cell = start_cell(sandbox, f"{deaf}\nprint('on', flush=True)\nwhile True: pass")
    sandbox.cancel()
    result = cell.result()
    assert (result.outcome, result.session_state) == ("cancelled", "reset")
    assert sandbox.execute("1").success


def test_what_was_printed_before_cancel_is_kept(sandbox: SessionSandbox) -> None:
    cell = start_cell(sandbox, "print('before', flush=True)\nwhile True: pass")
    sandbox.cancel()
    assert cell.result().stdout == "before\n"


@pytest.mark.cloche_only("sync")
def test_ctrl_c_in_the_host_ends_the_cell_and_keeps_the_session(open_sandbox: OpenSandbox) -> None:
    main = threading.main_thread().ident
    assert main == threading.get_ident()
    sandbox = open_sandbox(on_llm_query=lambda prompt: signal.pthread_kill(main, signal.SIGINT), grace_ms=LONG_GRACE)
    with pytest.raises(KeyboardInterrupt):
        sandbox.execute("x = 1\nllm_query('now')\nwhile True: pass")
    assert sandbox.execute("x").value == "1"


@pytest.mark.cloche_only("async")
def test_cancelling_the_awaiting_task_cancels_the_cell(
    portal: BlockingPortal, cloche_backend: str, cloche_api: str
) -> None:
    async def scenario() -> Any:
        async with create_async_sandbox(backend=cloche_backend, grace_ms=LONG_GRACE) as sandbox:
            await sandbox.execute("x = 1")
            async with anyio.create_task_group() as group:
                code = "print('on', flush=True)\nwhile True: pass"

                async def run() -> None:
                    await sandbox.execute(code, on_output=lambda stream, text: group.cancel_scope.cancel())

                group.start_soon(run)
            return (await sandbox.execute("x")).value

    assert portal.call(scenario) == "1"


@pytest.mark.cloche_only("async")
def test_a_deadline_of_the_event_loop_cancels_the_cell(
    portal: BlockingPortal, cloche_backend: str, cloche_api: str
) -> None:
    async def scenario() -> Any:
        async with create_async_sandbox(backend=cloche_backend, grace_ms=LONG_GRACE) as sandbox:
            await sandbox.execute("x = 1")
            with anyio.move_on_after(0.2) as scope:
                await sandbox.execute("while True: pass")
            return scope.cancelled_caught, (await sandbox.execute("x")).value

    assert portal.call(scenario) == (True, "1")
