"""What connects a worker with us: both ends of its wire, its output, and the line that brings it descriptors."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import struct
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from cloche.backends.native import capture_pipe
from cloche.errors import BranchError
from cloche.session.channel import Exit
from cloche.session.frames import encode_frame
from cloche_guest.jail import messages

if TYPE_CHECKING:
    from collections.abc import Callable

SOCKET_BUFFER = 1 << 20
_CREDENTIALS = struct.Struct("3i")
_SHORT = 1024
_NS_GET_PARENT = 0xB702
"""Those that a seat has of its own, in the order in which they are entered."""


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

    def tell(self, message: dict[str, bool]) -> None:
        """Something for the worker, on the line that brings it descriptors."""
        with suppress(OSError):
            messages.send(self.line, message)

    def has_come(self, patience: float) -> bool:
        """Whether the copy has shown itself, or has ended, within so many seconds."""
        return readable(self.line.fileno(), patience)

    def identify(self, patience: float, is_there: Callable[[int], bool]) -> int:
        """A handle of the copy that lives at the other end, by the system's word on who wrote to us. `is_there` says of
        its process whether it is in the namespaces where it belongs, or raises OSError.

        What it wrote does not matter. There is no room for descriptors: those that a guest may send are dropped.
        """
        if not readable(self.line.fileno(), patience):
            raise BranchError("the copy of the session did not come up in time")
        said, ancillary, _, _ = self.line.recvmsg(256, socket.CMSG_SPACE(_CREDENTIALS.size))
        for level, kind, data in ancillary:
            if said and level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
                pid, _, _ = _CREDENTIALS.unpack_from(data)
                return _handle_of(pid, is_there)
        raise BranchError("the copy of the session ended at once")


def _place_of(pid: int) -> tuple[int, tuple[int, ...]]:
    """(the user namespace of a process; its process and network namespaces and the mount that is its root folder).
    Raises OSError.

    Not its mount namespace: a worker goes on in one of its own, to hide the mounts, with the root of its seat's.
    """
    users, processes, network = (os.stat(f"/proc/{pid}/ns/{name}").st_ino for name in ("user", "pid", "net"))
    root = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        status = os.fstat(root)
        with open(f"/proc/self/fdinfo/{root}") as lines:
            mount = next(int(line.split()[1]) for line in lines if line.startswith("mnt_id:"))
    finally:
        os.close(root)
    return users, (processes, network, mount, status.st_dev, status.st_ino)


def is_beside(pid: int, pid_one: int, *, below: bool) -> bool:
    """Whether a process is a worker in the seat of this PID 1, by its namespaces and its root folder. Raises OSError.

    In that of a branch (`below`) they share the user namespace, elsewhere the worker's lies below that of PID 1.
    """
    users, others = _place_of(pid)
    users_of_pid_one, expected = _place_of(pid_one)
    if not below:
        file = os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
        try:
            above = fcntl.ioctl(file, _NS_GET_PARENT)
        finally:
            os.close(file)
        users = os.fstat(above).st_ino
        os.close(above)
    return (users, others) == (users_of_pid_one, expected)


def _handle_of(pid: int, is_there: Callable[[int], bool]) -> int:
    """A handle of a process of the jail that had this number a moment ago; nobody else can be meant by it.

    The guest chooses which of its processes this is. So it is looked at: the seat that it is in, the rights and rules
    that it has, and that it shares no process group.
    """
    try:
        handle = os.pidfd_open(pid)
    except OSError as exc:
        raise BranchError("the copy of the session ended at once", cause=os.strerror(exc.errno or 0)) from None
    fields: dict[str, str] = {}
    try:
        with open(f"/proc/{pid}/status") as status:
            fields = dict(line.split(":", 1) for line in status if ":" in line)
        inside = is_there(pid)
    except OSError:
        fields, inside = {}, False
    apart = all(fields.get(name, "").split()[:1] == [str(pid)] for name in ("NSpgid", "NSsid"))
    harmless = all(int(fields.get(name, "1"), 16) == 0 for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"))
    ruled = (fields.get("Seccomp", "").strip(), fields.get("NoNewPrivs", "").strip()) == ("2", "1")
    if not (inside and apart and harmless and ruled) or readable(handle, 0):
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
