"""What comes over a session's wire: requests between calls, replies in the middle of one. The host is trusted."""

from __future__ import annotations

import json
import os
import select
import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket

_REQUEST = b'{"jsonrpc":"2.0","method":'
_ATTACHMENT = b'"attachment":'
_CHUNK = 1 << 18
SPIN = 0.0001
"""Seconds of looking before sleeping: to be woken costs as much as a small cell takes."""
_yield = getattr(os, "sched_yield", int)


class FrameSource:
    """Frames in the order in which they came; a thread at a time."""

    def __init__(self, wire: socket.socket) -> None:
        self._wire = wire
        self._poll = select.poll()
        self._poll.register(wire, select.POLLIN)
        self._unread = b""
        self._requests: deque[tuple[bytes, bytearray | None]] = deque()
        self._started = False

    def next_frame(self) -> tuple[bytes, bytearray | None] | None:
        """Whatever comes next, and its attachment. None at the end."""
        line = self._line()
        if line is None:
            return None
        return self._requests.popleft() if self._take_request(line) else (line, None)

    def next_request(self) -> tuple[bytes, bytearray | None] | None:
        """A request and its attachment. Replies are to calls that nobody waits for any more. None at the end."""
        while not self._requests:
            line = self._line()
            if line is None:
                return None
            self._take_request(line)
        self._started = True
        return self._requests.popleft()

    def next_reply(self) -> bytes | None:
        """A reply; a request that comes first is kept."""
        while (line := self._line()) is not None:
            if not self._take_request(line):
                return line
        return None

    def _take_request(self, line: bytes) -> bool:
        if not line.startswith(_REQUEST):
            return False
        body = None
        if _ATTACHMENT in line:
            size = json.loads(line).get("attachment")
            if size is not None:
                body = self._body(size)
        self._requests.append((line, body))
        return True

    def _line(self) -> bytes | None:
        parts = [self._unread]
        while (end := parts[-1].find(b"\n")) < 0:
            chunk = self._read()
            if not chunk:
                return None
            parts.append(chunk)
        parts[-1], self._unread = parts[-1][:end], parts[-1][end + 1 :]
        return b"".join(parts)

    def _body(self, size: int) -> bytearray:
        body = bytearray(self._unread[:size])
        self._unread = self._unread[size:]
        while len(body) < size:
            chunk = self._wire.recv(min(_CHUNK, size - len(body)))
            if not chunk:
                raise OSError("the host is gone")
            body += chunk
        return body

    def _read(self) -> bytes:
        if self._started:
            end = time.perf_counter() + SPIN
            while not self._poll.poll(0) and time.perf_counter() < end:
                _yield()  # the host may be waiting for this very processor
        try:
            return self._wire.recv(_CHUNK)
        except OSError:
            return b""
