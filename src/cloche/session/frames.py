"""Frames as the host sees them: one JSON object a line, optional raw bytes after it. What comes in is hostile."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from cloche.errors import ProtocolError
from cloche.session.replies import word

if TYPE_CHECKING:
    from collections.abc import Iterator

Frame = tuple[dict[str, Any], bytes | bytearray | None]

_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
_decode = json.JSONDecoder().raw_decode


def encode_frame(message: dict[str, Any]) -> bytes:
    """One line of ASCII."""
    return (_encode(message) + "\n").encode("ascii")


class FrameReader:
    """Cuts a byte stream into frames, within bounds."""

    def __init__(self, max_frame: int, max_attachment: int, who: str = "the guest") -> None:
        self._who = who
        self._max_frame = max_frame
        self.max_attachment = max_attachment
        self._parts: list[bytes] = []
        self._size = 0
        self._open: tuple[dict[str, Any], bytearray, int] | None = None

    @property
    def held(self) -> int:
        """Bytes of a frame whose end has not come yet."""
        return self._size + (0 if self._open is None else len(self._open[1]))

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Frames that `data` completes. Raises `ProtocolError` for what is none."""
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
                self._keep(data[start:])
                return
            line = data[start:end]
            if self._parts:
                self._keep(line)
                line = b"".join(self._parts)
                self._parts, self._size = [], 0
            elif len(line) > self._max_frame:
                self._refuse_size(len(line))
            start = end + 1
            message = _parse(line, self._who)
            announced = message.get("attachment")
            if announced is None:
                yield message, None
            elif type(announced) is not int or not 0 <= announced <= self.max_attachment:
                raise ProtocolError(f"{self._who} announced an attachment that is not allowed", cause=word(announced))
            elif announced == 0:
                yield message, b""
            else:
                self._open = (message, bytearray(), announced)

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._max_frame:
            self._refuse_size(self._size)
        self._parts.append(part)

    def _refuse_size(self, size: int) -> None:
        raise ProtocolError(
            f"{self._who} sent a frame that is too large", cause=f"over {min(size, self._max_frame)} bytes"
        )


def _parse(line: bytes, who: str) -> dict[str, Any]:
    try:
        text = line.decode("utf-8")
        message, end = _decode(text)
        if end != len(text) and text[end:].strip():
            raise ValueError(f"text after the object at {end}")
    except (ValueError, RecursionError) as exc:
        raise ProtocolError(f"{who} sent a line that is not JSON", cause=str(exc)[:200]) from None
    if type(message) is not dict or message.get("jsonrpc") != "2.0":
        raise ProtocolError(f"{who} sent a frame that is not JSON-RPC 2.0")
    return message
