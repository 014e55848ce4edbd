"""Messages between the host, the init process, the zygote and the seats: one packet each, with descriptors.

A packet is a row of fields, each ended by NUL, that a C program can read without a parser: a name, a sign for the
kind of its value, and the value as text. ``name=text``, ``name#12``, ``name+item`` (once for each item of a list of
texts) and ``name:JSON`` for what only Python looks into. An empty list and None are fields that are not there.

All of these sockets are SOCK_SEQPACKET: a packet is whole or absent, and its descriptors come with it. No guest code
runs at either end.
"""

from __future__ import annotations

import _socket
import sys
from time import sleep

from cloche_guest.plain_json import dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any, Mapping

MAX_PACKET = 262_144
MAX_DESCRIPTORS = 40
_NUMBER = 4  # bytes
_PASSING = (12, 105, 109)  # ENOMEM, ENOBUFS, ETOOMANYREFS
_MOMENT, _MOMENTS = 0.002, 50
_SIGNS = "=#+:"
_ENCODING = sys.getfilesystemencoding()


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected ends."""
    import socket  # most of what makes up the start of a zygote, which does without

    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def plain_pair() -> tuple[_socket.socket, _socket.socket]:
    """The same, as plain as the built-in module has them."""
    return _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)


def send(to: _socket.socket, message: Mapping[str, Any], descriptors: list[int] | tuple[int, ...] = ()) -> None:
    """Send one message. What is passing (no memory, too many descriptors of this user on their way) is waited for."""
    numbers = b"".join(descriptor.to_bytes(_NUMBER, sys.byteorder) for descriptor in descriptors)
    data = pack(message)
    for left in range(_MOMENTS, -1, -1):
        try:
            if descriptors:
                to.sendmsg([data], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, numbers)])
            else:
                to.send(data)
            return
        except OSError as exc:
            if exc.errno not in _PASSING or not left:
                raise
        sleep(_MOMENT)


def receive(source: _socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """The next message; None when the other end is gone."""
    descriptors: list[int] = []
    room = _socket.CMSG_LEN(MAX_DESCRIPTORS * _NUMBER)
    try:
        data, rights, _, _ = source.recvmsg(MAX_PACKET, room, _socket.MSG_CMSG_CLOEXEC)
    except ConnectionError:
        # told once, when the other end went without reading all; what it had said comes after that
        try:
            data, rights, _, _ = source.recvmsg(MAX_PACKET, room, _socket.MSG_CMSG_CLOEXEC)
        except ConnectionError:
            return None, []
    for _, _, payload in rights:
        descriptors += [
            int.from_bytes(payload[start : start + _NUMBER], sys.byteorder)
            for start in range(0, len(payload) - _NUMBER + 1, _NUMBER)
        ]
    return (unpack(data) if data else None), descriptors


def pack(message: Mapping[str, Any]) -> bytes:
    """The fields of a message as they travel."""
    fields: list[str] = []
    for name, value in message.items():
        if value is None:
            continue
        if isinstance(value, int):
            fields.append("%s#%d" % (name, value))
        elif isinstance(value, str):
            fields.append("%s=%s" % (name, value))
        elif isinstance(value, (list, tuple)):
            fields += ["%s+%s" % (name, item) for item in value]
        else:
            fields.append("%s:%s" % (name, dumps(value)))
    if any("\0" in field for field in fields):
        raise ValueError("a field of a message must not contain NUL")
    return b"".join(field.encode(_ENCODING, "surrogateescape") + b"\0" for field in fields)


def unpack(data: bytes) -> dict[str, Any]:
    """The message that was packed."""
    message: dict[str, Any] = {}
    for field in data.split(b"\0")[:-1]:
        text = field.decode(_ENCODING, "surrogateescape")
        length = min(index for index in map(text.find, _SIGNS) if index >= 0)
        name, sign, value = text[:length], text[length], text[length + 1 :]
        if sign == "+":
            message.setdefault(name, []).append(value)
        else:
            message[name] = int(value) if sign == "#" else loads(value) if sign == ":" else value
    return message
