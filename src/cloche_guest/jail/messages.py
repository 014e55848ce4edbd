"""Messages between the host, the init process, the zygote and the seats: one JSON object a packet, with descriptors.

All of these sockets are SOCK_SEQPACKET: a packet is whole or absent, and its descriptors come with it. No guest code
runs at either end.
"""

from __future__ import annotations

import json
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_PACKET = 262_144
MAX_DESCRIPTORS = 16


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected ends."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(to: socket.socket, message: dict[str, Any], descriptors: list[int] | tuple[int, ...] = ()) -> None:
    """Send one message."""
    socket.send_fds(to, [json.dumps(message).encode()], list(descriptors))


def receive(source: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """The next message; None when the other end is gone."""
    try:
        data, descriptors, _, _ = socket.recv_fds(source, MAX_PACKET, MAX_DESCRIPTORS)
    except ConnectionError:
        return None, []
    if not data:
        return None, list(descriptors)
    message: dict[str, Any] = json.loads(data)
    return message, list(descriptors)
