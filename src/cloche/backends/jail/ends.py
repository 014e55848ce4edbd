"""What connects a worker with us: both ends of its wire, its output, and the line that brings it descriptors."""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import time
from contextlib import suppress

from cloche.backends.native import capture_pipe
from cloche.errors import BranchError
from cloche.session.channel import Exit
from cloche.session.frames import encode_frame
from cloche_guest.jail import messages

SOCKET_BUFFER = 1 << 20
_CREDENTIALS = struct.Struct("3i")
_SHORT = 1024
_LEAST_DEPTH = 3
"""Process namespaces of a worker, counted from ours: ours, the jail's, the seat's."""


class Ends:
    """Ours and theirs. Theirs are closed once they have been passed on."""

    def __init__(self) -> None:
        self.stdout = self.stderr = self._out = self._err = -1
        self.wire, self._their_wire = socket.socketpair()
        self.line, self._their_line = messages.pair()
        try:
            self.stdout, self._out = capture_pipe()
            self.stderr, self._err = capture_pipe()
        except OSError:
            self.close()
            raise
        for side in (self.wire, self._their_wire):
            side.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BUFFER)
        self.line.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.wire.setblocking(False)

    def theirs(self) -> list[int]:
        """In the order in which a worker expects them."""
        return [self._their_wire.fileno(), self._out, self._err, self._their_line.fileno()]

    def drop_theirs(self) -> None:
        """They have been passed on, or never will be."""
        self._their_wire.close()
        self._their_line.close()
        for descriptor in (self._out, self._err):
            if descriptor >= 0:
                os.close(descriptor)
        self._out = self._err = -1

    def close(self) -> None:
        """All of them."""
        self.drop_theirs()
        self.wire.close()
        self.line.close()
        for descriptor in (self.stdout, self.stderr):
            if descriptor >= 0:
                os.close(descriptor)
        self.stdout = self.stderr = -1

    def greet(self, patience: float) -> None:
        """Have a copy that has waited answer once: one that was killed a moment ago may still look alive."""
        heard, until = b"", time.monotonic() + patience
        with suppress(OSError):  # what cannot be written will not be answered either
            self.wire.send(encode_frame({"jsonrpc": "2.0", "id": 0, "method": "ping", "params": {}}))
        while not heard.endswith(b"\n") and len(heard) < _SHORT:
            if not readable(self.wire.fileno(), max(0.0, until - time.monotonic())):
                break
            try:
                heard += self.wire.recv(_SHORT) or b"\n"
            except OSError:
                break
        if not heard.startswith(b"{"):
            raise BranchError("the copy of the session has ended")

    def has_come(self, patience: float) -> bool:
        """Whether the copy has shown itself, or has ended, within so many seconds."""
        return readable(self.line.fileno(), patience)

    def identify(self, patience: float) -> int:
        """A handle of the copy that lives at the other end, by the system's word on who wrote to us.

        What it wrote does not matter. There is no room for descriptors: those that a guest may send are dropped.
        """
        if not readable(self.line.fileno(), patience):
            raise BranchError("the copy of the session did not come up in time")
        said, ancillary, _, _ = self.line.recvmsg(256, socket.CMSG_SPACE(_CREDENTIALS.size))
        for level, kind, data in ancillary:
            if said and level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
                pid, _, _ = _CREDENTIALS.unpack_from(data)
                return _handle_of(pid)
        raise BranchError("the copy of the session ended at once")


def _handle_of(pid: int) -> int:
    """A handle of a process of the jail that had this number a moment ago; nobody else can be meant by it."""
    try:
        handle = os.pidfd_open(pid)
    except OSError as exc:
        raise BranchError("the copy of the session ended at once", cause=os.strerror(exc.errno or 0)) from None
    fields: dict[str, str] = {}
    try:
        with open(f"/proc/{pid}/status") as status:
            fields = dict(line.split(":", 1) for line in status if ":" in line)
    except OSError:
        fields = {}
    inside = len(fields.get("NSpid", "").split()) >= _LEAST_DEPTH
    harmless = int(fields.get("CapEff", "1"), 16) == 0 and fields.get("Seccomp", "").strip() == "2"
    if not inside or not harmless or readable(handle, 0):
        os.close(handle)
        raise BranchError("the copy of the session is not what was asked for")
    return handle


def process_of(handle: int) -> int | None:
    """The process behind a handle, as we number it; None when it has ended and was taken off the list."""
    try:
        with open(f"/proc/self/fdinfo/{handle}") as lines:
            numbers = [int(line.split()[1]) for line in lines if line.startswith("Pid:")]
    except OSError:
        return None
    return numbers[0] if numbers and numbers[0] > 0 else None


def rank_victims(first: int, last: int) -> None:
    """When a session's memory is used up, who is to be ended: the process behind `first`, and what it starts from now
    on, before the one behind `last`, which is a copy of it. Where we are not root, the largest goes first."""
    for handle, score in ((first, "900"), (last, "0")):
        pid = process_of(handle)
        if pid is not None:
            with suppress(OSError), open(f"/proc/{pid}/oom_score_adj", "w") as adjustment:
                adjustment.write(score)


def read_exit(end: int, timeout: float) -> Exit | None:
    """How a worker ended, from the pipe on which that is told; None when it has not within `timeout`."""
    if not readable(end, timeout):
        return None
    text = os.read(end, 64)
    code = int(text) if text else -signal.SIGKILL  # who would have told us is gone too
    return Exit(signal=-code) if code < 0 else Exit(code=code)


def readable(descriptor: int, timeout: float) -> bool:
    """Whether there is something to read, or an end to see, within `timeout`."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(timeout * 1000))
