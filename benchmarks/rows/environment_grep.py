"""`grep` over a context of 100 MB: five shapes of pattern, each beside Python's own engine in the same run.

Ours gives what an agent is given: the first hundred lines with their numbers, columns and places in characters, and how
many there are. The peer only counts its matches. The reference looks for one byte that is not there.
"""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from benchmarks.row import Contender, NotHere, Opener, Row, Sampler, Target
from benchmarks.stopwatch import timed
from cloche.errors import BackendUnavailableError
from cloche.repl.searching import Searcher, Text

SIZE = 100_000_000
PLANTED = (
    b"\nhere is the needle_in_the_haystack, which someone@example_post.com wrote\n"
    b"    def needle_handler(first, second): pass  # (selfish)\n"
)
EVERY = 1_000_000
SHAPES = {
    "literal": ("needle_in_the_haystack", False),
    "alternation": ("zebra_crossing|needle_in_the_hay|quokka_island", False),
    "word": (r"\b\w+@\w+_post\.com\b", False),
    "ignore_case": ("NEEDLE_in_the_HAYSTACK", True),
    "gap": (r"def needle.*\(self", False),
}


@cache
def haystack(size: int = SIZE) -> bytes:
    """Source of the standard library, again and again, with lines that match planted into it."""
    folder = Path(sysconfig.get_path("stdlib"))
    source = b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))
    text = (source * (size // len(source) + 1))[:size]
    pieces = [text[start : start + EVERY] for start in range(0, size, EVERY)]
    return PLANTED.join(pieces)


def _speed(search: Callable[[bytes], int]) -> Opener:
    """MB/s of `search`, which must find every planted line."""

    @contextmanager
    def open_text() -> Iterator[Sampler]:
        text = haystack(SIZE)
        planted = text.count(PLANTED)

        def run() -> None:
            found = search(text)
            if found != planted:
                raise RuntimeError(f"{found} lines were found of {planted}")

        def sample() -> Sequence[float]:
            return [len(text) / 1e6 / timed(run, scale=1)]

        yield sample

    return open_text


def _ours(pattern: str, *, ignore_case: bool, fresh: bool = False) -> Opener:
    """`fresh`: a text that was never searched before, whose lines are counted on the way."""

    @contextmanager
    def open_text() -> Iterator[Sampler]:
        kept: list[Text] = []

        def search(data: bytes) -> int:
            if fresh or not kept:
                kept[:] = [Text(data)]
            return Searcher(pattern, ignore_case=ignore_case).find_lines(kept[0]).total

        try:
            Searcher(pattern)
        except BackendUnavailableError as exc:
            raise NotHere(str(exc)) from exc
        with _speed(search)() as sample:
            sample()
            yield sample

    return open_text


def _peer(pattern: str, *, ignore_case: bool) -> Contender:
    compiled = re.compile(pattern.encode(), re.IGNORECASE if ignore_case else 0)
    return Contender("re, counting", _speed(lambda data: sum(1 for _ in compiled.finditer(data))))


@contextmanager
def _find_nothing() -> Iterator[Sampler]:
    text = haystack(SIZE)

    def sample() -> Sequence[float]:
        return [len(text) / 1e6 / timed(lambda: text.find(b"\xff"), scale=1)]

    yield sample


REFERENCE = Contender("bytes.find of a byte that is not there", _find_nothing)


def _row(name: str, what: str, shape: str, at_least: float, *, fresh: bool = False) -> Row:
    pattern, ignore_case = SHAPES[shape]
    return Row(
        name=f"env.grep_100mb.{name}",
        unit="MB/s",
        what=what,
        ours=_ours(pattern, ignore_case=ignore_case, fresh=fresh),
        reference=REFERENCE,
        peer=_peer(pattern, ignore_case=ignore_case),
        rounds=10,
        quick_rounds=2,
        peer_rounds=3,
        higher_is_better=True,
        targets=(Target("p50", ">=", at_least),),
    )


ROWS: tuple[Row, ...] = (
    _row("literal", "a literal", "literal", 1000),
    _row("alternation", "one of three literals", "alternation", 400),
    _row("word", r"\b\w+@\w+_post\.com\b", "word", 400),
    _row("ignore_case", "a literal in any case", "ignore_case", 400),
    _row("gap", r"def needle.*\(self", "gap", 400),
    _row("first", "a literal, in a text that was never searched before", "literal", 400, fresh=True),
)
