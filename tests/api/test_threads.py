"""The blocking API from several threads, with callbacks, and with a host that is interrupted."""

from __future__ import annotations

import contextvars
import subprocess
import sys
import threading
from typing import Any

import pytest

from cloche import (
    BusyError,
    ExecutionPolicy,
    NativePythonSandbox,
    ReentrantCallError,
    SandboxLogger,
    SandboxResult,
    SessionClosedError,
)
from cloche.conformance.waiting import PATIENCE, Background, start_cell


def start_endless(sandbox: NativePythonSandbox, code: str = "while True: pass") -> Background:
    """A cell that is running when this returns."""
    return start_cell(sandbox, f"print('go', flush=True)\n{code}", timeout_ms=60_000)


# -- turns -------------------------------------------------------------------------------------


def test_callers_wait_their_turn_and_none_is_lost():
    with NativePythonSandbox() as sandbox:
        sandbox.execute("total = 0")
        calls = [Background(lambda: sandbox.execute("total += 1\ntotal")) for _ in range(20)]
        values = sorted(int(call.result().value) for call in calls)
    assert values == list(range(1, 21))


def test_a_caller_whose_deadline_passes_in_the_queue_is_told_so_and_did_not_run():
    with NativePythonSandbox() as sandbox:
        sandbox.execute("ran = False")
        first = start_endless(sandbox)
        for call in (
            lambda: sandbox.execute("ran = True", timeout_ms=100),
            lambda: sandbox.get_variable("ran", timeout_ms=100),
            lambda: sandbox.put_file("a", b"", timeout_ms=100),
            lambda: sandbox.reset(timeout_ms=100),
        ):
            with pytest.raises(BusyError, match="100 ms"):
                call()
        sandbox.cancel()
        assert first.result().outcome == "cancelled"
        assert sandbox.get_variable("ran") is False


def test_cancel_stops_the_running_cell_and_not_the_next():
    with NativePythonSandbox() as sandbox:
        sandbox.execute("x = 1")
        call = start_endless(sandbox)
        waiting = Background(lambda: sandbox.execute("x + 1"))
        sandbox.cancel()
        assert call.result().outcome == "cancelled"
        assert waiting.result().value == "2"


def test_cancel_when_idle_does_not_reach_the_next_cell():
    with NativePythonSandbox() as sandbox:
        sandbox.cancel()
        sandbox.execute("1")
        for _ in range(3):
            sandbox.cancel()
        assert sandbox.execute("2").outcome == "ok"


def test_destroy_from_another_thread_ends_the_running_cell():
    sandbox = NativePythonSandbox()
    call = start_endless(sandbox)
    sandbox.destroy()
    assert call.result().outcome == "cancelled"
    with pytest.raises(SessionClosedError):
        sandbox.execute("1")


def test_destroy_lets_those_who_wait_go():
    sandbox = NativePythonSandbox()
    call = start_endless(sandbox)
    waiting = [Background(lambda: sandbox.execute("1")) for _ in range(3)]
    sandbox.destroy()
    call.result()
    for each in waiting:
        with pytest.raises(SessionClosedError):
            each.result()


def test_destroy_from_many_threads_at_once_is_one_destroy():
    ended: list[str] = []

    class Listening(SandboxLogger):
        def log_session_event(self, event_type: str, **fields: object) -> None:
            ended.extend([event_type] * (event_type == "destroy"))

    sandbox = NativePythonSandbox(logger=Listening())
    sandbox.execute("1")
    for call in [Background(sandbox.destroy) for _ in range(10)]:
        call.result()
    assert ended == ["destroy"]


def test_many_sandboxes_in_many_threads():
    def use(number: int) -> str | None:
        with NativePythonSandbox(tools={"echo": lambda value: value}) as sandbox:
            sandbox.execute(f"x = {number}")
            return sandbox.execute("echo(x)").value

    calls = [Background(lambda number=number: use(number)) for number in range(12)]  # type: ignore[misc]  # bound now
    assert [call.result() for call in calls] == [str(number) for number in range(12)]


# -- callbacks ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "use",
    [
        lambda sandbox: sandbox.execute("1"), lambda sandbox: sandbox.get_variable("x"),
        lambda sandbox: sandbox.destroy(),
        lambda sandbox: sandbox.reset(), lambda sandbox: sandbox.put_file("a", b""), lambda sandbox: sandbox.snapshot(),
        lambda sandbox: sandbox.initialize("x"), lambda sandbox: sandbox.list_files(),
    ],
)  # fmt: skip
def test_a_callback_that_calls_into_its_own_sandbox_is_told_so(use):
    def callback() -> None:
        with pytest.raises(ReentrantCallError):
            use(sandbox)

    with NativePythonSandbox(tools={"callback": callback}) as sandbox:
        sandbox.execute("x = 1")
        assert sandbox.execute("callback()\nx").value == "1"


def test_a_callback_may_cancel_its_own_cell():
    made: list[NativePythonSandbox] = []

    def stop() -> None:
        made[0].cancel()

    with NativePythonSandbox(tools={"stop": stop}) as sandbox:
        made.append(sandbox)
        assert sandbox.execute("x = 1\nstop()\nwhile True: pass", timeout_ms=60_000).outcome == "cancelled"
        assert sandbox.execute("x").value == "1"


def test_a_callback_may_use_another_sandbox_of_the_same_kind():
    def nested(code: str) -> str | None:
        with NativePythonSandbox(tools={"double": lambda value: 2 * value}) as inner:
            return inner.execute(code).value

    with NativePythonSandbox(tools={"nested": nested}) as sandbox:
        assert sandbox.execute("nested('double(21)')").value == "'42'"


variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


@pytest.mark.parametrize("limit", [None, 300_000], ids=["in the caller's thread", "in a thread of its own"])
def test_context_variables_of_the_caller_reach_callbacks_and_stay_his(limit):
    def read() -> str:
        value = variable.get()
        variable.set("changed by the callback")
        return value

    policy = ExecutionPolicy(bridge_timeout_ms=limit)
    with NativePythonSandbox(policy, tools={"read": read}, on_llm_query=lambda prompt: read()) as sandbox:
        token = variable.set("of the caller")
        try:
            assert sandbox.execute("read(), read()").value == "('of the caller', 'of the caller')"
            assert sandbox.execute("llm_query_batched(['a'] * 6)").value == repr(["of the caller"] * 6)
            assert variable.get() == "of the caller"
        finally:
            variable.reset(token)


def test_a_callback_that_never_returns_is_abandoned_and_the_session_goes_on():
    never = threading.Event()
    policy = ExecutionPolicy(bridge_timeout_ms=100)
    try:
        with NativePythonSandbox(policy, tools={"hang": never.wait, "echo": lambda value: value}) as sandbox:
            result = sandbox.execute("x = 1\ntry: hang()\nexcept BridgeError as exc: print(exc)\necho(5)")
            assert (result.outcome, result.value) == ("ok", "5")
            assert "no answer within 100 ms" in result.stdout
            assert sandbox.execute("x, echo(6)").value == "(1, 6)"
    finally:
        never.set()


def test_a_callback_that_never_returns_does_not_outlast_a_cancel():
    never = threading.Event()
    started = threading.Event()

    def hang() -> None:
        started.set()
        never.wait()

    try:
        with NativePythonSandbox(tools={"hang": hang}) as sandbox:
            call = Background(lambda: sandbox.execute("x = 1\nhang()"))
            assert started.wait(PATIENCE)
            sandbox.cancel()
            assert call.result().outcome == "cancelled"
            assert sandbox.execute("x").value == "1"
    finally:
        never.set()


def test_a_callback_that_never_returns_does_not_keep_the_process():
    code = (
        "import threading, cloche\n"
        "r = cloche.run('hang()', backend='native', bridge_timeout_ms=50, tools={'hang': threading.Event().wait})\n"
        "print(r.outcome)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.stdout, done.stderr) == ("error\n", "")


def test_a_late_answer_is_not_taken_for_that_of_another_call():
    release = threading.Event()

    def slow(value: int) -> int:
        if value == 1:
            release.wait(PATIENCE)
        else:
            release.set()
        return value

    with NativePythonSandbox(ExecutionPolicy(bridge_timeout_ms=200), tools={"slow": slow}) as sandbox:
        code = "try: slow(1)\nexcept BridgeError: pass\n[slow(n) for n in range(2, 50)] == list(range(2, 50))"
        assert sandbox.execute(code).value == "True"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit(), BaseException("base")])
def test_whatever_a_callback_raises_is_the_guests_to_see(error):
    def fail() -> None:
        raise error

    with NativePythonSandbox(tools={"fail": fail}) as sandbox:
        result = sandbox.execute("try: fail()\nexcept BridgeError as exc: print(exc.type)")
        assert (result.outcome, result.stdout) == ("ok", type(error).__name__ + "\n")


def test_an_async_callback_is_refused_with_the_way_out():
    async def later() -> None: ...

    with NativePythonSandbox(tools={"later": later}) as sandbox:
        result = sandbox.execute("later()")
        assert "create_async_sandbox" in (result.error or "")


def test_no_frame_of_the_host_reaches_the_guest():
    def fail() -> None:
        secret = "in a local variable"  # noqa: F841 - must not be seen
        raise ValueError("plain message")

    with NativePythonSandbox(tools={"fail": fail}) as sandbox:
        result = sandbox.execute("fail()")
        assert result.exception is not None
        assert result.exception.message == "fail failed: ValueError: plain message"
        assert __file__ not in result.exception.traceback
        assert "secret" not in result.exception.traceback


# -- listeners ---------------------------------------------------------------------------------


class ListenerFailed(Exception):
    pass


def test_a_listener_that_raises_stops_the_cell_and_is_heard():
    def listen(stream: str, text: str) -> None:
        raise ListenerFailed

    with NativePythonSandbox() as sandbox:
        sandbox.execute("x = 1")
        with pytest.raises(ListenerFailed):
            sandbox.execute("print('a', flush=True)\nwhile True: pass", on_output=listen, timeout_ms=60_000)
        result = sandbox.execute("print('b')\nx")
        assert (result.value, result.stdout) == ("1", "b\n")


def test_a_listener_that_raises_while_a_callback_runs_is_heard_too():
    def listen(stream: str, text: str) -> None:
        raise ListenerFailed

    with NativePythonSandbox(tools={"echo": lambda value: value}) as sandbox:
        with pytest.raises(ListenerFailed):
            sandbox.execute("for i in range(100):\n    echo(i)\n    print(i)", on_output=listen)
        assert sandbox.execute("echo(1)").value == "1"


def test_a_listener_hears_what_the_result_holds():
    heard: dict[str, str] = {"stdout": "", "stderr": ""}

    def listen(stream: str, text: str) -> None:
        heard[stream] += text

    with NativePythonSandbox(tools={"echo": lambda value: value}) as sandbox:
        code = "import sys\nfor i in range(200):\n    print(i, 'é€😀')\n    print(i, file=sys.stderr)\n    echo(i)"
        result: SandboxResult = sandbox.execute(code, on_output=listen)
    assert (heard["stdout"], heard["stderr"]) == (result.stdout, result.stderr)


# -- an interrupted host -----------------------------------------------------------------------

INTERRUPTED = """
import signal, sys, threading, time
import cloche
from cloche import ExecutionPolicy

mode = sys.argv[1]
started = threading.Event()

def hang():
    started.set()
    while True:
        time.sleep(0.05)

def interrupt():
    started.wait()
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
sandbox = cloche.create_sandbox(
    backend="native", tools={"hang": hang, "echo": lambda value: value},
    policy=ExecutionPolicy(bridge_timeout_ms=None if mode == "inline" else 300_000),
)
sandbox.execute("x = 1")
code = {"cell": "print('go', flush=True)\\nwhile True: pass", "bridge": "hang()", "inline": "hang()"}[mode]
try:
    listen = (lambda stream, text: started.set()) if mode == "cell" else None
    print(sandbox.execute(code, on_output=listen, timeout_ms=60_000).outcome)
except KeyboardInterrupt:
    print("interrupted")
print(sandbox.execute("x, echo(2)").value)
sandbox.destroy()
"""


@pytest.mark.parametrize("mode", ["cell", "bridge"])
def test_an_interrupt_of_the_host_stops_the_cell_and_keeps_the_session(mode):
    done = subprocess.run([sys.executable, "-c", INTERRUPTED, mode], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.stdout, done.stderr) == ("interrupted\n(1, 2)\n", "")


IMPATIENT = """
import signal, sys, threading, time
import cloche

running, over = threading.Event(), threading.Event()

def interrupt():
    running.wait()
    while not over.wait(0.1):
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
sandbox = cloche.create_sandbox(backend="native", grace_ms=20_000)
deaf = "import signal\\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGUSR2])\\n"
try:
    listen = lambda stream, text: running.set()
    sandbox.execute(deaf + "print('go')\\nwhile True: pass", on_output=listen, timeout_ms=60_000)
except KeyboardInterrupt:
    over.set()
    print("interrupted")
result = sandbox.execute("print('clean')\\n'x' in globals()")
print(result.value, repr(result.stdout))
sandbox.destroy()
"""


def test_a_host_that_is_interrupted_again_while_the_cell_is_being_stopped_ends_the_session():
    done = subprocess.run([sys.executable, "-c", IMPATIENT], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.stdout, done.stderr) == ("interrupted\nFalse 'clean\\n'\n", "")


@pytest.mark.parametrize("place", ["cloche.session.machine.Machine.begin", "cloche.session.sync.CallLoop.run"])
def test_an_interrupt_while_the_guest_is_started_leaves_none_that_was_not_greeted(monkeypatch, place):
    """It would have no limits, no tools and no context."""
    with NativePythonSandbox(ExecutionPolicy(open_files=77), tools={"echo": lambda value: value}) as sandbox:

        def interrupted(*args: Any, **options: Any) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(place, interrupted)
            with pytest.raises(KeyboardInterrupt):
                sandbox.execute("1")
        code = "import resource\necho(5), resource.getrlimit(resource.RLIMIT_NOFILE)[0]"
        assert sandbox.execute(code).value == "(5, 77)"


def test_an_interrupt_inside_a_callback_in_the_callers_thread_is_the_callbacks():
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, "inline"], capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.stdout.splitlines()[-1] == "(1, 2)"
    assert done.stderr == ""
