"""The delimited framing: JSON between two marker lines.

A marker counts only as a whole line, and no line of a JSON text can read like one: inside a string every line end is
escaped, and outside of strings no JSON begins with ``>``. So whatever the data holds, frames are told apart.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator

REQUEST = (b">>> REQUEST_START <<<", b">>> REQUEST_END <<<")
RESPONSE = (b">>> RESPONSE_START <<<", b">>> RESPONSE_END <<<")
READY = b">>> REPL_READY <<<"
_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
CUT, CUT_JSON = "\0cut", b'"\\u0000cut"'
STATE_NAMES = (b',"state":"', b', "state": "')
LONGEST_LINE = 4096
"""Outside of frames. What is longer is noise, and forgotten as it comes."""
PIECE = 4096
"""Pieces are joined up to this size: one that is a byte long takes as much memory as forty bytes."""


class FrameTooLarge(ValueError):
    """More than was allowed for one frame."""


def enclose(markers: tuple[bytes, bytes], *texts: bytes | str) -> list[bytes]:
    """The pieces of one frame, to be written in this order. Together the texts are one line of ASCII."""
    pieces = [text if isinstance(text, bytes) else text.encode("ascii") for text in texts]
    return [markers[0] + b"\n", *pieces, b"\n" + markers[1] + b"\n"]


def is_base64(*pieces: bytes | bytearray) -> bool:
    """Whether these bytes, one after the other, stand in JSON as they are: nothing in them needs an escape."""
    size, padded = sum(map(len, pieces)), 0
    for piece in pieces:
        if piece.translate(None, _ALPHABET):
            return False
        padding = piece.find(b"=") if not padded else 0
        padded += len(piece) - padding if padding >= 0 else 0
    return size % 4 == 0 and padded <= 2


def cut_out_state(frame: list[bytes]) -> tuple[bytes, list[bytes] | None]:
    """(the JSON with `CUT` for its state, the state) where that is large, and of characters that are never escaped.

    Between unescaped quotes a name is a name: inside of a string, no quote follows a comma or a space. So a state of
    a hundred megabytes is neither copied nor looked at by a parser. The caller makes sure that the name was one of
    the outermost object.
    """
    for name in STATE_NAMES if len(frame) > 1 else ():
        start = frame[0].find(name) + len(name)
        last = next((number for number in range(1, len(frame)) if b'"' in frame[number]), 0)
        if start >= len(name) and last:
            end = frame[last].index(b'"')
            state = [frame[0][start:], *frame[1:last], frame[last][:end]]
            if is_base64(*state):
                return b"".join([frame[0][: start - 1], CUT_JSON, frame[last][end + 1 :], *frame[last + 1 :]]), state
    return b"".join(frame), None


class DelimitedReader:
    """Cuts a stream into frames and the lines between them. Each byte is looked at once."""

    def __init__(self, markers: tuple[bytes, bytes], limit: int | None = None) -> None:
        self._start, self._end = markers
        self._limit = limit
        self._parts: list[bytes] = []  # of a line that has not ended
        self._frame: list[bytes] | None = None  # what has come of a frame that has not ended
        self._size = 0
        self._noise = False  # the line was too long to be anything

    @property
    def inside(self) -> bool:
        """Whether a frame has begun."""
        return self._frame is not None

    def feed(self, chunk: bytes) -> Iterator[tuple[bool, list[bytes]]]:
        """(whether it is a frame, its bytes in pieces) of each frame, and each line outside, that `chunk` completes."""
        start = 0
        while True:
            end = chunk.find(b"\n", start)
            if end < 0:
                if start < len(chunk):
                    self._keep(chunk[start:])
                return
            self._keep(chunk[start:end])
            self._size += 1
            start = end + 1
            if self._noise:
                self._noise, self._size = False, 0
                continue
            parts, self._parts = self._parts, []
            found = self._take(parts)
            if found is not None:
                yield found

    def _take(self, line: list[bytes]) -> tuple[bool, list[bytes]] | None:
        word = b"".join(line).strip() if sum(map(len, line)) <= LONGEST_LINE else b""
        if word == self._start:  # also in an open frame: its writer began again
            self._frame, self._size = [], 0
            return None
        if self._frame is None:
            self._size = 0
            return (False, [word]) if word else None
        if word == self._end:
            frame, self._frame, self._size = self._frame, None, 0
            return True, frame
        if self._frame:
            _append(self._frame, b"\n")
        for part in line:
            _append(self._frame, part)
        return None

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._limit is not None and self._frame is not None and self._size > self._limit:
            raise FrameTooLarge("a frame of more than %d bytes" % self._limit)
        if self._frame is None and self._size > LONGEST_LINE:
            self._parts, self._noise = [], True
        else:
            _append(self._parts, part)


def _append(pieces: list[bytes], part: bytes) -> None:
    if pieces and len(pieces[-1]) + len(part) <= PIECE:
        pieces[-1] += part
    else:
        pieces.append(part)
