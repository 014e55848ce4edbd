"""AsyncREPLEnvironment: the same turns as coroutines, and the same names."""

from __future__ import annotations

import inspect

import anyio
import pytest

from cloche import AsyncREPLEnvironment, REPLConfig, REPLEnvironment, Tool

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def public(kind: type) -> dict[str, list[str]]:
    return {
        name: list(inspect.signature(member).parameters)
        for name, member in vars(kind).items()
        if inspect.isfunction(member) and not name.startswith("_")
    }


def test_both_faces_have_the_same_methods():
    assert public(AsyncREPLEnvironment) == public(REPLEnvironment)


async def test_a_session_from_the_first_look_to_the_answer(anyio_backend):
    async with AsyncREPLEnvironment("one\ntwo\n", backend="native") as env:
        assert (await env.execute("print(grep('two'), peek(3))")).output == "2: two one"
        saved = await env.checkpoint()
        await env.execute("x = 1")
        assert "x (int)" in await env.get_state()
        await env.restore(saved)
        assert "x (int)" not in await env.get_state()
        result = await env.execute("try: FINAL(5)\nexcept BaseException: pass")
        assert (result.is_final, result.final_answer, result.final_value) == (True, "5", 5)
        await env.reset()


async def test_async_tools_and_models_are_awaited_and_run_side_by_side(anyio_backend):
    inside, all_inside = 0, anyio.Event()

    async def meet(what: int) -> int:
        nonlocal inside
        inside += 1
        if inside == 3:
            all_inside.set()
        with anyio.fail_after(20):
            await all_inside.wait()  # passes only when three are here at once
        return what * 2

    async def model(prompt: str) -> str:
        return prompt.upper()

    tools = {"meet": Tool(meet, read_only=True)}
    async with AsyncREPLEnvironment("text", backend="native", tools=tools, llm=model) as env:
        result = await env.execute("print(meet(1), [meet(n) for n in (2, 3)])")
        assert result.output == "2 [4, 6]"
        assert [call.ahead for call in result.calls] == [True] * 3
        assert (await env.execute("llm_call('a'), llm_batch(['b', 'c'])")).output == "('A', ['B', 'C'])"


async def test_an_object_that_has_to_be_awaited_when_it_is_called_is_a_tool_and_a_model(anyio_backend):
    class Client:
        async def __call__(self, what: str) -> str:
            return f"<{what}>"

    async with AsyncREPLEnvironment(
        "", backend="native", tools={"ask": Tool(Client(), read_only=True)}, llm=Client()
    ) as env:
        result = await env.execute("print(ask('a'), ask('b'), llm_call('c'), llm_batch(['d']))")
        assert result.output == "<a> <b> <c> ['<d>']"
        assert result.calls[0].characters == 3
        assert (await env.execute("1 / 0\nask('x'); ask('y')")).error is not None  # and nobody is left to be awaited


async def test_an_error_of_an_async_tool_is_raised_where_the_call_stands(anyio_backend):
    async def fail(what: int) -> None:
        raise ValueError(f"no {what}")

    async with AsyncREPLEnvironment("text", backend="native", tools={"fail": Tool(fail, read_only=True)}) as env:
        result = await env.execute("for n in (1, 2):\n    try: fail(n)\n    except BridgeError as exc: print(exc.type)")
        assert result.output == "ValueError\nValueError"


async def test_a_call_that_nobody_waits_for_is_given_up_with_its_turn(anyio_backend):
    cancelled = anyio.Event()

    async def never(what: int) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()

    async with AsyncREPLEnvironment("text", backend="native", tools={"never": Tool(never, read_only=True)}) as env:
        result = await env.execute("1 / 0\nnever(1); never(2)")
        assert "ZeroDivisionError" in str(result.error)
        with anyio.fail_after(20):
            await cancelled.wait()


async def test_cancelling_the_task_ends_the_turn_and_keeps_the_session(anyio_backend):
    async with AsyncREPLEnvironment("text", REPLConfig(guard="off"), backend="native") as env:
        await env.execute("x = 1")
        with anyio.move_on_after(0.2):
            await env.execute("while True: pass")
        assert (await env.execute("x")).output == "1"


async def test_turns_of_several_tasks_wait_for_one_another(anyio_backend):
    outputs: dict[str, str] = {}
    async with AsyncREPLEnvironment("text", REPLConfig(guard="off"), backend="native") as env:

        async def work(name: str) -> None:
            result = await env.execute(f"for _ in range(100): print('{name}', flush=True)\nx = peek(1)")
            assert len(result.calls) == 1
            outputs[name] = result.output

        async with anyio.create_task_group() as group:
            for name in ("a", "b", "c"):
                group.start_soon(work, name)
    assert {name: set(output.split()) for name, output in outputs.items()} == {"a": {"a"}, "b": {"b"}, "c": {"c"}}


async def test_a_call_that_the_code_wants_never_waits_for_one_that_it_does_not_want(anyio_backend):
    async def look(what: int) -> int:
        if what < 50:
            await anyio.sleep_forever()
        return what

    code = "def stop(): raise ValueError\ntry:\n    stop()\n    for n in range(40): look(n)\nexcept ValueError: pass\n"
    async with AsyncREPLEnvironment("", backend="native", tools={"look": Tool(look, read_only=True)}) as env:
        with anyio.fail_after(20):
            assert (await env.execute(f"{code}print(look(98), look(99))")).output == "98 99"


async def test_what_an_async_tool_raises_stays_with_the_code_that_called_it(anyio_backend):
    async def leave(what: int) -> None:
        raise SystemExit(what)

    tools = {"leave": leave, "ahead": Tool(leave, read_only=True)}
    async with AsyncREPLEnvironment("", backend="native", tools=tools) as env:
        for tool in tools:
            code = f"for n in (1, 2):\n    try: {tool}(n)\n    except BridgeError as exc: print(exc.type)"
            assert (await env.execute(code)).output == "SystemExit\nSystemExit"


async def test_a_prompt_that_fails_fails_the_batch_with_its_own_error(anyio_backend):
    async def model(prompt: str) -> str:
        if prompt == "3":
            raise ConnectionError("no answer to 3")
        await anyio.sleep_forever()
        return ""

    async with AsyncREPLEnvironment("", backend="native", llm=model) as env:
        with anyio.fail_after(20):
            result = await env.execute("llm_batch([str(n) for n in range(100)])")
        assert "ConnectionError: no answer to 3" in str(result.error)


async def test_an_async_tool_that_works_at_the_same_bench_is_refused(anyio_backend):
    async def again(what: int) -> str:
        return (await bench.execute(f"print({what})")).output

    async with AsyncREPLEnvironment("", backend="native", tools={"again": Tool(again, read_only=True)}) as bench:
        code = "for n in (1, 2):\n    try: again(n)\n    except BridgeError as exc: print(exc.type)"
        with anyio.fail_after(20):
            assert (await bench.execute(code)).output == "ReentrantCallError\nReentrantCallError"
