"""A context of 100 MB: from the host's string to a string in a fresh guest, whose memory is still cold.

The guest's start is not part of the sample (it is a row of its own). rlms writes the context to a file and
reads it back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from benchmarks.peers import local_repl
from benchmarks.reference import bare_start
from benchmarks.row import Contender, Opener, Row, Sampler, Target
from benchmarks.stopwatch import timed
from cloche import create_sandbox

SIZE = 100_000_000
_LINE = "The quick brown fox jumps over the lazy dog 0123456789 and some more text here..\n"
_MIXED_LINE = "Grüße aus Köln, 東京から — naïve café ☕ " + _LINE * 2


def ascii_text() -> str:
    """One byte a character, also in UTF-8."""
    return (_LINE * (SIZE // len(_LINE) + 1))[:SIZE]


def latin_1_text() -> str:
    """One byte a character in memory."""
    return ascii_text().replace("o", "ö")


def mixed_text() -> str:
    """Two bytes a character in memory; `SIZE` bytes in UTF-8."""
    return _MIXED_LINE * (SIZE // len(_MIXED_LINE.encode()))


def emoji_text() -> str:
    """One emoji makes four bytes of every character in memory."""
    half = ascii_text()[: SIZE // 2]
    return f"{half}😀{half}"


def fresh_guest(make_text: Callable[[], str]) -> Opener:
    """Give the text to a new guest each time."""

    @contextmanager
    def open_guests() -> Iterator[Sampler]:
        text = make_text()

        def sample() -> Sequence[float]:
            with create_sandbox(backend="native") as sandbox:
                sandbox.initialize()
                took = timed(lambda: sandbox.initialize(text))
                arrived = sandbox.execute("len(context)").check().value
            if arrived != str(len(text)):
                raise RuntimeError(f"{len(text)} characters were sent and {arrived} arrived")
            return [took]

        yield sample

    return open_guests


def _fresh_repl(make_text: Callable[[], str]) -> Contender:
    @contextmanager
    def open_repls() -> Iterator[Sampler]:
        text = make_text()

        def sample() -> Sequence[float]:
            with local_repl.repl() as environment:
                took = timed(lambda: environment.load_context(text))
                arrived = local_repl.run_cell(environment, "print(len(context))").strip()
            if arrived != str(len(text)):
                raise RuntimeError(f"{len(text)} characters were sent and {arrived} arrived")
            return [took]

        yield sample

    return Contender(local_repl.NAME, open_repls)


def _row(suffix: str, what: str, make_text: Callable[[], str], limit_ms: float | None) -> Row:
    return Row(
        name=f"native.context_100mb{suffix}",
        unit="ms",
        what=what,
        ours=fresh_guest(make_text),
        reference=bare_start(),
        peer=_fresh_repl(make_text),
        rounds=12,
        quick_rounds=2,
        targets=() if limit_ms is None else (Target("p50", "<=", limit_ms),),
    )


ROWS = (
    _row("", "100 MB of ASCII", ascii_text, 150),
    _row(".latin_1", "100 MB, Latin-1", latin_1_text, 150),
    _row(".mixed", "100 MB of UTF-8, two bytes a character in memory", mixed_text, 250),
    _row(".emoji", "100 MB of ASCII with one emoji", emoji_text, None),
)
