"""How a client reaches the daemon: a Unix socket, which also carries descriptors, or a pipe of Windows."""

from __future__ import annotations

import select
import socket
import sys
from array import array
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from cloche.backends.daemon.places import Places

MAX_DESCRIPTORS = 16
_ROOM = socket.CMSG_SPACE(MAX_DESCRIPTORS * array("i").itemsize) if hasattr(socket, "CMSG_SPACE") else 0
_CHUNK = 1 << 16
SEND_PATIENCE = 30.0
"""Seconds in which the daemon takes what it is sent, however little patience there was to reach it."""


class Line(Protocol):
    """A connection that is up. What goes wrong is an `OSError`."""

    def send(self, data: bytes) -> None:
        """All of it."""

    def receive(self, timeout: float) -> tuple[bytes, list[int]]:
        """What has come, with descriptors; nothing at the end. Raises `TimeoutError` when nothing comes in time."""

    def close(self) -> None:
        """Hang up."""


class SocketLine:
    """Over a Unix socket."""

    def __init__(self, path: str, timeout: float) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.settimeout(timeout)
            self._socket.connect(path)
            self._socket.settimeout(SEND_PATIENCE)
        except OSError:
            self._socket.close()
            raise

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self, timeout: float) -> tuple[bytes, list[int]]:
        poll = select.poll()
        poll.register(self._socket.fileno(), select.POLLIN)
        if timeout <= 0 or not poll.poll(timeout * 1000):
            raise TimeoutError("it does not answer")
        data, rights, _, _ = self._socket.recvmsg(_CHUNK, _ROOM, socket.MSG_CMSG_CLOEXEC)
        found: list[int] = []
        for _, _, payload in rights:
            numbers = array("i")
            numbers.frombytes(payload[: len(payload) - len(payload) % numbers.itemsize])
            found += numbers
        return data, found

    def close(self) -> None:
        self._socket.close()


class PipeLine:
    """Over a named pipe of Windows. Untested: nobody has run it there."""

    def __init__(self, name: str) -> None:
        from multiprocessing.connection import Client

        self._pipe: Any = Client(name, family="AF_PIPE")

    def send(self, data: bytes) -> None:
        self._pipe.send_bytes(data)

    def receive(self, timeout: float) -> tuple[bytes, list[int]]:
        if timeout <= 0 or not self._pipe.poll(timeout):
            raise TimeoutError("it does not answer")
        try:
            return self._pipe.recv_bytes(), []
        except EOFError:
            return b"", []

    def close(self) -> None:
        self._pipe.close()


def connect(places: Places, timeout: float, platform: str = sys.platform) -> Line:
    """To the daemon of this platform."""
    address = str(places.address(platform))
    return PipeLine(address) if platform == "win32" else SocketLine(address, timeout)
