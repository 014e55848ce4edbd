"""The line between a host and its worker: JSON, one message a line, with descriptors. No guest ever writes here."""

from __future__ import annotations

import json
import socket
from typing import Any

MOST_DESCRIPTORS = 64
_CHUNK = 65536


class ControlLine:
    """One end of the line. A message names how many descriptors came with it; they arrive in order."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._text = b""
        self._descriptors: list[int] = []

    def fileno(self) -> int:
        return self._line.fileno()

    def send(self, message: dict[str, Any], descriptors: list[int] | tuple[int, ...] = ()) -> None:
        """Send one message whole."""
        data = json.dumps({**message, "descriptors": len(descriptors)}).encode() + b"\n"
        sent = socket.send_fds(self._line, [data], list(descriptors)) if descriptors else self._line.send(data)
        if sent < len(data):
            self._line.sendall(data[sent:])

    def receive(self) -> tuple[dict[str, Any], list[int]] | None:
        """The next message, and its descriptors; None when the other end is gone."""
        while b"\n" not in self._text:
            try:
                data, descriptors, _, _ = socket.recv_fds(self._line, _CHUNK, MOST_DESCRIPTORS)
            except ConnectionError:
                return None
            self._descriptors += descriptors
            if not data:
                return None
            self._text += data
        line, _, self._text = self._text.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        count = message.pop("descriptors")
        taken, self._descriptors = self._descriptors[:count], self._descriptors[count:]
        return message, taken

    def close(self) -> None:
        self._line.close()
