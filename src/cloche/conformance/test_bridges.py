"""Functions in the cell whose work is done by the host."""

from __future__ import annotations

import contextvars
import threading
from typing import TYPE_CHECKING, Any

import pytest

from cloche.testing import ScriptedModel

if TYPE_CHECKING:
    from cloche.conformance.fixtures import OpenSandbox
    from cloche.sandbox import SessionSandbox

REQUEST_ID: contextvars.ContextVar[str] = contextvars.ContextVar("request_id")


class Recorder:
    """Notes the arguments of each call and gives one answer."""

    def __init__(self, answer: Any = "answer") -> None:
        self.calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        self._answer = answer

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls.append((args, kwargs))
        return self._answer


def fail(*args: Any) -> None:
    """A callback that raises an error of its own module's making."""
    raise ConnectionError("no route to the model")


def test_llm_query_returns_what_the_callback_answers(open_sandbox: OpenSandbox) -> None:
    """Known defect 1.8.1: workers had no-op bridges, and every answer was empty."""
    model = ScriptedModel(["42"])
    assert open_sandbox(on_llm_query=model).execute("llm_query('the question')").value == "'42'"
    assert model.prompts == ["the question"]


def test_llm_query_passes_the_model_on(open_sandbox: OpenSandbox) -> None:
    recorder = Recorder()
    open_sandbox(on_llm_query=recorder).execute("llm_query('q', model='small')")
    assert recorder.calls == [(("q",), {"model": "small"})]


def test_llm_query_without_a_model_passes_the_prompt_alone(open_sandbox: OpenSandbox) -> None:
    recorder = Recorder()
    open_sandbox(on_llm_query=recorder).execute("llm_query('q')")
    assert recorder.calls == [(("q",), {})]


@pytest.mark.parametrize("answer", [None, 5, [1, "a"], {"k": (1, 2)}, b"bytes", ""])
def test_an_answer_keeps_its_type(open_sandbox: OpenSandbox, answer: Any) -> None:
    sandbox = open_sandbox(on_llm_query=Recorder(answer))
    sandbox.execute("x = llm_query('q')")
    assert sandbox.get_variable("x", "missing") == answer


def test_prompts_and_answers_may_be_long(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(on_llm_query=lambda prompt: prompt[::-1])
    assert sandbox.execute("llm_query('ab' * 2_000_000) == 'ba' * 2_000_000").value == "True"


def test_a_prompt_arrives_unchanged(open_sandbox: OpenSandbox) -> None:
    recorder = Recorder()
    open_sandbox(on_llm_query=recorder).execute("llm_query('a\\r\\n\\\\\\0\\u2028\\U0001f600\\ud800')")
    assert recorder.calls[0][0] == ("a\r\n\\\0\u2028\U0001f600\ud800",)


def test_a_callback_that_raises_is_an_exception_in_the_cell(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(on_llm_query=fail)
    result = sandbox.execute("try:\n    llm_query('q')\nexcept BridgeError as exc:\n    print(exc.type, '|', exc)")
    assert result.stdout == "ConnectionError | llm_query failed: ConnectionError: no route to the model\n"


def test_a_callbacks_frames_are_not_shown_to_the_cell(open_sandbox: OpenSandbox) -> None:
    result = open_sandbox(on_llm_query=fail).execute("llm_query('q')")
    assert result.exception is not None
    for trace in (result.exception.traceback, result.stderr):
        assert "no route to the model" in trace
        assert "test_bridges" not in trace
        assert "def fail" not in trace


def test_a_failed_host_call_does_not_end_the_session(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(on_llm_query=fail)
    sandbox.execute("x = 1\nllm_query('q')")
    assert sandbox.execute("x").value == "1"


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_a_callback_that_exits_does_not_end_the_host(open_sandbox: OpenSandbox, kind: type[BaseException]) -> None:
    def callback(prompt: str) -> None:
        raise kind("stop")

    sandbox = open_sandbox(on_llm_query=callback)
    result = sandbox.execute("try:\n    llm_query('q')\nexcept BridgeError as exc:\n    print(exc.type)")
    assert result.stdout == f"{kind.__name__}\n"


def test_a_bridge_without_a_callback_says_what_is_missing(sandbox: SessionSandbox) -> None:
    """Known defect 1.8.1: `llm_query` without a host returned an empty text."""
    result = sandbox.execute("llm_query('q')")
    assert result.error is not None
    assert "on_llm_query" in result.error


def test_rlm_query_passes_task_and_context(open_sandbox: OpenSandbox) -> None:
    recorder = Recorder()
    open_sandbox(on_rlm_query=recorder).execute("rlm_query('task', 'part')")
    assert recorder.calls == [(("task", "part"), {})]


def test_rlm_query_without_a_context_passes_the_sessions_own(open_sandbox: OpenSandbox) -> None:
    recorder = Recorder()
    sandbox = open_sandbox(on_rlm_query=recorder)
    sandbox.initialize("the whole text")
    sandbox.execute("rlm_query('task')")
    assert recorder.calls == [(("task", "the whole text"), {})]


def test_rlm_query_passes_a_context_that_the_cell_has_changed(open_sandbox: OpenSandbox) -> None:
    """Known defect 1.8.12: the context of the start was passed, not the current one."""
    recorder = Recorder()
    sandbox = open_sandbox(on_rlm_query=recorder)
    sandbox.initialize("old")
    sandbox.execute("context = 'new'\nrlm_query('task')")
    assert recorder.calls == [(("task", "new"), {})]


def test_rlm_query_passes_the_context_of_a_later_initialize(open_sandbox: OpenSandbox) -> None:
    recorder = Recorder()
    sandbox = open_sandbox(on_rlm_query=recorder)
    sandbox.initialize("first")
    sandbox.initialize("second")
    sandbox.execute("rlm_query('task')")
    assert recorder.calls == [(("task", "second"), {})]


def test_rlm_query_without_any_context_passes_none(open_sandbox: OpenSandbox) -> None:
    recorder = Recorder()
    open_sandbox(on_rlm_query=recorder).execute("rlm_query('task')")
    assert recorder.calls == [(("task", None), {})]


def test_a_bridge_can_be_called_from_a_function_of_an_earlier_cell(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(on_llm_query=lambda prompt: prompt.upper())
    sandbox.execute("def ask(text): return llm_query(text)")
    assert sandbox.execute("ask('hi')").value == "'HI'"


def test_a_bridge_does_not_reveal_host_objects(open_sandbox: OpenSandbox) -> None:
    """Known defect 2.4.8: `rlm_query.__self__` was the host's object."""
    secret = Recorder()
    sandbox = open_sandbox(on_llm_query=secret, tools={"lookup": secret})
    code = "import gc\n[type(o).__name__ for o in gc.get_objects() if type(o).__name__ in ('Recorder', 'LiveSession')]"
    assert sandbox.execute(code).value == "[]"
    assert sandbox.execute("hasattr(llm_query, '__self__') or hasattr(lookup, '__self__')").value == "False"


def test_the_callback_sees_the_callers_context_variables(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(on_llm_query=lambda prompt: REQUEST_ID.get("lost"))
    token = REQUEST_ID.set("request 7")
    try:
        assert sandbox.execute("llm_query('q')").value == "'request 7'"
    finally:
        REQUEST_ID.reset(token)


def test_what_was_printed_before_a_bridge_call_is_heard_before_it(open_sandbox: OpenSandbox) -> None:
    heard: list[str] = []
    sandbox = open_sandbox(on_llm_query=lambda prompt: list(heard))
    result = sandbox.execute("print('one')\nllm_query('q')", on_output=lambda stream, text: heard.append(text))
    assert result.value == "['one\\n']"


@pytest.mark.cloche_needs("threads")
def test_fifty_threads_each_get_their_own_answer(open_sandbox: OpenSandbox) -> None:
    """Known defect 1.8.7: with two threads calling, answers were swapped."""
    sandbox = open_sandbox(on_llm_query=lambda prompt: f"answer to {prompt}")
    code = """
import threading
wrong = []
def ask(name):
    for turn in range(4):
        prompt = f"{name}.{turn}"
        if llm_query(prompt) != f"answer to {prompt}": wrong.append(prompt)
threads = [threading.Thread(target=ask, args=(n,)) for n in range(50)]
for t in threads: t.start()
for t in threads: t.join()
wrong
"""
    assert sandbox.execute(code).value == "[]"


@pytest.mark.cloche_needs("threads")
def test_a_thread_goes_on_calling_the_host_in_later_cells(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(on_llm_query=lambda prompt: prompt.upper())
    sandbox.execute(
        "import threading\ngo = threading.Event(); got = []\n"
        "thread = threading.Thread(target=lambda: (go.wait(), got.append(llm_query('late'))))\nthread.start()"
    )
    assert sandbox.execute("go.set(); thread.join(); got").value == "['LATE']"


def test_the_number_of_host_calls_in_a_cell_is_limited(open_sandbox: OpenSandbox) -> None:
    recorder = Recorder()
    sandbox = open_sandbox(on_llm_query=recorder, max_bridge_calls=3)
    result = sandbox.execute("for _ in range(5): llm_query('q')")
    assert "limit of 3 host calls" in str(result.error)
    assert len(recorder.calls) == 3


def test_the_limit_of_host_calls_is_per_cell(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(on_llm_query=Recorder(), max_bridge_calls=1)
    assert sandbox.execute("llm_query('q')").success
    assert sandbox.execute("llm_query('q')").success


def test_the_result_counts_the_host_calls(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(on_llm_query=Recorder())
    assert sandbox.execute("llm_query('a'); llm_query_batched(['b', 'c'])").usage.bridge_calls == 3


def test_an_answer_that_is_too_large_is_refused_in_the_cell(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(on_llm_query=lambda prompt: "x" * 2_000_000, value_max_bytes=1_000_000)
    result = sandbox.execute("llm_query('q')")
    assert "cannot cross the wall" in str(result.error)
    assert sandbox.execute("1").success


def test_wrong_arguments_are_a_type_error_in_the_cell(sandbox: SessionSandbox) -> None:
    result = sandbox.execute("llm_query()")
    assert result.exception is not None
    assert result.exception.type == "TypeError"


@pytest.mark.cloche_only("async")
def test_an_async_callback_is_awaited(open_sandbox: OpenSandbox) -> None:
    from anyio.lowlevel import checkpoint

    async def callback(prompt: str) -> str:
        await checkpoint()
        return prompt.upper()

    assert open_sandbox(on_llm_query=callback).execute("llm_query('hi')").value == "'HI'"


@pytest.mark.cloche_only("sync")
def test_an_async_callback_on_the_sync_api_says_which_api_it_needs(open_sandbox: OpenSandbox) -> None:
    async def callback(prompt: str) -> str:
        return prompt

    assert "create_async_sandbox" in str(open_sandbox(on_llm_query=callback).execute("llm_query('hi')").error)


@pytest.mark.cloche_needs("threads")
def test_output_is_heard_while_a_callback_is_at_work(open_sandbox: OpenSandbox) -> None:
    gate = threading.Event()
    heard: list[str] = []

    def listen(stream: str, text: str) -> None:
        heard.append(text)
        gate.set()

    sandbox = open_sandbox(on_llm_query=lambda prompt: gate.wait(30))
    code = (
        "import threading\nt = threading.Thread(target=lambda: llm_query('wait'))\nt.start()\n"
        "print('meanwhile', flush=True)\nt.join()"
    )
    assert sandbox.execute(code, on_output=listen).success
    assert heard == ["meanwhile\n"]


class KeyHolder:
    """An object of the host's whose `repr` tells more than it should."""

    def __repr__(self) -> str:
        return "KeyHolder(key='hunter2')"


def test_an_answer_that_is_no_plain_data_is_refused_by_its_place_without_its_repr(open_sandbox: OpenSandbox) -> None:
    answers = {"deep": {"rows": [1, {"owner": KeyHolder()}]}, "whole": KeyHolder()}
    sandbox = open_sandbox(tools={"fetch": lambda name: answers[name]})
    for name, place in (
        ("deep", "the answer['rows'][1]['owner']: a value of type KeyHolder"),
        ("whole", "the answer: a"),
    ):
        result = sandbox.execute(f"fetch({name!r})")
        assert place in (result.error or "")
        assert "hunter2" not in repr(result)
    assert sandbox.execute("1").value == "1"


def test_a_task_for_an_agent_can_name_its_model(open_sandbox: OpenSandbox) -> None:
    asked: list[Any] = []
    sandbox = open_sandbox(on_rlm_query=lambda task, ctx=None, model=None: asked.append((task, model)))
    sandbox.execute(
        "rlm_query('a', model='small')\nrlm_query_batched(['b', 'c'], model='large')\nrlm_query('d')"
    ).check()
    assert sorted(asked) == [("a", "small"), ("b", "large"), ("c", "large"), ("d", None)]
