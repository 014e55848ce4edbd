"""A rehearsal of the first requests of a session, before there is anybody who asks.

A process that was forked pays for each page that it touches for the first time. In a session that is made ahead this
is done before it is wanted, by serving what a host asks first: through the wire's own code, with nobody at its end.
"""

from __future__ import annotations

import posix as _os

from cloche_guest.codes import PROTOCOL
from cloche_guest.plain_json import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche_guest.kernel import Kernel
    from cloche_guest.wire import Wire

CELL = "print(end='')\nNone\n1"


def rehearse(kernel: Kernel, wire: Wire, workspace: str) -> None:
    """Leaves nothing behind: no output, no variable, no answer."""
    requests: list[tuple[str, dict[str, Any]]] = [
        (
            "initialize",
            {
                "protocol": PROTOCOL,
                "tools": [],
                "workspace": workspace,
                "context": {"none": True},
                "limits": {"value_bytes": 1 << 24, "display_bytes": 1 << 24, "core": 1},
            },
        ),
        ("execute", {"code": CELL, "cell": 0, "live": False}),
        ("ping", {}),
    ]
    names = dict(kernel.space.names)
    ours = wire.reader, wire.writer
    wire.reader, asking = _os.pipe()
    wire.writer = _os.open("/dev/null", _os.O_WRONLY | _os.O_CLOEXEC)
    theirs = wire.reader, wire.writer, asking
    try:
        for number, (method, params) in enumerate(requests):
            frame = dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n"
            _os.write(asking, frame.encode())
            kernel.serve_next()
            wire.served = False  # else the next look would be for this pipe, and every later one too
    finally:
        wire.reader, wire.writer = ours
        for descriptor in theirs:
            _os.close(descriptor)
        for name in [name for name in kernel.space.names if name not in names]:
            del kernel.space.names[name]
