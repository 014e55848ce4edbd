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
STATE_NAMES = (b',"state":"', b', "state": "')
LARGE = 1 << 16
LONGEST_LINE = 4096
"""Outside of frames. What is longer is noise, and forgotten as it comes."""


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


def cut_out_state(frame: bytes) -> tuple[bytes, bytes | None]:
    """(the JSON with null for its state, the state) where that is large, and of characters that are never escaped.

    Between unescaped quotes a name is a name: inside of a string, no quote follows a comma or a space. So a state of
    a hundred megabytes need not be copied by a parser.
    """
    if len(frame) < LARGE:
        return frame, None
    for name in STATE_NAMES:
        start = frame.find(name)
        if start >= 0:
            start += len(name)
            end = frame.find(b'"', start)
            state = frame[start:end]
            if end > start and is_base64(state):
                return frame[: start - 1] + b"null" + frame[end + 1 :], state
    return frame, None


class DelimitedReader:
    """Cuts a stream into frames and the lines between them. Each byte is looked at once."""

    def __init__(self, markers: tuple[bytes, bytes], limit: int | None = None) -> None:
        self._start, self._end = markers
        self._limit = limit
        self._parts: list[bytes] = []  # of a line that has not ended
        self._lines: list[bytes] | None = None  # of a frame that has not ended
        self._size = 0
        self._noise = False  # the line was too long to be anything

    @property
    def inside(self) -> bool:
        """Whether a frame has begun."""
        return self._lines is not None

    def feed(self, chunk: bytes) -> Iterator[tuple[bool, bytes]]:
        """(whether it is a frame, its bytes) of each frame and each line outside of frames that `chunk` completes."""
        start = 0
        while True:
            end = chunk.find(b"\n", start)
            if end < 0:
                if start < len(chunk):
                    self._keep(chunk[start:])
                return
            line = chunk[start:end]
            start = end + 1
            if self._parts or self._noise:
                self._keep(line)
                line = b"".join(self._parts)
                self._parts = []
            else:
                self._count(len(line))
            if self._noise:
                self._noise, self._size = False, 0
                continue
            found = self._take(line)
            if found is not None:
                yield found

    def _take(self, line: bytes) -> tuple[bool, bytes] | None:
        word = line.strip() if len(line) <= LONGEST_LINE else b""
        if word == self._start:  # also in an open frame: its writer began again
            self._lines, self._size = [], 0
            return None
        if self._lines is None:
            self._size = 0
            return (False, word) if word else None
        if word == self._end:
            lines, self._lines, self._size = self._lines, None, 0
            return True, lines[0] if len(lines) == 1 else b"\n".join(lines)
        self._lines.append(line)
        return None

    def _keep(self, part: bytes) -> None:
        self._count(len(part))
        if self._lines is None and self._size > LONGEST_LINE:
            self._parts, self._noise = [], True
        else:
            self._parts.append(part)

    def _count(self, size: int) -> None:
        self._size += size + 1
        if self._limit is not None and self._lines is not None and self._size > self._limit:
            raise FrameTooLarge("a frame of more than %d bytes" % self._limit)
