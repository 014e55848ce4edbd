"""Texts as they lie in memory: how wide their characters are, and their bytes in pieces."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PIECE = 1 << 18
_HEADER = sys.getsizeof("\u0100") - 4  # of one character of two bytes, and its terminator
_ENCODINGS = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}
_HIGHEST = {1: 0xFF, 2: 0xFFFF, 4: 0x10FFFF}


@dataclass(frozen=True, slots=True)
class Layout:
    """Of one text: enough to make another that is the same, byte by byte."""

    length: int
    width: int
    highest: int
    """No character is above this. The interpreter keeps texts in the narrowest form, and so must whoever makes one."""

    @property
    def size(self) -> int:
        """In bytes."""
        return self.length * self.width

    @classmethod
    def of(cls, text: str) -> Layout:
        """Found without looking at each character, where that can be avoided."""
        if text.isascii():
            return cls(len(text), 1, 0x7F)
        width = _width(text)
        return cls(len(text), width, _HIGHEST[width])


def pieces(text: str, layout: Layout) -> Iterator[bytes]:
    """The bytes of all characters."""
    encoding = _ENCODINGS[layout.width]
    for start in range(0, len(text), PIECE):
        yield text[start : start + PIECE].encode(encoding, "surrogatepass")


def _width(text: str) -> int:
    """Bytes of each character, of a text that is not all ASCII.

    It cannot be wider than its size allows. It may be narrower, since the interpreter may have kept another form of it
    beside; so somewhere there must be a character that needs that width, and mostly it is soon found.
    """
    most = (sys.getsizeof(text) - _HEADER) // (len(text) + 1)
    if most >= 4 and any(_needs_four(text[start : start + PIECE]) for start in range(0, len(text), PIECE)):
        return 4
    if most >= 2 and any(_needs_two(text[start : start + PIECE]) for start in range(0, len(text), PIECE)):
        return 2
    return 1


def _needs_four(piece: str) -> bool:
    """UTF-16 takes two units for such a character."""
    return len(piece.encode("utf-16-le", "surrogatepass")) > 2 * len(piece)


def _needs_two(piece: str) -> bool:
    try:
        piece.encode("latin-1")
    except UnicodeEncodeError:
        return True
    return False
