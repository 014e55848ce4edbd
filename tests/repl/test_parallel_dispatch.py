"""Parallel read-only dispatch: which calls are made ahead, and that nobody can tell by the results."""

from __future__ import annotations

import textwrap
import threading
from collections.abc import Iterator
from contextvars import ContextVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloche import ReentrantCallError, REPLConfig, REPLEnvironment, Tool, calling_sandbox
from cloche.repl.ahead import SIDE_BY_SIDE
from cloche.repl.planning import plan

READ_ONLY = {"peek", "grep", "look"}
HOST = {*READ_ONLY, "FINAL", "note"}


def planned(code: str) -> list[tuple[str, tuple[object, ...]]]:
    return [(call.name, call.args) for call in plan(code, READ_ONLY, HOST)]


@pytest.mark.parametrize(
    ("code", "calls"),
    [
        ("print(peek(3), grep('x'))", [("peek", (3,)), ("grep", ("x",))]),
        ("a = peek(1); b = grep('y')", [("peek", (1,)), ("grep", ("y",))]),
        ("[grep(p) for p in ('a', 'b')]", [("grep", ("a",)), ("grep", ("b",))]),
        ("{p: look(p) for p in ['a', 'b']}", [("look", ("a",)), ("look", ("b",))]),
        ("for n in range(3): print(peek(n))", [("peek", (0,)), ("peek", (1,)), ("peek", (2,))]),
        ("for a, b in [(1, 'x'), (2, 'y')]: look(a, b)", [("look", (1, "x")), ("look", (2, "y"))]),
        ("[look(f'item {n}') for n in (1, 2)]", [("look", ("item 1",)), ("look", ("item 2",))]),
        ("x = {'a': peek(1), 'b': [peek(2)]}['a']", [("peek", (1,)), ("peek", (2,))]),
        ("with a: peek(1); peek(2)", [("peek", (1,)), ("peek", (2,))]),
        ("try: peek(1); peek(2)\nexcept E: peek(3)", [("peek", (1,)), ("peek", (2,))]),
        ("peek(1) and peek(2) or peek(3); peek(4)", [("peek", (1,)), ("peek", (4,))]),
        ("if peek(1): peek(2)\npeek(3)", [("peek", (1,)), ("peek", (3,))]),
        ("peek(-1); grep('a' 'b')", [("peek", (-1,)), ("grep", ("ab",))]),
        ("look(1, (2, [3])); look(b'x', {'a': None})", [("look", (1, (2, [3]))), ("look", (b"x", {"a": None}))]),
        ("peek(1); peek(2)\nraise E\npeek(3)", [("peek", (1,)), ("peek", (2,))]),
    ],
)
def test_calls_that_will_be_made_are_found_wherever_they_stand(code, calls):
    assert planned(code) == calls


@pytest.mark.parametrize(
    "code",
    [
        "peek(1)",
        "peek(1); FINAL(peek(2))",
        "peek(1); note(1); peek(2)",
        "f = note\npeek(1); peek(2); f(3)",
        "peek = print\npeek(1); peek(2)",
        "def peek(n): pass\npeek(1); peek(2)",
        "from x import y as grep\ngrep('a'); grep('b')",
        "lambda grep: grep('a')\ngrep('a'); grep('b')",
        "eval('note(1)'); peek(1); peek(2)",
        "peek(n); grep(m)",
        "def f(): peek(1); peek(2)",
        "lambda: (peek(1), peek(2))",
        "[peek(n) for n in (1, 2) if n]",
        "for n in (1, 2):\n    peek(n)\n    break",
        "for n in range(10_000): peek(n)",
        "grep(*args); grep(**more)",
        "# peek(1); peek(2)",
        "'peek(1); peek(2)'",
        "peek(1 peek(2",
        "while x: peek(1); peek(2)",
        "for n in (1, 2):\n    n = 5\n    look(n)",
        "for n in (1, 2):\n    [n := n + 1]\n    look(n)",
        "look(...); look(Ellipsis)",
        "".join(" " * n + f"for v{n} in range(50):\n" for n in range(9)) + " " * 9 + "pass\npeek(1); peek(2)",
        "".join(f"{' ' * n}for v{n} in [f'{f'{{v{n - 1}}}' * 9}x']:\n" for n in range(1, 30)) + " " * 30 + "look(v29)",
    ],
)
def test_where_there_is_doubt_nothing_is_made_ahead(code):
    assert planned(code) == []


class Probe:
    """A tool that counts, and that can be made to wait until several are under way."""

    def __init__(self) -> None:
        self.calls: list[object] = []
        self.together = threading.Barrier(4)
        self._lock = threading.Lock()

    def __call__(self, what: object) -> str:
        with self._lock:
            self.calls.append(what)
        return f"<{what}>"

    def meet(self, what: object) -> str:
        self.together.wait(20)  # passes only when four are here at once
        return self(what)


@pytest.fixture(scope="module")
def probe() -> Probe:
    return Probe()


@pytest.fixture(scope="module")
def both(probe: Probe) -> Iterator[dict[bool, REPLEnvironment]]:
    """An environment that makes calls ahead, and one that does not."""

    def fail(what: object) -> None:
        raise ValueError(what)

    tools = {
        "fail": Tool(fail, read_only=True),
        "look": Tool(probe, read_only=True),
        "meet": Tool(probe.meet, read_only=True),
        "note": probe,
    }
    environments = {
        ahead: REPLEnvironment("a b c\nd e f", REPLConfig(parallel_tools=ahead), backend="native", tools=tools)
        for ahead in (True, False)
    }
    yield environments
    for environment in environments.values():
        environment.close()


def test_four_calls_in_one_turn_are_under_way_at_once(both, probe):
    result = both[True].execute("print(meet(1), meet(2), [meet(n) for n in (3, 4)])")
    assert result.output == "<1> <2> ['<3>', '<4>']"
    assert [call.ahead for call in result.calls] == [True] * 4


def test_nothing_is_called_twice_and_what_is_not_used_does_not_count(both, probe):
    probe.calls.clear()
    result = both[True].execute("a = look('one'); b = look('two')\nraise SystemExit\nlook('three')")
    assert sorted(map(str, probe.calls)) in (["one", "three", "two"], ["one", "two"])
    assert [call.name for call in result.calls] == ["look", "look"]


def test_a_call_that_changes_something_takes_back_what_was_made_ahead(both):
    env = both[True]
    env.execute("def add(what): mark_finding(what)")
    result = env.execute("print(look(1), look(2)); add('x'); print(look(3))")
    assert result.output == "<1> <2>\n<3>"
    assert result.calls[-1].ahead is False


def test_a_file_that_the_turn_itself_writes_is_not_read_ahead():
    with REPLEnvironment("text", REPLConfig(guard="off"), backend="native") as env:
        new = "open('new.txt', 'w').write('made'); print(peek('new.txt'), peek(3), grep('made', 'new.txt'))"
        assert env.execute(new).output == "made tex 1: made"
        env.execute("open('note.txt', 'w').write('old')")
        result = env.execute("open('note.txt', 'w').write('new'); print(peek('note.txt'), peek('note.txt', 1))")
        assert result.output == "new n"


def test_a_call_that_is_made_ahead_knows_for_whom():
    seen: list[object] = []

    def look(number: int) -> str:
        seen.append(calling_sandbox())
        try:
            env.sandbox.execute("1")
        except ReentrantCallError:
            return "refused"
        return "went in"

    with REPLEnvironment("text", backend="native", tools={"look": Tool(look, read_only=True)}) as env:
        result = env.execute("look(1), look(2)")
        assert result.output == "('refused', 'refused')"
        assert seen == [env.sandbox.id] * 2


def test_an_error_that_was_met_ahead_is_raised_where_the_call_stands(both):
    result = both[True].execute("print('before', peek(1))\ngrep('(')")
    assert result.output.startswith("before a\n[ERROR] ")
    assert "(line 2: grep('('))" in str(result.error)


def test_what_cannot_travel_as_it_stands_is_not_called_twice(both, probe):
    probe.calls.clear()
    both[True].execute("look((1, (2,))); look([b'x', 1j]); look({'a': -0.0}); look(...); look(1e999); look(10**30)")
    assert len(probe.calls) == 6


def test_a_call_that_the_code_wants_never_waits_for_one_that_it_does_not_want():
    free = threading.Event()

    def look(what: int) -> int:
        if what < 50:
            free.wait(50)
        return what

    tools = {"look": Tool(look, read_only=True)}
    code = "def stop(): raise ValueError\ntry:\n    stop()\n    for n in range(40): look(n)\nexcept ValueError: pass\n"
    with REPLEnvironment("", backend="native", tools=tools) as env:
        try:
            assert env.execute(f"{code}print(look(98), look(99))").output == "98 99"
        finally:
            free.set()


def test_calls_ahead_run_in_the_context_of_who_runs_the_turn():
    user: ContextVar[str] = ContextVar("user", default="nobody")
    seen: list[object] = []

    def look(what: int) -> str:
        seen.append(calling_sandbox())
        return user.get()

    for ahead in (True, False):
        with REPLEnvironment(
            "", {"parallel_tools": ahead}, backend="native", tools={"look": Tool(look, read_only=True)}
        ) as env:
            token = user.set("somebody")
            result = env.execute("print(look(1), look(2))")
            user.reset(token)
            assert (result.output, [call.ahead for call in result.calls]) == ("somebody somebody", [ahead] * 2)
            assert set(seen) == {env.sandbox.id}
            seen.clear()


def test_the_deadline_holds_for_calls_that_were_made_ahead():
    free = threading.Event()
    tools = {"hang": Tool(lambda n: free.wait(50), read_only=True)}
    with REPLEnvironment("", backend="native", tools=tools, bridge_timeout_ms=300) as env:
        try:
            result = env.execute("print(hang(1), hang(2))")
            assert "no answer within 300 ms" in str(result.error)
            assert env.execute("print('next')").output == "next"
        finally:
            free.set()


def test_threads_that_made_calls_ahead_are_used_again(both):
    for _ in range(5):
        both[True].execute("[look(n) for n in range(20)]")
    before = threading.active_count()
    for _ in range(30):
        both[True].execute("[look(n) for n in range(20)]")
    assert threading.active_count() <= before + SIDE_BY_SIDE


def test_a_batch_of_prompts_asks_no_more_when_its_turn_is_over():
    asked: list[str] = []
    free, begun = threading.Event(), threading.Barrier(SIDE_BY_SIDE + 1)

    def model(prompt: str) -> str:
        asked.append(prompt)
        begun.wait(50)
        free.wait(50)
        return prompt

    with REPLEnvironment("", backend="native", llm=model) as env:

        def cancel() -> None:
            begun.wait(50)
            env.cancel()

        helper = threading.Thread(target=cancel)
        helper.start()
        # the one who waits for the answers asks as well
        result = env.execute("llm_batch([str(n) for n in range(100)])")
        helper.join(50)
        free.set()
        assert result.error is not None
        assert env.execute("print('next')").output == "next"
    assert len(asked) <= SIDE_BY_SIDE + 1


def test_a_prompt_that_fails_fails_the_batch_and_the_rest_is_not_asked():
    asked: list[str] = []

    def model(prompt: str) -> str:
        asked.append(prompt)
        raise ConnectionError(f"no answer to {prompt}")

    with REPLEnvironment("", backend="native", llm=model) as env:
        result = env.execute("llm_batch([str(n) for n in range(500)])")
        assert "no answer to 0" in str(result.error)
        assert "a batch may have" in str(env.execute("llm_batch(['x'] * 5000)").error)
    assert len(asked) < 500


def test_code_is_repaired_before_calls_are_planned(both):
    result = both[True].execute("print(look(“one”), look(“two”))")
    assert result.output.endswith("<one> <two>")
    assert [call.ahead for call in result.calls] == [True, True]


def test_secrets_are_masked_also_in_what_was_made_ahead(both):
    secret = "ghp_" + "a1B2c3D4e5" * 3 + "abcdef"
    result = both[True].execute(f"print(look('{secret}'), look('{secret}', ))")
    assert [call.ahead for call in result.calls] == [True, True]
    assert secret not in f"{result.output}{result.calls}"


atoms = st.sampled_from(
    ["peek(2)", "look(1)", "look('a')", "grep('b')", "context_len()", "look(look(1))", "x", "look((1, 2))", "fail(1)",
     "look(...)", "saved(3)", "look(n)", "look(n := 7)", "peek(lines=2)", "peek('out:1')", "(yield_ := look(2))"]
)  # fmt: skip
statements = st.one_of(
    st.builds("x = {}".format, atoms),
    st.builds("print({}, {})".format, atoms, atoms),
    st.builds("print([{} for n in (1, 2)], look(n) if n else 0)".format, atoms),
    st.builds("for n in [3, 4]: print(n, {})".format, atoms),
    st.builds("if {}: print({})".format, atoms, atoms),
    st.builds("note({})".format, atoms),
    st.builds("n = 9\nprint({})".format, atoms),
    st.builds("for n in (1, 2):\n    n += 1\n    print({})".format, atoms),
    st.builds("for n in range(3):\n    print({})\n    if n: break".format, atoms),
    st.builds("print(next(({} for n in (1, 2)), None))".format, atoms.filter(lambda atom: ":=" not in atom)),
    st.builds("print([*map(lambda n: {}, (1, 2))])".format, atoms),
    st.builds("def f(look=look, n=n): return {}\nprint(f())".format, atoms),
    st.builds(
        "import threading\nt = threading.Thread(target=lambda: got.append({})); t.start(); t.join()".format, atoms
    ),
    st.builds("try: print({}); 1 / 0\nexcept ZeroDivisionError: print({})".format, atoms, atoms),
)


def in_blocks(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Statements in whatever may run them once, often, later or never."""
    body = st.lists(inner, min_size=1, max_size=3).map("\n".join).map(lambda text: textwrap.indent(text, "    "))
    return st.one_of(
        st.builds("try:\n{}\nexcept Exception as exc: print(type(exc))\nelse: print({})".format, body, atoms),
        st.builds("for n in (1, 2):\n{}".format, body),
        st.builds("for n, m in [(1, 2), (3, 4)]:\n{}\n    print(look(m))".format, body),
        st.builds("if {}:\n{}\nelse:\n{}".format, atoms, body, body),
        st.builds("def g(n=1):\n{}\n    return {}\nprint(g())".format, body, atoms),
        st.builds("async def h(n=2):\n{}\nawait h()".format, body),
        st.builds("class C:\n{}".format, body),
        st.builds("import contextlib\nwith contextlib.suppress(Exception):\n{}".format, body),
        st.builds("match {}:\n    case '<1>': print(look(1))\n    case _: print(look(2))".format, atoms),
        st.builds("assert {}, look(3)".format, atoms),
    )


programs = st.lists(st.recursive(statements, in_blocks, max_leaves=8), min_size=1, max_size=4).map("\n".join)


@given(programs)
def test_results_are_those_of_one_call_after_the_other(both, code):
    setup = "x = n = 1\ngot = []\n"
    saved = "def saved(n): return note(n)\n"  # a call that may change something, under a name that says nothing
    results = {}
    for ahead, env in both.items():
        env.execute(saved)
        results[ahead] = env.execute(f"{setup}{code}\nprint(got)")
    one, other = results[True], results[False]
    assert (one.output, one.error, one.is_final) == (other.output, other.error, other.is_final)
    assert [(call.name, call.arguments, call.failed, call.characters) for call in one.calls] == [
        (call.name, call.arguments, call.failed, call.characters) for call in other.calls
    ]
