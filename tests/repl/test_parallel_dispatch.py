"""Parallel read-only dispatch: which calls are made ahead, and that nobody can tell by the results."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloche import ReentrantCallError, REPLConfig, REPLEnvironment, Tool, calling_sandbox
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
    tools = {"look": Tool(probe, read_only=True), "meet": Tool(probe.meet, read_only=True), "note": probe}
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


atoms = st.sampled_from(["peek(2)", "look(1)", "look('a')", "grep('b')", "context_len()", "look(look(1))", "x"])
statements = st.one_of(
    st.builds("x = {}".format, atoms),
    st.builds("print({}, {})".format, atoms, atoms),
    st.builds("print([{} for n in (1, 2)], look(n) if n else 0)".format, atoms),
    st.builds("for n in [3, 4]: print(n, {})".format, atoms),
    st.builds("if {}: print({})".format, atoms, atoms),
    st.builds("note({})".format, atoms),
    st.builds("try: print({}); 1 / 0\nexcept ZeroDivisionError: print({})".format, atoms, atoms),
)


@given(st.lists(statements, min_size=1, max_size=5).map("\n".join))
def test_results_are_those_of_one_call_after_the_other(both, code):
    outputs = {ahead: env.execute(f"x = n = 1\n{code}").output for ahead, env in both.items()}
    assert outputs[True] == outputs[False]
