"""Templates: copies of the zygote that hold a context, and fork the sessions that start with it.

All of them share its memory. A template never runs guest code and never hears of a session more than its request: what
it holds came from the host, and nothing but that.
"""

from __future__ import annotations

import _socket
import posix as os

from cloche_guest.jail import messages, syscalls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PIECE = 1 << 20
QUEUE = 4 << 20
"""Bytes of requests that may wait while a template is still reading."""


def read_text(stream: int, length: int, width: int, highest: int) -> str:
    """The text of `length` characters that comes as it lies in memory, each `width` bytes wide, up to `highest`.

    It is read to where it stays: no second copy, no decoding, and pages that a fork need not copy one by one.
    """
    text, memory = syscalls.blank_text(length, width, highest)
    filled = 0
    while filled < len(memory):
        got = os.readv(stream, [memory[filled : filled + PIECE]])
        if not got:
            raise OSError(5, "the context ended early")
        filled += got
    return text


class Templates:
    """The zygote's side: a line to each, and who they are."""

    def __init__(self) -> None:
        self._lines: dict[int, _socket.socket] = {}
        self._processes: dict[int, tuple[int, int]] = {}  # pidfd -> pid and number

    def add(self, number: int, pid: int, line: _socket.socket) -> int:
        """A template was forked. Its handle, to be watched."""
        handle = syscalls.pidfd_open(pid)
        line.setsockopt(_socket.SOL_SOCKET, _socket.SO_SNDBUF, QUEUE)
        self._lines[number] = line
        self._processes[handle] = (pid, number)
        return handle

    def pass_on(self, request: dict[str, Any], descriptors: list[int]) -> str | None:
        """Give it a request; why not, where that fails."""
        line = self._lines.get(request["template"])
        if line is None:
            return "its template is gone"
        try:
            messages.send(line, request, descriptors)
        except OSError as exc:
            return "its template does not take requests: %s" % exc
        return None

    def drop(self, number: int) -> None:
        """It is not wanted any more; it ends when the sessions that it forked have ended."""
        line = self._lines.pop(number, None)
        if line is not None:
            line.close()

    def leave(self) -> None:
        """In a template: the others are the zygote's."""
        for line in self._lines.values():
            line.close()
        for handle in self._processes:
            os.close(handle)

    def __contains__(self, handle: int) -> bool:
        return handle in self._processes

    def reap(self, handle: int) -> int:
        """One has ended. Its number."""
        pid, number = self._processes.pop(handle)
        os.close(handle)
        os.waitpid(pid, 0)
        self.drop(number)
        return number
