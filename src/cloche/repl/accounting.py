"""What a call gave back, as a model would be shown it: in characters, bytes and tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cloche.repl.tokens import Tokens
from cloche_guest.looks import make_hits, make_listing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cloche.repl.tokens import TokenCounter

COUNTED = 50_000
"""Characters of one result whose tokens are counted; of a longer one the rest is taken to be like its beginning."""


@dataclass(frozen=True, slots=True)
class Size:
    """Of one text."""

    characters: int
    bytes: int
    tokens: Tokens


def measure(text: str, count: TokenCounter) -> Size:
    """How much a text is."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    if len(text) <= COUNTED:
        return Size(len(text), size, count(text))
    sample = count(text[:COUNTED])
    return Size(len(text), size, Tokens(sample.number * len(text) // COUNTED, sample.encoding, estimated=True))


def measure_pieces(text: str, pieces: Sequence[Sequence[Any]], count: TokenCounter) -> Size:
    """How much pieces of a text are, each given by where it begins and ends: taken to be like its beginning."""
    characters = sum(end - start for start, end, *_ in pieces)
    sample = measure(text[:COUNTED], count)
    if not sample.characters:
        return sample
    by = characters / sample.characters
    tokens = Tokens(round(sample.tokens.number * by), sample.tokens.encoding, estimated=True)
    return Size(characters, round(sample.bytes * by), tokens)


def as_printed(name: str, value: Any) -> str:
    """What `print` shows of the result of a host function."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if name == "grep":
        return str(make_hits(value))
    if name == "list_dir":
        return str(make_listing(value))
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - an object of the user's tool; the wall will say that it cannot pass
        return ""
