"""worker="inline": cells in the host's own thread, and a host that is as it was."""

from __future__ import annotations

import builtins
import contextvars
import io
import linecache
import signal
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout

import anyio
import anyio.lowlevel
import pytest

from cloche import InProcessSandbox, SessionSandbox, UnsupportedError, create_async_sandbox, create_sandbox


def inline(**options: object) -> SessionSandbox:
    return create_sandbox(backend="inprocess", worker="inline", **options)  # type: ignore[arg-type]  # keywords as they come


def test_the_host_is_as_it_was():
    before = sys.stdout, sys.stderr, dict(vars(builtins)), sys.modules["__main__"], list(sys.meta_path), list(sys.path)
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGALRM, signal.SIGUSR2)]
    hooks = threading.excepthook, sys.displayhook, sys.gettrace(), sys.getrecursionlimit()
    with inline(on_llm_query=str.upper) as sandbox:
        for code in (
            "print(1); 2",
            "1/0",
            "llm_query(5)",
            "while True: pass",
            "import os",
            "def f(:",
            "len = 5; print = 6",
        ):
            sandbox.execute(code, timeout_ms=100)
    assert before == (
        sys.stdout, sys.stderr, dict(vars(builtins)), sys.modules["__main__"], list(sys.meta_path), list(sys.path)
    )  # fmt: skip
    assert handlers == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGALRM, signal.SIGUSR2)]
    assert hooks == (threading.excepthook, sys.displayhook, sys.gettrace(), sys.getrecursionlimit())
    assert not [name for name in linecache.cache if name.startswith("<cell ")]


def test_threads_do_not_mix_their_output():
    barrier = threading.Barrier(4)

    def work(name: str) -> list[str]:
        with inline(tools={"meet": lambda: barrier.wait(20) is None}) as sandbox:
            code = f"import pprint\nmeet()\nfor n in range(200):\n    print({name!r})\n    pprint.pprint({name!r})"
            return sandbox.execute(code).check().stdout.split()

    before = sys.stdout
    with ThreadPoolExecutor(4) as pool:
        for name, words in zip("abcd", pool.map(work, "abcd"), strict=True):
            assert words == [name, f"'{name}'"] * 200
    assert sys.stdout is before


def test_a_host_that_redirects_its_output_meanwhile_keeps_it():
    host = io.StringIO()

    def redirect_here() -> None:
        with redirect_stdout(host):
            print("from the host")

    with inline(tools={"other": redirect_here}) as sandbox:
        assert sandbox.execute("print('one'); other(); print('two')").stdout == "one\ntwo\n"
    assert host.getvalue() == "from the host\n"


def test_what_a_host_function_prints_is_the_hosts(capsys: pytest.CaptureFixture[str]):
    with inline(tools={"tell": lambda: print("host")}) as sandbox:
        assert sandbox.execute("print('cell'); tell()").stdout == "cell\n"
    assert capsys.readouterr().out == "host\n"


@pytest.mark.parametrize("guard", ["ast", "restricted"])
def test_a_time_out_reaches_any_thread_and_the_variables_stay(guard: str):
    def work() -> str | None:
        with inline(guard=guard) as sandbox:
            assert sandbox.execute("x = 5\nwhile True: x = x", timeout_ms=100).outcome == "timeout"
            return sandbox.execute("x").value

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(work).result() == "5"


def test_nothing_strikes_after_the_cell_is_over():
    """The strike and the end of the cell meet as often as can be arranged."""
    with inline() as sandbox:
        for turns in range(0, 4000, 40):
            code = f"for n in range({turns}): n * n\nfor n in range(100_000_000): pass"
            assert sandbox.execute(code, timeout_ms=1).outcome == "timeout"
            total = sum(range(1000))
            assert total == 499500


def test_a_debugger_works_on_a_host_whose_cells_were_stopped():
    # In a process of its own: where it fails, that process never answers.
    host = """
        import sys
        from cloche import create_sandbox

        with create_sandbox(backend="inprocess", worker="inline") as sandbox:
            assert sandbox.execute("while True: pass", timeout_ms=50).outcome == "timeout"
            swallows = "try:\\n    while True: pass\\nexcept BaseException: pass"
            sandbox.execute(swallows, timeout_ms=50)
        sys.settrace(lambda *event: None)
        (lambda: None)()
        print("went on")
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(host)], capture_output=True, text=True, timeout=60)
    assert run.stdout == "went on\n", run.stderr


def test_a_deadline_does_not_cut_an_import_in_two():
    with inline(guard="restricted", modules=["fractions", "decimal", "statistics"]) as sandbox:
        for name in ("statistics", "fractions", "decimal", "_pydecimal", "numbers"):
            sys.modules.pop(name, None)
        result = sandbox.execute("import statistics", timeout_ms=1)
        assert result.outcome in ("ok", "timeout")
    import statistics

    assert statistics.mean([1, 3]) == 2


def test_a_cell_cannot_change_what_the_host_gave_as_context():
    rows = [{"n": 1}]
    with inline() as sandbox:
        sandbox.initialize(rows)
        assert sandbox.execute("context[0]['n'] = 2; context.append(3)").success
    assert rows == [{"n": 1}]


def test_a_cell_cannot_change_what_a_host_function_returned():
    kept = [1]
    with inline(tools={"get": lambda: kept}) as sandbox:
        assert sandbox.execute("got = get(); got.append(2); got").value == "[1, 2]"
    assert kept == [1]


def test_saving_is_refused_with_what_to_use():
    with inline() as sandbox, pytest.raises(UnsupportedError) as caught:
        sandbox.snapshot()
    assert "worker='process'" in str(caught.value.remedy)


def test_ctrl_c_is_the_hosts_and_the_session_lives_on():
    me = threading.get_ident()

    def press() -> None:
        threading.Timer(0, signal.pthread_kill, (me, signal.SIGINT)).start()

    with inline(tools={"press": press}) as sandbox:
        with pytest.raises(KeyboardInterrupt):
            sandbox.execute("x = 1\npress()\nwhile True: pass")
        assert sandbox.execute("x").value == "1"


def test_a_cell_that_is_cancelled_in_a_host_function_cannot_catch_that_as_an_error_of_the_function():
    given_up = threading.Event()

    def ask(prompt: str) -> str:
        threading.Thread(target=sandbox.cancel).start()
        given_up.wait(30)
        return prompt

    with inline(on_llm_query=ask) as sandbox:
        result = sandbox.execute("x = 1\ntry: llm_query('?')\nexcept Exception: pass")
        given_up.set()
        assert (result.outcome, sandbox.execute("x").value) == ("cancelled", "1")


def test_a_sandbox_inside_a_host_function_of_another():
    with inline() as inner, inline(tools={"ask": lambda code: inner.execute(code).stdout}) as outer:
        assert outer.execute("print('a'); print(ask('print(5)')); print('b')").stdout == "a\n5\n\nb\n"


def test_cells_run_in_the_callers_thread_and_context():
    here = contextvars.ContextVar("here", default="nowhere")
    here.set("caller")
    with inline(
        tools={"where": lambda: (here.get(), threading.current_thread().name)}, bridge_timeout_ms=None
    ) as sandbox:
        assert sandbox.execute("where()").value == repr(("caller", threading.current_thread().name))


def test_an_event_loop_stays_free_while_a_cell_runs():
    async def main() -> None:
        async with create_async_sandbox(backend="inprocess", worker="inline", on_llm_query=answer) as sandbox:
            ticks = 0
            async with anyio.create_task_group() as group:

                async def tick() -> None:
                    nonlocal ticks
                    while True:
                        ticks += 1
                        await anyio.sleep(0.001)

                group.start_soon(tick)
                result = await sandbox.execute("print('x')\nwhile True: pass", timeout_ms=200)
                group.cancel_scope.cancel()
            assert (result.outcome, result.stdout) == ("timeout", "x\n")
            assert ticks > 5
            assert (await sandbox.execute("llm_query('q')")).value == "'Q'"

    async def answer(prompt: str) -> str:
        await anyio.lowlevel.checkpoint()
        return prompt.upper()

    anyio.run(main)


def test_one_sandbox_class_for_both_workers():
    with InProcessSandbox(worker="inline") as sandbox:
        assert sandbox.execute("1 + 1").value == "2"
        assert sandbox.guest_pid is None
    with InProcessSandbox() as sandbox:
        assert sandbox.execute("1 + 1").value == "2"
        assert sandbox.guest_pid is not None
