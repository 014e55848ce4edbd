"""The line between a host and its worker: JSON, one message a line, with descriptors. No guest ever writes here."""

from __future__ import annotations

import json
import os
import select
import socket
from collections import deque
from typing import Any

MOST_DESCRIPTORS = 64
_CHUNK = 65536


class ControlLine:
    """One end of the line. A message names how many descriptors came with it."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._text = b""
        self._batches: deque[list[int]] = deque()  # the system never puts those of two messages together

    def fileno(self) -> int:
        return self._line.fileno()

    @property
    def ended(self) -> bool:
        """Whether the other end is gone, for one that never sends."""
        return self.wait_for_end(0)

    def wait_for_end(self, seconds: float) -> bool:
        """Wait until the other end, which never sends, is gone; whether it is."""
        if self._line.fileno() < 0:
            return True
        poll = select.poll()
        poll.register(self._line, select.POLLIN)
        return bool(poll.poll(max(0.0, seconds) * 1000))

    def send(self, message: dict[str, Any], descriptors: list[int] | tuple[int, ...] = ()) -> None:
        """Send one message whole."""
        data = json.dumps({**message, "descriptors": len(descriptors)}).encode() + b"\n"
        sent = socket.send_fds(self._line, [data], list(descriptors)) if descriptors else self._line.send(data)
        if sent < len(data):
            self._line.sendall(data[sent:])

    def receive(self) -> tuple[dict[str, Any], list[int]] | None:
        """The next message, and its descriptors; None when the other end is gone.

        Where this process may have no more descriptors, none come, and those that did are closed: it is for the
        receiver to refuse the message.
        """
        while (found := self.received()) is None:
            try:
                data, descriptors, flags, _ = socket.recv_fds(self._line, _CHUNK, MOST_DESCRIPTORS)
            except ConnectionError:
                return None
            if descriptors or flags & socket.MSG_CTRUNC:
                self._batches.append(descriptors)
            if not data:
                return None
            self._text += data
        return found

    def received(self) -> tuple[dict[str, Any], list[int]] | None:
        """A message that came together with another; None where there is none."""
        line, end, rest = self._text.partition(b"\n")
        if not end:
            return None
        self._text = rest
        message: dict[str, Any] = json.loads(line)
        count = message.pop("descriptors")
        taken = self._batches.popleft() if count and self._batches else []
        if len(taken) != count:
            for descriptor in taken:
                os.close(descriptor)
            taken = []
        return message, taken

    def close(self) -> None:
        self._line.close()
