"""Text as it was before it was written into a string: escaped quotes, slashes and characters, with the way back.

What a program prints is often a text inside a text: a list of lines, a JSON document in a log line, a page of HTML.
Secrets are looked for in the plain form, and masked where they stand in the written one.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Whether a place is written so is decided by what follows it, within 80 characters: a text may be cut before any place.
# Line ends stay as they are, since \n may also be a backslash before a word; the patterns of secrets know both.
_ESCAPE = re.compile(
    r"""[\\&](?:(?<=\\)\\{0,15}+(?:(?P<sign>["'/])|u00(?P<four>[2-7][0-9a-fA-F])|x(?P<two>[2-7][0-9a-fA-F]))"""
    r"""|(?<=&)(?P<entity>quot|apos|amp|lt|gt|\#0?3[49]|\#[xX]2[27]);)"""
)
_WIDE_SIGN = re.compile(r"(?<=[ \t][ \t])[:=]")
_WIDEST = 64


class PlainText:
    """The plain form of a written text. `written_index` leads from a place in one to that in the other."""

    def __init__(self, written: str) -> None:
        self.written = written
        self.text = written
        self._places: list[int] = []
        """Behind each character that was written as several, in the plain text."""
        self._saved: list[int] = [0]
        """How many characters shorter the plain text is before each such place."""
        found = [*_escapes(written), *_wide_blanks(written)]
        if found:
            self._translate(sorted(found))

    def _translate(self, found: list[tuple[int, int, str]]) -> None:
        parts: list[str] = []
        saved: list[int] = []
        last = length = 0
        for start, end, meant in found:
            parts += [self.written[last:start], meant]
            length += start - last + 1
            self._places.append(length)
            saved.append(end - start - 1)
            last = end
        self.text = "".join([*parts, self.written[last:]])
        self._saved = [0, *accumulate(saved)]

    def written_index(self, plain: int) -> int:
        """Where the character at `plain` begins in the written text."""
        return plain + self._saved[bisect_right(self._places, plain)] if self._places else plain


def plain_text(written: str) -> str:
    """The plain form alone."""
    return PlainText(written).text


def _escapes(written: str) -> Iterator[tuple[int, int, str]]:
    """Characters that are written as several: where each begins and ends, and which it is."""
    if "\\" in written or "&" in written:
        for match in _ESCAPE.finditer(written):
            yield match.start(), match.end(), _meant(match)


def _meant(match: re.Match[str]) -> str:
    kind = match.lastgroup or ""
    if kind == "sign":
        return match["sign"]
    return html.unescape(match[0]) if kind == "entity" else chr(int(match[kind], 16))


def _wide_blanks(written: str) -> Iterator[tuple[int, int, str]]:
    """Several blanks before a sign, which mean one."""
    for match in _WIDE_SIGN.finditer(written):
        end = match.start()
        start = max(end - _WIDEST, 0)
        yield start + len(written[start:end].rstrip(" \t")), end, " "
