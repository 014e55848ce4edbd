"""The awaited API, on asyncio and on trio."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from cloche import (
    AsyncSandbox,
    BusyError,
    ExecutionPolicy,
    ReentrantCallError,
    SessionClosedError,
    create_async_sandbox,
    create_sandbox,
)

pytestmark = pytest.mark.anyio

PATIENCE = 30.0


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def make(**options: Any) -> AsyncSandbox:
    return create_async_sandbox(backend="native", **options)


async def start_endless(sandbox: AsyncSandbox, group: Any, code: str = "while True: pass") -> list[Any]:
    """A cell that is running when this returns; its result appears in the list."""
    running, results = anyio.Event(), []

    async def run() -> None:
        results.append(
            await sandbox.execute(
                f"print('go', flush=True)\n{code}", timeout_ms=60_000, on_output=lambda stream, text: running.set()
            )
        )

    group.start_soon(run)
    with anyio.fail_after(PATIENCE):
        await running.wait()
    return results


# -- no threads --------------------------------------------------------------------------------


def threads_added(use: Callable[[], Awaitable[None]], library: str) -> set[threading.Thread]:
    """Run in a loop of its own: pytest's runner for trio makes a thread now and then."""
    added: set[threading.Thread] = set()

    async def main() -> None:
        before = set(threading.enumerate())
        await use()
        added.update(set(threading.enumerate()) - before)

    anyio.run(main, backend=library)
    return added


LIBRARIES = pytest.mark.parametrize("library", ["asyncio", "trio"])


@LIBRARIES
def test_two_hundred_idle_sessions_add_no_thread(library):
    sandboxes = [make() for _ in range(200)]

    async def use() -> None:
        async with anyio.create_task_group() as group:
            for sandbox in sandboxes:
                group.start_soon(sandbox.initialize)
        values = [(await sandbox.execute("1 + 1")).value for sandbox in sandboxes[::40]]
        assert values == ["2"] * 5

    async def destroy() -> None:
        async with anyio.create_task_group() as group:
            for sandbox in sandboxes:
                group.start_soon(sandbox.destroy)

    try:
        assert threads_added(use, library) == set()
    finally:
        anyio.run(destroy, backend=library)


@LIBRARIES
def test_async_callbacks_need_no_thread(library):
    async def echo(value: Any) -> Any:
        await anyio.lowlevel.checkpoint()
        return value

    sandbox = make(tools={"echo": echo}, on_llm_query=echo)

    async def use() -> None:
        result = await sandbox.execute("[echo(i) for i in range(20)], llm_query_batched(['a', 'b', 'c'])")
        assert result.value == repr((list(range(20)), ["a", "b", "c"]))

    try:
        assert threads_added(use, library) == set()
    finally:
        anyio.run(sandbox.destroy, backend=library)


# -- turns and cancellation --------------------------------------------------------------------


async def test_cancelling_the_task_that_waits_cancels_the_cell_and_keeps_the_session():
    async with make() as sandbox:
        await sandbox.execute("x = 1")
        async with anyio.create_task_group() as group:
            results = await start_endless(sandbox, group)
            group.cancel_scope.cancel()
        assert results == []
        assert (await sandbox.execute("x")).value == "1"


async def test_a_scope_with_a_deadline_cancels_the_cell():
    async with make() as sandbox:
        await sandbox.initialize()
        with anyio.move_on_after(0.2) as scope:
            await sandbox.execute("x = 5\nwhile True: pass", timeout_ms=60_000)
        assert scope.cancelled_caught
        assert (await sandbox.execute("x")).value == "5"


async def test_a_cell_that_does_not_heed_is_killed_when_its_task_is_cancelled():
    async with make(grace_ms=200) as sandbox:
        deaf = (
            "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGUSR2])\nwhile True: pass"
        )
        with anyio.move_on_after(0.2):
            await sandbox.execute(deaf, timeout_ms=60_000)
        assert (await sandbox.execute("1 + 1")).value == "2"


async def test_cancel_is_a_result_and_harmless_when_idle():
    async with make() as sandbox:
        sandbox.cancel()
        async with anyio.create_task_group() as group:
            results = await start_endless(sandbox, group)
            sandbox.cancel()
        assert [result.outcome for result in results] == ["cancelled"]
        sandbox.cancel()
        assert (await sandbox.execute("1")).outcome == "ok"


async def test_callers_wait_their_turn_and_none_is_lost():
    async with make() as sandbox:
        await sandbox.execute("total = 0")
        values: list[int] = []

        async def add() -> None:
            values.append(int((await sandbox.execute("total += 1\ntotal")).value or 0))

        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(add)
        assert sorted(values) == list(range(1, 21))


async def test_a_caller_whose_deadline_passes_in_the_queue_is_told_so():
    async with make() as sandbox, anyio.create_task_group() as group:
        await start_endless(sandbox, group)
        with pytest.raises(BusyError, match="100 ms"):
            await sandbox.execute("1", timeout_ms=100)
        with pytest.raises(BusyError):
            await sandbox.put_file("a", b"", timeout_ms=100)
        sandbox.cancel()


async def test_destroy_ends_the_running_cell_and_lets_those_who_wait_go():
    sandbox = make()
    refused: list[bool] = []

    async def wait() -> None:
        with pytest.raises(SessionClosedError):
            await sandbox.execute("1")
        refused.append(True)

    async with anyio.create_task_group() as group:
        results = await start_endless(sandbox, group)
        for _ in range(3):
            group.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        await sandbox.destroy()
    assert [result.outcome for result in results] == ["cancelled"]
    assert refused == [True] * 3
    await sandbox.destroy()


async def test_other_tasks_run_while_a_cell_does(tmp_path):
    async def let_go() -> None:
        await anyio.lowlevel.checkpoint()
        (tmp_path / "go").touch()

    async with make(workspace=tmp_path) as sandbox, anyio.create_task_group() as group:
        running = await start_endless(sandbox, group, "import os\nwhile not os.path.exists('go'): pass")
        await let_go()
    assert [result.outcome for result in running] == ["ok"]


# -- callbacks ---------------------------------------------------------------------------------


async def test_blocking_callbacks_do_not_block_the_loop():
    release = threading.Event()

    def block() -> str:
        assert release.wait(PATIENCE)
        return "released"

    def listen(stream: str, text: str) -> None:
        release.set()

    async with make(tools={"block": block}) as sandbox:
        code = "import threading, time\ndef show():\n    time.sleep(0.05)\n    print('shown', flush=True)"
        result = await sandbox.execute(code + "\nthreading.Thread(target=show).start()\nblock()", on_output=listen)
        assert result.value == "'released'", "the loop took output while the function blocked"


variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


@pytest.mark.parametrize("kind", ["plain", "async", "returns an awaitable"])
async def test_context_variables_of_the_caller_reach_callbacks(kind):
    def plain() -> str:
        return variable.get()

    async def later() -> str:
        await anyio.lowlevel.checkpoint()
        return variable.get()

    def awaitable() -> Any:
        return later()

    chosen = {"plain": plain, "async": later}.get(kind, awaitable)
    async with make(tools={"read": chosen}) as sandbox:
        token = variable.set("of the caller")
        try:
            assert (await sandbox.execute("read()")).value == "'of the caller'"
        finally:
            variable.reset(token)


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_a_callback_that_fails_is_the_guests_to_see(kind):
    def plain(value: int) -> None:
        raise KeyError("no")

    async def later(value: int) -> None:
        raise KeyError("no")

    async with make(tools={"fail": plain if kind == "plain" else later}) as sandbox:
        code = "for args in ((1,), (), (1, 2)):\n    try: fail(*args)\n    except BridgeError as exc: print(exc.type)"
        result = await sandbox.execute(code)
        assert (result.outcome, result.stdout) == ("ok", "KeyError\nTypeError\nTypeError\n"), result.error
        assert (await sandbox.execute("1")).outcome == "ok"


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_a_callback_that_never_returns_is_abandoned_and_the_session_goes_on(kind):
    never = threading.Event()
    cancelled: list[bool] = []

    async def later() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.append(True)

    try:
        async with make(bridge_timeout_ms=100, tools={"hang": never.wait if kind == "plain" else later}) as sandbox:
            result = await sandbox.execute("x = 1\ntry: hang()\nexcept BridgeError as exc: print(exc)\nx")
            assert (result.outcome, result.value) == ("ok", "1")
            assert "no answer within 100 ms" in result.stdout
            assert (await sandbox.execute("x")).value == "1"
    finally:
        never.set()
    assert cancelled == ([True] if kind == "async" else [])


async def test_an_async_callback_is_cancelled_with_its_cell():
    started, cancelled = anyio.Event(), []

    async def later() -> None:
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.append(True)

    async with make(tools={"later": later}) as sandbox, anyio.create_task_group() as group:
        group.start_soon(sandbox.execute, "later()")
        await started.wait()
        sandbox.cancel()
        with anyio.fail_after(PATIENCE):
            assert (await sandbox.execute("1")).outcome == "ok"
        assert cancelled == [True]


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_a_callback_that_calls_into_its_own_sandbox_is_told_so(kind):
    async def later() -> str:
        with pytest.raises(ReentrantCallError):
            await sandbox.execute("1")
        return "refused"

    def plain() -> Any:
        return later()

    async with make(tools={"callback": later if kind == "async" else plain}) as sandbox:
        assert (await sandbox.execute("callback()")).value == "'refused'"
        assert (await sandbox.execute("1")).value == "1", "and afterwards it may be used"


async def test_a_batch_runs_at_most_so_many_at_once_and_keeps_its_order():
    running = most = 0

    async def answer(prompt: str) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await anyio.sleep(0.001 * (ord(prompt[0]) % 7))
        running -= 1
        return prompt.upper()

    async with make(max_concurrent=3, on_llm_query=answer) as sandbox:
        result = await sandbox.execute("llm_query_batched(list('abcdefghijkl'))")
    assert result.value == repr(list("ABCDEFGHIJKL"))
    assert most == 3


# -- listeners ---------------------------------------------------------------------------------


class ListenerFailed(Exception):
    pass


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_a_listener_that_raises_stops_the_cell_and_is_heard(kind):
    def plain(stream: str, text: str) -> None:
        raise ListenerFailed

    async def later(stream: str, text: str) -> None:
        await anyio.lowlevel.checkpoint()
        raise ListenerFailed

    async with make() as sandbox:
        await sandbox.execute("x = 1")
        with pytest.raises(ListenerFailed):
            await sandbox.execute(
                "print('a', flush=True)\nwhile True: pass",
                on_output=plain if kind == "plain" else later,
                timeout_ms=60_000,
            )
        result = await sandbox.execute("print('b')\nx")
        assert (result.value, result.stdout) == ("1", "b\n")


async def test_an_async_listener_is_awaited_in_order():
    heard: list[str] = []

    async def listen(stream: str, text: str) -> None:
        await anyio.lowlevel.checkpoint()
        heard.append(text)

    async with make() as sandbox:
        result = await sandbox.execute("for i in range(100): print(i)", on_output=listen)
    assert "".join(heard) == result.stdout


# -- beyond one loop ---------------------------------------------------------------------------


def test_a_sandbox_made_outside_of_any_loop_can_be_used_in_one_after_the_other():
    sandbox = make()

    async def use(code: str) -> str | None:
        return (await sandbox.execute(code)).value

    assert asyncio.run(use("x = 1\nx")) == "1"
    assert asyncio.run(use("x + 1")) == "2"
    asyncio.run(sandbox.destroy())


def test_loops_in_two_threads_have_their_own_sandboxes():
    values: list[str | None] = []

    async def use() -> None:
        async with make(tools={"echo": lambda value: value}) as sandbox:
            values.extend([(await sandbox.execute(f"echo({number})")).value for number in range(10)])

    threads = [threading.Thread(target=asyncio.run, args=(use(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, values)) == sorted([str(number) for number in range(10)] * 2)


async def test_blocking_and_awaited_sandboxes_live_side_by_side():
    with create_sandbox(backend="native") as blocking:
        async with make() as awaited:
            assert blocking.execute("1").value == (await awaited.execute("1")).value


@LIBRARIES
def test_a_program_ends_though_a_callback_never_returns(library):
    code = f"""
import threading, anyio, cloche
async def main():
    async with cloche.create_async_sandbox(
        backend="native", bridge_timeout_ms=50, tools={{"hang": threading.Event().wait}}
    ) as sandbox:
        print((await sandbox.execute("hang()")).outcome)
anyio.run(main, backend={library!r})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.stdout, done.stderr) == ("error\n", "")


@LIBRARIES
def test_an_interrupt_of_the_host_ends_the_program_and_leaves_nothing(library, tmp_path, monkeypatch):
    monkeypatch.setenv("CLOCHE_SESSIONS_DIR", str(tmp_path / "sessions"))
    code = f"""
import os, signal, anyio, cloche
async def main():
    async with cloche.create_async_sandbox(backend="native") as sandbox:
        await sandbox.execute("print('go', flush=True)\\nwhile True: pass", timeout_ms=60_000,
            on_output=lambda stream, text: os.kill(os.getpid(), signal.SIGINT))
try:
    anyio.run(main, backend={library!r})
except KeyboardInterrupt:
    print("interrupted")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout == "interrupted\n", done.stderr
    assert list((tmp_path / "sessions").iterdir()) == []


async def test_policy_is_the_same_object_as_given():
    policy = ExecutionPolicy(timeout_ms=123)
    assert make(policy=policy).policy is policy
