"""Where clients come in: a socket of our own, one that a service manager holds for us, or a pipe of Windows.

A door gives streams. What a stream must be able to do is small, so that one kind can stand for another.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import sys
from abc import ABC, abstractmethod
from array import array
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import anyio
from anyio.abc import SocketAttribute, SocketListener

from cloche.errors import MachineError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping, Sequence

    from anyio.abc import UNIXSocketStream

BACKLOG = 1024
BREATH = 0.05
"""Seconds to wait when there is no descriptor left for the next client: one may be given back meanwhile."""
FIRST_PASSED = 3
"""The descriptor at which those begin that a service manager passes."""
_PASSING = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ECONNABORTED}


class Stream(Protocol):
    """A client's connection."""

    def send_now(self, item: bytes, fds: Sequence[int] = ()) -> int:
        """As much of it as goes at once, with all descriptors or with none; how many bytes went."""

    async def receive(self, max_bytes: int = 65536) -> bytes: ...
    async def send(self, item: bytes) -> None: ...
    async def send_fds(self, message: bytes, fds: Any) -> None: ...
    async def aclose(self) -> None: ...


class Door(ABC):
    """Lets clients in, one after the other."""

    @abstractmethod
    async def accept(self) -> Stream:
        """The next client. Raises `anyio.ClosedResourceError` when the door is closed."""

    @abstractmethod
    async def aclose(self) -> None:
        """Let nobody in any more."""


class SocketDoor(Door):
    """A Unix socket that listens."""

    def __init__(self, listener: SocketListener) -> None:
        self._listener = listener

    @classmethod
    async def make(cls, path: Path) -> SocketDoor:
        """At `path`, for its owner alone from the first moment."""
        before = os.umask(0o177)
        try:
            return cls(await anyio.create_unix_listener(path, mode=0o600, backlog=BACKLOG))
        finally:
            os.umask(before)

    @classmethod
    async def take(cls, passed: socket.socket) -> SocketDoor:
        """One that somebody made for us."""
        passed.setblocking(False)
        return cls(await SocketListener.from_socket(passed))

    async def accept(self) -> Stream:
        while True:
            try:
                return _SocketStream(await self._listener.accept())  # type: ignore[arg-type]  # a Unix socket's are such
            except anyio.BrokenResourceError as exc:
                if not isinstance(exc.__cause__, OSError) or exc.__cause__.errno not in _PASSING:
                    raise
                await anyio.sleep(BREATH)  # whoever waits at the door stays there

    async def aclose(self) -> None:
        await self._listener.aclose()


class _SocketStream:
    """A client at the other end of a Unix socket. What can be sent at once does not go through the event loop."""

    def __init__(self, stream: UNIXSocketStream) -> None:
        self._stream = stream
        self.raw = stream.extra(SocketAttribute.raw_socket)
        self.receive = stream.receive
        self.send = stream.send
        self.send_fds = stream.send_fds
        self.aclose = stream.aclose

    def send_now(self, item: bytes, fds: Sequence[int] = ()) -> int:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", fds))] if fds else []
        try:
            return self.raw.sendmsg([item], rights)
        except BlockingIOError:
            return 0
        except OSError as exc:
            raise anyio.BrokenResourceError from exc


class PipeDoor(Door):
    """A named pipe of Windows, by the standard library's own server for them. Untested: nobody has run it there."""

    def __init__(self) -> None:
        self._arrived_in, self._arrived = anyio.create_memory_object_stream[Stream](BACKLOG)
        self._servers: list[Any] = []

    @classmethod
    async def make(cls, name: str) -> PipeDoor:
        """The first to make a pipe of this name owns it: a second daemon is refused by the system."""
        import asyncio

        door = cls()
        loop: Any = asyncio.get_running_loop()

        def protocol() -> asyncio.StreamReaderProtocol:
            reader = asyncio.StreamReader()
            return asyncio.StreamReaderProtocol(reader, door._greet)

        door._servers = await loop.start_serving_pipe(protocol, name)
        return door

    def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self._arrived_in.send_nowait(_PipeStream(reader, writer))
        except (anyio.WouldBlock, anyio.BrokenResourceError, anyio.ClosedResourceError):
            writer.close()

    async def accept(self) -> Stream:
        try:
            return await self._arrived.receive()
        except anyio.EndOfStream:
            raise anyio.ClosedResourceError from None

    async def aclose(self) -> None:
        for server in self._servers:
            server.close()
        self._arrived_in.close()


class _PipeStream:
    """A client at the other end of a pipe; descriptors cannot go through it. Untested, as its door is."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send_now(self, item: bytes, fds: Sequence[int] = ()) -> int:
        return 0

    async def receive(self, max_bytes: int = 65536) -> bytes:
        data = await self._reader.read(max_bytes)
        if not data:
            raise anyio.EndOfStream
        return data

    async def send(self, item: bytes) -> None:
        try:
            self._writer.write(item)
            await self._writer.drain()
        except OSError as exc:
            raise anyio.BrokenResourceError from exc

    async def send_fds(self, message: bytes, fds: Any) -> None:
        raise MachineError("a session cannot be handed over through a pipe", remedy="use session.open")

    async def aclose(self) -> None:
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()


def passed_socket(environment: Mapping[str, str] = os.environ) -> socket.socket | None:
    """The socket that a service manager has opened for us (``LISTEN_FDS``, ``LISTEN_PID``), if there is one.

    The variables name the process that they are meant for, since children inherit them.
    """
    if environment.get("LISTEN_PID") != str(os.getpid()):
        return None
    count = environment.get("LISTEN_FDS", "")
    if count != "1":
        raise MachineError(
            f"one socket is expected, and {count or 'none'} came",
            cause="LISTEN_FDS",
            remedy="name one ListenStream in the socket unit (examples/cloche-daemon.socket)",
        )
    try:
        found = socket.socket(fileno=FIRST_PASSED)
        listens = found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    except OSError as exc:
        raise MachineError("the socket that was passed is none", cause=os.strerror(exc.errno or 0)) from None
    if found.family != socket.AF_UNIX or found.type != socket.SOCK_STREAM or not listens or not found.getsockname():
        found.detach()
        raise MachineError("the socket that was passed is no listening Unix stream socket with a path")
    found.set_inheritable(False)
    return found


def peer_of(stream: Stream) -> tuple[int | None, int | None]:
    """(user, process) at the other end, by the system's word; None where it has none."""
    if not hasattr(socket, "SO_PEERCRED") or not isinstance(stream, _SocketStream):
        return None, None
    size = struct.calcsize("3i")
    pid, uid, _ = struct.unpack("3i", stream.raw.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return uid, pid


async def open_door(address: Path | str, passed: socket.socket | None) -> Door:
    """The door of this platform."""
    if passed is not None:
        return await SocketDoor.take(passed)
    if sys.platform == "win32":
        return await PipeDoor.make(str(address))
    return await SocketDoor.make(Path(address))
