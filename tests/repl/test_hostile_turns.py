"""Code that means no good, or was written in a hurry: every turn ends with a result, and the next one is as before."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from cloche import AsyncREPLEnvironment, PolicyError, REPLConfig, REPLEnvironment, Tool

SECRET = "ghp_" + "a1B2c3D4e5" * 3 + "abcdef"
CONTEXT = "first line\nsecond line\n" * 10


def leave(how: str) -> None:
    raise {"exit": SystemExit, "interrupt": KeyboardInterrupt, "generator": GeneratorExit}[how](1)


class Unprintable:
    """What a tool should not return."""

    def __repr__(self) -> str:
        raise ValueError("no")


@pytest.fixture(scope="module")
def environment() -> Iterator[REPLEnvironment]:
    tools = {
        "leave": leave,
        "leave_ahead": Tool(leave, read_only=True),
        "give": Tool(lambda *given: given, read_only=True),
        "unprintable": Unprintable,
        "tell": lambda: SECRET,
        "fail": lambda: int(SECRET),
    }
    with REPLEnvironment(CONTEXT, REPLConfig(guard="off"), backend="native", tools=tools, llm=str.upper) as one:
        yield one


@pytest.fixture
def env(environment: REPLEnvironment) -> REPLEnvironment:
    environment.reset()
    return environment


# -- FINAL ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        "import threading\nt = threading.Thread(target=FINAL, args=('x',)); t.start(); t.join()",
        "import asyncio\nasync def f(): FINAL('x')\nasyncio.run(f())",
        "async def f(): FINAL('x')\nawait f()",
        "def f():\n    yield FINAL('x')\nlist(f())",
        "class D:\n    def __del__(self): FINAL('x')\nd = D(); del d",
        "def f(n): return f(n - 1) if n else FINAL('x')\nf(50)",
        "sorted([1, 2], key=lambda n: FINAL('x'))",
        "with open('f', 'w') as f:\n    try: FINAL('x')\n    finally: print('late', flush=True)",
        "for _ in range(3):\n    try: FINAL('x')\n    except BaseException: pass",
        "try: FINAL('x')\nexcept BaseException: FINAL('y')",
    ],
)
def test_final_ends_the_turn_from_wherever_it_is_called(env, code):
    result = env.execute(f"{code}\nprint('after')")
    assert (result.is_final, result.final_answer) == (True, "x")
    assert "after" not in result.output
    assert env.execute("print('next')").output == "next"


@pytest.mark.parametrize("wall", ["native", "wasm"])
def test_an_answer_inside_asyncio_run_leaves_no_loop_running(wall):
    with REPLEnvironment(backend=wall) as env:
        code = "import asyncio\nasync def f(): FINAL('x')\nasync def g(): return 5\nasyncio.run(f())"
        assert env.execute(code).final_answer == "x"
        assert [env.execute(code).output for code in ("asyncio.run(g())", "await g()")] == ["5", "5"]


def test_the_first_of_several_answers_is_the_answer(env):
    start = "for n in range(20): threading.Thread(target=FINAL, args=(n,)).start()"
    result = env.execute(f"import threading\n{start}\nthreading.Event().wait()")
    assert result.is_final
    assert [call.failed for call in result.calls].count(None) == 1


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ("type('S', (), {'__str__': lambda self: 1 / 0})()", "ZeroDivisionError"),
        ("type('S', (), {'__str__': lambda self: 5})()", "non-string"),
        ("peek", "is a function"),
        ("'x' * 20_000_000", "characters; it may have"),
    ],
)
def test_what_is_no_answer_is_an_error_and_ends_nothing(env, answer, error):
    result = env.execute(f"FINAL({answer})")
    assert not result.is_final
    assert error in str(result.error)


def test_an_answer_that_never_becomes_text_is_stopped(env):
    result = env.execute("class S:\n    def __str__(self):\n        while True: pass\nFINAL(S())", timeout_ms=300)
    assert (result.is_final, "timeout" in str(result.error)) == (False, True)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("class S(str):\n    __len__ = lambda self: -1\n    __str__ = lambda self: self\nFINAL(S('plain'))", "plain"),
        ("x = []; x.append(x); FINAL(x)", "[[...]]"),
        ("FINAL(float('nan'))", "nan"),
        ("FINAL('\\ud800')", "\ud800"),
        ("FINAL(grep('second')[0])", "second line"),
        ("FINAL(None)", "None"),
    ],
)
def test_an_answer_of_any_kind_arrives_as_text(env, code, text):
    assert env.execute(code).final_answer == text


@pytest.mark.parametrize("answer", ["{1, 2}", "b'x'", "object()", "float('nan')", "{(1, 2): 3j}", "'\\ud800'", "[[1]]"])
def test_a_turn_is_plain_data_whatever_was_answered(env, answer):
    data = json.loads(json.dumps(env.execute(f"FINAL({answer})").to_dict(), allow_nan=False))
    assert data["is_final"] is True
    assert data["final_value"] is not None


def test_final_var_looks_in_variables_and_then_in_artifacts(env):
    env.execute("artifacts['table'] = [1, 2]; artifacts['both'] = 'kept'; both = 'variable'")
    assert env.execute("FINAL_VAR('table')").final_value == [1, 2]
    assert env.execute("FINAL_VAR('both')").final_answer == "variable"
    missing = env.execute("value = 1; FINAL_VAR('valu')")
    assert "did you mean 'value'" in str(missing.error)


@pytest.mark.parametrize(
    "answer",
    [
        "type('D', (dict,), {'get': lambda *a: 1 / 0, '__getitem__': lambda *a: 1 / 0})()",
        "{'ready': type('B', (), {'__bool__': lambda self: 1 / 0})()}",
        "{'ready': True, 'content': print}",
        "5",
    ],
)
def test_a_hostile_answer_troubles_one_turn_at_most(env, answer):
    assert not env.execute(f"answer = {answer}").is_final
    assert env.execute("print('next')").output == "next"


def test_functions_that_are_done_inside_cannot_be_used_to_answer_without_an_end(env):
    code = (
        "cells = [cell.cell_contents for cell in list_tools.__closure__]\n"
        "bridges = next(one for one in cells if hasattr(one, '_bridges'))._bridges\n"
        "for name in ('help', 'list_tools', 'FINAL_VAR'):\n"
        "    try: bridges.invoke(name, ('sneaked',), {})\n"
        "    except BridgeError as exc: print(exc.type)\n"
    )
    result = env.execute(code)
    assert (result.is_final, result.output) == (False, "RequestError\n" * 2 + "RequestError")


# -- arguments -----------------------------------------------------------------------------------

CALLS = [
    "peek({})", "peek(n={})", "peek(source={})", "peek(start={})", "peek(lines={})", "peek('out:1', {})", "grep({})",
    "grep('a', {})", "grep('a', before={})", "grep('a', max_results={})", "grep('a', None, 0, 0, True, {})",
    "list_dir({})", "file_info({})", "chunk_context({})", "chunk_context(overlap={})", "context_len({})",
    "mark_finding({})", "mark_finding('a', tags={})", "STUCK({})", "llm_call({})", "llm_batch({})",
    "FINAL_VAR({})",
]  # fmt: skip
VALUES = [
    "-1", "10**30", "-10**30", "float('nan')", "float('inf')", "True", "None", "'\\ud800'", "'a\\0b'", "'x' * 10**6",
    "'/' + 'a/' * 3000", "b'x'", "[[[]]]", "{'a': {1: 2}}", "cyclic", "deep", "object()", "'('", "'../../etc/passwd'",
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_builtins_take_any_argument_or_say_what_is_wrong(env, call):
    tries = "\n".join(
        f"try: _ = {call.format(value)}\nexcept Exception as exc: kinds.add(getattr(exc, 'type', type(exc).__name__))"
        for value in VALUES
    )
    setup = "cyclic = []; cyclic.append(cyclic)\ndeep = []\nfor _ in range(5000): deep = [deep]\nkinds = set()\n"
    result = env.execute(f"{setup}{tries}\nprint(sorted(kinds))")
    assert result.error is None
    known = {"LookError", "SourceError", "RequestError", "PatternError", "TypeError", "NameError", "ImportError"}
    known.add("RecursionError")  # as `print` would
    last = result.output.splitlines()[-1]
    assert set(eval(last)) <= known, last  # a list of names


@pytest.mark.parametrize(
    ("call", "usage"),
    [
        ("peek(1, 2, 3, 4, 5, 6)", "peek(n=500) or peek(source"),
        ("peek(size=1)", "peek(n=500) or peek(source"),
        ("context_len(1)", "context_len() -> int"),
        ("mark_finding()", "mark_finding(content"),
        ("leave()", "help('leave') tells how"),
    ],
)
def test_a_call_that_does_not_fit_is_told_how_it_is_called(env, call, usage):
    error = str(env.execute(call).error)
    assert f"{call.partition('(')[0]} cannot be called like this" in error
    assert usage in error
    assert "lambda" not in error


def test_grep_gives_no_more_than_the_configuration_allows(env):
    assert env.execute("len(grep('line', max_results=10**9)), grep('line', max_results=0).total").output == "(20, 20)"
    with REPLEnvironment("a\n" * 12_000, {"max_grep_results": 11_000}, backend="native") as wide:
        assert wide.execute("h = grep('a'); len(h), h.total, h.exact").output == "(11000, 11000, False)"


def test_lines_around_hits_are_bounded_before_they_are_gathered(env):
    assert "too much to hand over" in str(env.execute("grep('line', before=10**6)").error)
    assert env.execute("len(grep('line', before=9, max_results=2)[1].before)").output == "1"


def test_who_asks_to_be_shown_nothing_has_not_looked():
    config = {"require_exploration_before_final": True}
    with REPLEnvironment("text", config, backend="native") as env:
        assert not env.execute("peek(0); peek(start=99); FINAL(1)").is_final
        assert env.execute("peek(1); FINAL(1)").is_final
    with REPLEnvironment("", config, backend="native") as env:
        assert env.execute("peek(); FINAL(1)").is_final


def test_a_turn_that_cost_the_session_says_what_is_gone_and_what_is_there(env):
    env.execute("x = 1; mark_finding('kept')")
    lost = env.execute("import os; os._exit(3)")
    assert lost.output.splitlines()[-1].startswith("[SESSION] it ended with this turn: variables and imports are gone")
    assert env.execute("len(list_findings()), len(context) > 9, 'x' in globals()").output == "(1, True, False)"


def test_a_process_that_was_killed_is_not_said_to_have_wanted_memory(env):
    killed = env.execute("import os, signal; os.kill(os.getpid(), signal.SIGKILL)").output
    assert "[HINT] Something killed the process; if" in killed


def test_what_a_look_gave_can_be_handed_on_as_it_is(env):
    assert env.execute("llm_call(grep('second', max_results=1)[0])").output == "'SECOND LINE'"
    assert env.execute("llm_call(grep('second', max_results=1))").output.startswith("2: SECOND LINE")
    assert env.execute("mark_finding(grep('second', max_results=1)[0])['content']").output == "'second line'"
    assert (
        env.execute("give(grep('second', max_results=2), list_dir())").output == "(['second line', 'second line'], [])"
    )
    assert env.execute("FINAL(grep('second', max_results=1))").final_value == ["second line"]


def test_an_object_is_handed_to_a_model_as_it_is_printed_and_whole(env):
    code = "class T:\n    def __str__(self): return 'cell ' * 1000\nlen(llm_call(T(), T()))"
    assert env.execute(code).output == "10002"


def test_thousands_of_looks_fit_into_one_turn(env):
    result = env.execute("for n in range(3000): peek(1)\nprint('all')")
    assert (result.output, len(result.calls)) == ("all", 3000)


# -- tools ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["exit", "interrupt", "generator"])
@pytest.mark.parametrize("tool", ["leave", "leave_ahead"])
def test_whatever_a_tool_raises_stays_with_the_code_that_called_it(env, tool, how):
    result = env.execute(f"for n in (1, 2):\n    try: {tool}('{how}')\n    except BridgeError as exc: print(exc.type)")
    assert len(set(result.output.splitlines())) == 1
    assert result.error is None


def test_what_a_tool_returns_need_not_have_a_repr(env):
    assert env.execute("unprintable()").result is not None
    assert env.execute("print('next')").output == "next"


@pytest.mark.parametrize("name", ["print", "len", "open"])
def test_a_tool_may_have_the_name_of_a_function_of_python(name):
    with REPLEnvironment("", {"guard": "off"}, backend="native", tools={name: lambda *a: f"tool {a}"}) as env:
        assert env.execute(f"{name}(1)").output == "'tool (1,)'"


def test_names_of_builtins_are_back_in_the_next_turn(env):
    env.execute("peek = grep = FINAL = answer = context = None; del context_len")
    assert env.execute("print(peek(5), len(grep('second')), context_len() == len(context))").output == "first 10 True"
    assert env.execute("FINAL('x')").final_answer == "x"


@pytest.mark.parametrize("wall", ["inprocess", "jail"])
def test_a_key_like_dunder_dict_is_refused_in_process_and_plain_data_behind_a_wall(wall):
    with REPLEnvironment("", backend=wall) as env:
        result = env.execute("row = {'__dict__': 5}\nrow['__dict__']")
        if wall == "jail":
            assert result.output == "5"
        else:
            assert "__dict__" in str(result.error)


# -- redaction -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        "print(tell())",
        "tell()",
        "raise ValueError(tell())",
        "fail()",
        "import sys; sys.stderr.write(tell())",
        "FINAL(tell())",
        "FINAL({tell(): [tell(), {1: tell().encode()}]})",
        "FINAL(type('R', (), {'__repr__': lambda self: tell(), '__str__': lambda self: 'x'})())",
        "print('x' * 9000, tell(), 'y' * 9000)",
        "print(give(tell()), give(tell(), 2))",
        "print('x' * 9000, tell()); 1 / 0",
        "mark_finding(tell())",
        "exec('raise KeyError(tell())')",
        "llm_call('say ' + tell())",
        "give(llm_batch([tell(), tell()]))",
    ],
)
def test_a_secret_is_masked_wherever_it_comes_out(env, code):
    result = env.execute(code)
    shown = f"{result.output}{result.error}{result.final_answer}{result.final_value}{result.calls}{env.get_state()}"
    stored = env.execute(f"peek({result.spilled!r}, 10**6)").output if result.spilled else ""
    assert SECRET not in shown + stored
    assert SECRET.upper() not in shown  # what a model was asked


@pytest.mark.parametrize(
    "code",
    [
        "raise ValueError('a' * 1980 + ' ' + tell())",
        "give('a' * 65 + ' ' + tell())",
        "mark_finding('a' * 185 + ' ' + tell(), tags=['b' * 85 + ' ' + tell()]); list_findings()",
        "print(STUCK('a' * 285 + ' ' + tell()))",
    ],
)
def test_no_part_of_a_secret_is_shown_where_a_text_is_cut(env, code):
    shown = json.dumps(env.execute(code).to_dict()) + env.get_state()
    assert SECRET[:8] not in shown


def test_the_record_of_an_answer_has_it_once(env):
    assert env.execute("FINAL([1])").calls[-1].arguments == "'[1]'"


def test_a_remedy_and_the_line_of_the_error_do_not_run_into_each_other(env):
    assert env.execute("peek(-1)").output.endswith("\n  remedy: peek(start=-1) shows the end\n  (line 1: peek(-1))")


def test_a_secret_in_the_code_itself_is_masked_in_notes_and_refusals():
    with REPLEnvironment("", backend="native") as env:
        result = env.execute(f"import os\nos.system('{SECRET}')\neval('{SECRET}')")
        assert SECRET not in f"{result.output}{result.error}{result.notes}"


# -- state ---------------------------------------------------------------------------------------


def test_the_state_is_short_and_never_asks_the_objects(env):
    env.execute(
        "class Meta(type):\n    __name__ = property(lambda self: 1 / 0)\n"
        "class Odd(metaclass=Meta):\n    def __repr__(self): raise ValueError\n    __str__ = __hash__ = __repr__\n"
        "odd = Odd(); big = list(range(10_000_000)); globals()['x' * 10**6] = 1; globals()['two\\nlines'] = 2\n"
        "wide = type('W' * 10**6, (), {})(); evil = type('E\\nturns: 99', (), {})()\n"
        "for n in range(100): globals()[f'v{n}'] = n\n"
    )
    state = env.get_state()
    assert "odd (Odd)" in state
    assert len(state) < 4000
    assert "two" not in state
    assert "\nturns: 99" not in state
    assert "... and " in state


def test_an_error_is_short_and_its_whole_text_is_stored(env):
    result = env.execute("raise ValueError('x' * 50_000)")
    assert len(str(result.error)) < 2200
    assert result.spilled is None or len(result.output) <= 1500


def test_a_hundred_violations_are_told_within_the_cap():
    with REPLEnvironment("", backend="native") as env:
        refused = env.execute("eval('1')\n" * 5000)
        assert len(refused.output) < env.config.output_cap + 1000
    with REPLEnvironment("", {"guard": "warn"}, backend="native") as env:
        assert len(env.execute("x = 1\n" + "eval('1')\n" * 5000).output) < 5000


@pytest.mark.parametrize(
    "code",
    ["a\0b", "x = '\ud800'", "\ud800", "(" * 5000, "-" * 100_000 + "1", "a" + ".a" * 50_000, "if 1:\n" + "\t \tx"],
)
@pytest.mark.parametrize("guard", ["off", "enforce"])
def test_code_of_any_kind_gives_a_result(guard, code, environment, refusing):
    assert (refusing if guard == "enforce" else environment).execute(f"peek(1); peek(2)\n{code}").turn >= 0


@pytest.fixture(scope="module")
def refusing() -> Iterator[REPLEnvironment]:
    with REPLEnvironment(CONTEXT, backend="native") as env:
        yield env


@pytest.mark.parametrize("code", [None, 5, b"1"])
def test_what_is_no_text_is_no_code(env, code):
    with pytest.raises(Exception, match="code must be text"):
        env.execute(code)


# -- two at once ---------------------------------------------------------------------------------


def test_turns_of_several_threads_do_not_mix(env):
    failures: list[str] = []

    def work(name: str) -> None:
        for _ in range(10):
            result = env.execute(f"for _ in range(50): print('{name}', flush=True)\npeek(1)")
            if set(result.output.splitlines()) - {name, "'f'"} or len(result.calls) != 1:
                failures.append(result.output)

    threads = [threading.Thread(target=work, args=(name,)) for name in ("one", "two", "three")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []


def test_two_environments_in_two_threads_do_not_mix(env):
    with REPLEnvironment("other", REPLConfig(guard="off"), backend="native") as other:
        outputs: dict[str, set[str]] = {}

        def work(name: str, one: REPLEnvironment) -> None:
            code = f"for _ in range(200): print('{name}', flush=True)"
            outputs[name] = {line for _ in range(5) for line in one.execute(code).output.splitlines()}

        threads = [threading.Thread(target=work, args=args) for args in (("a", env), ("b", other))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert outputs == {"a": {"a"}, "b": {"b"}}


def test_a_tool_that_works_at_the_same_bench_is_refused_also_when_it_is_called_ahead():
    tools = {"again": Tool(lambda n: bench.execute(f"print({n})").output, read_only=True)}
    with REPLEnvironment("text", backend="native", tools=tools) as bench:
        result = bench.execute("for n in (1, 2):\n    try: again(n)\n    except BridgeError as exc: print(exc.type)")
        assert result.output == "ReentrantCallError\nReentrantCallError"
        assert bench.execute("print('next')").turn == 2


@pytest.mark.parametrize("method", ["get_state", "reset", "fork", "checkpoint"])
def test_a_tool_that_does_something_else_at_the_same_bench_is_refused(method):
    def tool() -> None:
        getattr(bench, method)()

    with REPLEnvironment("", backend="native", tools={"tool": tool}) as bench:
        result = bench.execute("try: tool()\nexcept BridgeError as exc: print(exc.type)")
        assert result.output == "ReentrantCallError"


def test_a_branch_has_the_time_limit_of_the_one_it_comes_from():
    with REPLEnvironment("", backend="jail", timeout_ms=300) as env:
        branch = env.fork()
        try:
            assert "300 ms" in str(branch.execute("while True: pass").error)
        finally:
            branch.close()


def test_the_time_limit_is_that_of_the_configuration_also_for_a_given_sandbox():
    from cloche import create_sandbox

    with REPLEnvironment("", {"timeout_seconds": 0.3}, sandbox=create_sandbox(backend="native")) as env:
        assert "300 ms" in str(env.execute("while True: pass").error)
    with REPLEnvironment("", backend="native", timeout_ms=400) as env:
        assert "400 ms" in str(env.execute("while True: pass").error)


def test_a_sandbox_and_what_one_is_made_of_are_not_both_taken():
    given: Any = object()
    for kind in (REPLEnvironment, AsyncREPLEnvironment):
        with pytest.raises(PolicyError, match="not both"):
            kind("", sandbox=given, backend="native")
