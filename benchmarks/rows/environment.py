"""The workbench: what a turn costs beside the plain cell, what calling ahead gains, and what a model is shown.

`env.tokens` is ten questions on a long text that comes with Python. One strategy, which was fixed before the questions
were written, looks with `peek` and `grep`; the answer must stand in what it was shown. The reference is the whole text,
once for each question.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from benchmarks.peers import local_repl
from benchmarks.row import Contender, Opener, Row, Sampler, Target
from benchmarks.stopwatch import MICROSECONDS, timed
from cloche import REPLConfig, REPLEnvironment, Tool, create_sandbox
from cloche.repl.tokens import default_counter

TURNS_A_ROUND = 50
TOOL_SECONDS = 0.1
CONTEXT = "The quick brown fox jumps over the lazy dog.\n" * 2000
FOUR_CALLS = "a = look(1); b = look(2)\nprint(a, b, [look(n) for n in (3, 4)])"
COMMON = re.compile("about|after|also|does|from|have|into|th.*|wh.*|will|with|would|your|only|called")

QUESTIONS = (
    ("Which exception does a failed assertion raise when debugging?", "AssertionError"),
    ("Which keyword makes anonymous functions?", "lambda"),
    ("What do slots deny the creation of?", "__dict__"),
    ("Which method is the finalizer or destructor?", "__del__"),
    ("What may group digits in numeric literals for readability?", "nderscores"),
    ("Which statement is a null operation?", "pass_stmt"),
    ("Which exception ends an iterator?", "StopIteration"),
    ("Which method does the membership test call first?", "__contains__"),
    ("Which operator is used for matrix multiplication?", '"@"'),
    ("Which exceptions are suppressed by a true value returned on exit from a with block?", "__exit__"),
)


def long_text() -> str:
    """The language reference as it comes with every Python: some 450,000 characters."""
    from pydoc_data.topics import topics

    return "\n\n".join(f"{name}\n{text}" for name, text in sorted(topics.items()))


def look_for(environment: REPLEnvironment, question: str) -> tuple[str, int]:
    """(what was shown, its tokens). Count words of the question and pairs of them on a line; read around the rarest."""
    words = [word for word in re.findall(r"[a-z]{4,}", question.lower()) if not COMMON.fullmatch(word)]
    pairs = [f"{one}.*{other}|{other}.*{one}" for one, other in itertools.combinations(words, 2)]
    first = environment.execute(
        "def rarest(patterns):\n"
        "    totals = {pattern: grep(pattern, max_results=1).total for pattern in patterns}\n"
        "    return [pattern for total, pattern in sorted((n, pattern) for pattern, n in totals.items() if n)[:2]]\n"
        "print(peek(200))"
    )
    looks = [
        environment.execute(f"for rare in rarest({patterns!r}): print(grep(rare, before=3, after=5, max_results=3))")
        for patterns in (pairs, words)
    ]
    turns = [first, *looks]
    return "\n".join(turn.output for turn in turns), sum(turn.shown.number for turn in turns if turn.shown)


@contextmanager
def questions() -> Iterator[Sampler]:
    """Tokens that a model is shown for all questions; for one that is not answered so, the whole text as well."""
    text = long_text()
    whole = default_counter()(text).number
    with REPLEnvironment(text, REPLConfig(guard="off"), backend="native") as environment:

        def sample() -> Sequence[float]:
            total = 0
            for question, answer in QUESTIONS:
                shown, tokens = look_for(environment, question)
                total += tokens if answer in shown else tokens + whole
            return [float(total)]

        yield sample


def whole_text() -> Contender:
    """The text in full, once for each question."""

    @contextmanager
    def open_text() -> Iterator[Sampler]:
        total = float(default_counter()(long_text()).number * len(QUESTIONS))
        yield lambda: [total]

    return Contender("the whole text", open_text)


def turns(code: str) -> Opener:
    """Turns of one environment."""

    @contextmanager
    def open_environment() -> Iterator[Sampler]:
        with REPLEnvironment(CONTEXT, backend="native") as environment:
            environment.execute(code)

            def sample() -> Sequence[float]:
                return [timed(lambda: environment.execute(code), MICROSECONDS) for _ in range(TURNS_A_ROUND)]

            yield sample

    return open_environment


def cells(code: str) -> Contender:
    """The plain sandbox."""

    @contextmanager
    def open_sandbox() -> Iterator[Sampler]:
        with create_sandbox(backend="native") as sandbox:
            sandbox.execute(code).check()

            def sample() -> Sequence[float]:
                return [timed(lambda: sandbox.execute(code), MICROSECONDS) for _ in range(TURNS_A_ROUND)]

            yield sample

    return Contender("a plain cell", open_sandbox)


def four_calls(*, ahead: bool) -> Opener:
    """A turn with four calls of a tool that takes a tenth of a second."""

    def look(number: int) -> int:
        time.sleep(TOOL_SECONDS)
        return number

    @contextmanager
    def open_environment() -> Iterator[Sampler]:
        config, tools = REPLConfig(parallel_tools=ahead), {"look": Tool(look, read_only=True)}
        with REPLEnvironment("text", config, backend="native", tools=tools) as environment:
            environment.execute("1")

            def sample() -> Sequence[float]:
                results = []
                took = timed(lambda: results.append(environment.execute(FOUR_CALLS)))
                if results[0].output != "1 2 [3, 4]":
                    raise RuntimeError(f"the turn gave {results[0].output!r}")
                return [took]

            yield sample

    return open_environment


def _local(code: str) -> Contender:
    def sample(environment: object) -> Sequence[float]:
        local_repl.run_cell(environment, f"text = {CONTEXT!r}")
        run: Callable[[], object] = lambda: local_repl.run_cell(environment, code)  # noqa: E731 - measured
        return [timed(run, MICROSECONDS) for _ in range(TURNS_A_ROUND)]

    return local_repl.running_repl(sample)


ROWS = (
    Row(
        name="env.turn",
        unit="us",
        what="an empty turn",
        ours=turns("pass"),
        reference=cells("pass"),
        peer=_local("pass"),
        rounds=20,
    ),
    Row(
        name="env.peek",
        unit="us",
        what="a turn that looks once",
        ours=turns("x = peek(100)"),
        reference=cells("pass"),
        peer=_local("x = text[:100]"),
        rounds=20,
    ),
    Row(
        name="env.dispatch",
        unit="ms",
        what="four calls of a tool that takes 100 ms, beside one after the other",
        ours=four_calls(ahead=True),
        reference=Contender("one after the other", four_calls(ahead=False)),
        peer=Contender("one after the other", four_calls(ahead=False)),
        rounds=5,
        quick_rounds=1,
        targets=(Target("ratio", "<=", 1 / 3.5),),
    ),
    Row(
        name="env.tokens",
        unit="tokens",
        what="shown for ten questions on the language reference",
        ours=questions,
        reference=whole_text(),
        peer=whole_text(),
        rounds=1,
        quick_rounds=1,
        targets=(Target("ratio", "<=", 0.01),),
    ),
)
