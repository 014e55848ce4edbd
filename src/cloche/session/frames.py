"""Frames as the host sees them: one JSON object a line, optional raw bytes after it. What comes in is hostile."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from cloche.errors import ProtocolError
from cloche.json_cost import decoded_cost
from cloche.session.replies import word
from cloche_guest.values import COST_PER_BYTE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Frame = tuple[dict[str, Any], bytes | bytearray | None]

UNWEIGHED = 1 << 16
"""Lines up to this size are decoded whatever they hold."""
SHORT = 1 << 10
"""Lines up to this size are not looked at to know what they cost: it takes longer than to decode them."""
COST_AT_MOST = 64
"""Bytes of memory for a byte of JSON."""

_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
_decode = json.JSONDecoder().raw_decode


def encode_frame(message: dict[str, Any]) -> bytes:
    """One line of ASCII."""
    return (_encode(message) + "\n").encode("ascii")


class FrameReader:
    """Cuts a byte stream into frames, within bounds.

    A line is decoded only when `admits` says that there is room for what it costs, which counts for lines longer than
    a few pages; until then it waits, and what comes after it too (`blocked`). One that costs more than `max_cost` bytes
    of memory is refused.
    """

    def __init__(
        self,
        max_frame: int,
        max_attachment: int,
        who: str = "the guest",
        *,
        max_cost: int | None = None,
        admits: Callable[[int, bytes | bytearray], bool] = lambda _cost, _line: True,
    ) -> None:
        self._who = who
        self._max_frame = max_frame
        self._max_cost = max_frame * COST_PER_BYTE if max_cost is None else max_cost
        self._admits = admits
        self.max_attachment = max_attachment
        self._line = bytearray()
        self._open: tuple[dict[str, Any], bytearray, int] | None = None
        self._waiting: tuple[bytes | bytearray, int | None] | None = None
        self._rest = b""
        self._last: bytes | bytearray = b""
        self._cost: int | None = None

    @property
    def held(self) -> int:
        """Bytes of frames whose end has not come yet, or that wait to be decoded."""
        return self.unread + (0 if self._open is None else len(self._open[1]))

    @property
    def unread(self) -> int:
        """The same without attachments, which only come when they were asked for."""
        return len(self._line) + len(self._rest) + (0 if self._waiting is None else len(self._waiting[0]))

    @property
    def blocked(self) -> bool:
        """A whole frame waits for room: feed nothing until there is some."""
        return self._waiting is not None

    @property
    def cost(self) -> int:
        """Bytes of memory that the frame takes which was given out last."""
        if self._cost is None:
            short = len(self._last) <= SHORT
            self._cost = len(self._last) * COST_AT_MOST if short else decoded_cost(self._last)
        return self._cost

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Frames that `data` completes. Raises `ProtocolError` for what is none."""
        if self._waiting is not None:
            self._rest += data
            line, cost = self._waiting
            if not self._admits(cost or 0, line):
                return
            self._waiting = None
            data, self._rest = self._rest, b""
            if (frame := self._finish(line, cost)) is not None:
                yield frame
        start, view = 0, memoryview(data)
        while start < len(data):
            if self._open is not None:
                message, body, size = self._open
                take = min(size - len(body), len(data) - start)
                body += view[start : start + take]
                start += take
                if len(body) == size:
                    self._open = None
                    yield message, body
                continue
            end = data.find(b"\n", start)
            if end < 0:
                self._keep(view[start:])
                return
            if self._line:
                self._keep(view[start:end])
                line, self._line = self._line, bytearray()
            else:
                line = data[start:end]
                if len(line) > self._max_frame:
                    self._refuse_size(len(line))
            start = end + 1
            weight = None if len(line) <= UNWEIGHED else self._weigh(line)
            if not self._admits(weight or 0, line):
                self._waiting, self._rest = (line, weight), data[start:]
                return
            if (frame := self._finish(line, weight)) is not None:
                yield frame

    def _weigh(self, line: bytes | bytearray) -> int:
        cost = decoded_cost(line, self._max_cost)
        if cost > self._max_cost:
            raise ProtocolError(
                f"{self._who} sent a frame that is too large when it is decoded",
                cause=f"{len(line)} bytes that take over {self._max_cost} bytes of memory",
            )
        return cost

    def _finish(self, line: bytes | bytearray, cost: int | None) -> Frame | None:
        """The frame of this line, unless raw bytes are still to come."""
        self._last, self._cost = (line if cost is None else b""), cost
        message = _parse(line, self._who, spent=cost is not None)
        announced = message.get("attachment")
        if announced is None:
            return message, None
        if type(announced) is not int or not 0 <= announced <= self.max_attachment:
            raise ProtocolError(f"{self._who} announced an attachment that is not allowed", cause=word(announced))
        if announced == 0:
            return message, b""
        self._open = (message, bytearray(), announced)
        return None

    def _keep(self, part: memoryview) -> None:
        size = len(self._line) + len(part)
        if size > self._max_frame:
            self._refuse_size(size)
        self._line += part

    def _refuse_size(self, size: int) -> None:
        raise ProtocolError(
            f"{self._who} sent a frame that is too large", cause=f"over {min(size, self._max_frame)} bytes"
        )


def _parse(line: bytes | bytearray, who: str, *, spent: bool) -> dict[str, Any]:
    """The object in a line. `spent`: a long line is let go of as soon as it has been read as text."""
    try:
        text = line.decode("utf-8")
        if spent and isinstance(line, bytearray):
            line.clear()
        message, end = _decode(text)
        if end != len(text) and text[end:].strip():
            raise ValueError(f"text after the object at {end}")
    except (ValueError, RecursionError) as exc:
        raise ProtocolError(f"{who} sent a line that is not JSON", cause=str(exc)[:200]) from None
    if type(message) is not dict or message.get("jsonrpc") != "2.0":
        raise ProtocolError(f"{who} sent a frame that is not JSON-RPC 2.0")
    return message
