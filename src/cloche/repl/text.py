"""A text of any size, looked at by byte, by character and by line, without a second copy of it.

Kept as UTF-8. A character is a byte that begins one and those that continue it: for valid UTF-8, and for lone
surrogates, that is what Python counts. A line ends with LF; a CR before it is not shown.
"""

from __future__ import annotations

import mmap
import threading
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

Data: TypeAlias = "bytes | mmap.mmap"

BLOCK = 1 << 16
_MOST_COPIED = 1 << 20
_CONTINUING = bytes(range(0x80, 0xC0))
_CUT = "…"
# Of one line, where lines are shown.
WIDTH = 400


CutOut: TypeAlias = Callable[[str, int, int], str]
"""What gives a part of a text."""


def slice_text(text: str, start: int, stop: int) -> str:
    """`text[start:stop]`."""
    return text[start:stop]


class Text:
    """One text, and what is found out about it on the way: how many lines and characters come before each block."""

    def __init__(self, data: str | Data) -> None:
        self.data: Data = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
        self.size = len(self.data)
        # Before each block that was looked at so far.
        self._lines = [0]
        self._characters = [0]
        self._has_crlf: bool | None = None
        self._is_ascii: bool | None = None
        # Searches of one text may run side by side.
        self._looking = threading.Lock()

    @classmethod
    def map_file(cls, path: str | Path) -> Text:
        """The text of a file, mapped and not read.

        Only for files that nobody else can write: when a mapped file is cut short, the process that looks at it ends.
        """
        with open(path, "rb") as file:
            if file.seek(0, 2) == 0:
                return cls(b"")
            return cls(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

    @property
    def character_count(self) -> int:
        """How many characters it has."""
        return self.character_at(self.size)

    @property
    def line_count(self) -> int:
        """How many lines it has; what stands behind the last line end counts if there is anything."""
        ends = self._newlines_before(self.size)
        return ends + (self.size > 0 and self.data[self.size - 1] != 0x0A)

    @property
    def is_ascii(self) -> bool:
        """Whether it has none but ASCII characters."""
        if self._is_ascii is None:
            blocks = range(0, self.size, _MOST_COPIED)
            whole = isinstance(self.data, bytes) and self.data.isascii()
            self._is_ascii = whole or all(self.data[at : at + _MOST_COPIED].isascii() for at in blocks)
        return self._is_ascii

    @property
    def has_crlf(self) -> bool:
        """Whether any line ends in CR LF."""
        if self._has_crlf is None:
            self._has_crlf = self.data.find(b"\r\n") >= 0
        return self._has_crlf

    # -- places --------------------------------------------------------------------------------

    def line_at(self, offset: int) -> int:
        """The number of the line, from 1, in which a byte stands."""
        return self._newlines_before(offset) + 1

    def character_at(self, offset: int) -> int:
        """How many characters come before a byte."""
        block = min(offset, self.size) // BLOCK
        self._look_until(block)
        return self._characters[block] + _count_characters(self.data[block * BLOCK : offset])

    def byte_at(self, character: int) -> int:
        """Where a character begins; behind the last one, the end."""
        while self._characters[-1] <= character and len(self._characters) * BLOCK <= self.size:
            self._look_until(len(self._characters))
        block = bisect_right(self._characters, character) - 1
        chunk = self.data[block * BLOCK : (block + 1) * BLOCK]
        missing = character - self._characters[block]
        if chunk.isascii():
            return min(block * BLOCK + missing, self.size)
        return block * BLOCK + _skip_characters(chunk, missing)

    def line_start(self, number: int) -> int:
        """Where the line with this number, from 1, begins; for one behind the last, the end."""
        before = number - 1
        if before <= 0:
            return 0
        while self._lines[-1] < before and len(self._characters) * BLOCK <= self.size:
            self._look_until(len(self._characters))
        # The last block before which there are fewer line ends than that: the wanted one is in it.
        block = max(bisect_right(self._lines, before - 1) - 1, 0)
        position = block * BLOCK
        for _ in range(before - self._lines[block]):
            position = self.data.find(b"\n", position) + 1
            if position == 0:
                return self.size
        return position

    def line_bounds(self, offset: int) -> tuple[int, int]:
        """Where the line around a byte begins, and where it ends, without its line end."""
        start = self.data.rfind(b"\n", 0, offset) + 1
        end = self.data.find(b"\n", offset)
        return start, self.size if end < 0 else end

    # -- pieces --------------------------------------------------------------------------------

    def slice(self, start: int, stop: int) -> str:
        """The characters from `start` up to `stop`."""
        return decode(self.data[self.byte_at(start) : self.byte_at(stop)]) if start < stop else ""

    def line(self, number: int) -> str:
        """One line, from 1, without its end."""
        return self.lines(number, number)

    def lines(self, first: int, last: int) -> str:
        """The lines from `first` to `last`, both included, without the last one's end."""
        if last < max(first, 1):
            return ""
        piece = self.data[self.line_start(first) : self.line_start(last + 1)]
        if piece.endswith(b"\n"):
            piece = piece[:-1]
        return decode(piece.removesuffix(b"\r"))

    def shown(
        self,
        start: int,
        end: int,
        around: tuple[int, int] | None = None,
        width: int = WIDTH,
        cut_out: CutOut = slice_text,
    ) -> str:
        """The bytes from `start` to `end` as text of at most about `width` characters, cut around a part of them."""
        if end - start <= width:
            return decode(self.data[start:end].removesuffix(b"\r"))
        middle = around[0] if around is not None else start
        # As many bytes as the characters may need; what is too much is cut when they are known.
        left = self._boundary(max(start, middle - 4 * width))
        right = self._boundary(min(end, middle + 4 * width))
        before = decode(self.data[left:middle])
        behind = decode(self.data[middle:right].removesuffix(b"\r"))
        kept = min(len(before), max(width // 4, width - len(behind)))
        shown = cut_out(before + behind, len(before) - kept, len(before) - kept + width)
        head = _CUT if left > start or kept < len(before) else ""
        tail = _CUT if right < end or len(behind) > width - kept else ""
        return f"{head}{shown}{tail}"

    # -- the index -----------------------------------------------------------------------------

    def _newlines_before(self, offset: int) -> int:
        block = min(offset, self.size) // BLOCK
        self._look_until(block)
        return self._lines[block] + self.data[block * BLOCK : offset].count(b"\n")

    def _look_until(self, block: int) -> None:
        """Find out what comes before `block`."""
        if len(self._characters) > block:
            return
        with self._looking:
            for number in range(len(self._characters) - 1, block):
                chunk = self.data[number * BLOCK : (number + 1) * BLOCK]
                self._lines.append(self._lines[-1] + chunk.count(b"\n"))
                self._characters.append(self._characters[-1] + _count_characters(chunk))

    def _boundary(self, offset: int) -> int:
        """The next place from `offset` on where a character begins."""
        for place in range(offset, min(offset + 4, self.size)):
            if self.data[place] & 0xC0 != 0x80:
                return place
        return min(offset, self.size)


def decode(data: bytes) -> str:
    """UTF-8 to text, lone surrogates included; what is neither becomes U+FFFD."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace")


def _count_characters(chunk: bytes) -> int:
    return len(chunk) if chunk.isascii() else len(chunk.translate(None, _CONTINUING))


def _skip_characters(chunk: bytes, count: int) -> int:
    """How many bytes the first `count` characters of a chunk take."""
    low, high = 0, len(chunk)
    # The smallest place before which there are `count` characters and at which one begins.
    while low < high:
        middle = (low + high) // 2
        if _count_characters(chunk[: middle + 1]) > count:
            high = middle
        else:
            low = middle + 1
    return low
