"""The guest's end of the wire where there are no descriptors: functions of the host that carry frames.

Whatever the guest does, its host is there between any two of its steps. So there is nothing to read and nobody to
wait for: a call goes out, and its answer is what the call returns.
"""

from __future__ import annotations

from cloche_guest.codes import INTERNAL_ERROR
from cloche_guest.plain_json import dumps, loads
from cloche_guest.signals import safe_point
from cloche_guest.wire import RemoteError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PIECE = 1 << 20  # characters


class HostLink:
    """What the kernel knows as its link: `call` and `notify`. `host` has the functions of ``session.wit``."""

    def __init__(self, host: Any) -> None:
        self.host = host
        self._next_id = 0
        self._body: bytearray | None = None

    def call(self, method: str, params: dict[str, Any]) -> Any:
        """Ask the host and wait for its answer."""
        self._next_id += 1
        number = self._next_id
        frame = dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        reply: dict[str, Any] = {}
        while reply.get("id") != number:
            reply = loads(self.host.ask(frame))
            safe_point()
            frame = ""  # it is out; what came was meant for a call that was interrupted
        error = reply.get("error")
        if error is not None:
            raise RemoteError(error.get("code", -32000), error.get("message", ""), error.get("data"))
        return reply.get("result")

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send a message that has no answer."""
        self.host.tell(dumps({"jsonrpc": "2.0", "method": method, "params": params}))

    def feed(self, piece: str) -> None:
        """A part of the next request's attachment."""
        if self._body is None:
            self._body = bytearray()
        self._body += piece.encode("latin-1")

    def take(self, frame: str) -> tuple[dict[str, Any], bytearray | None]:
        """A request, with the attachment that came before it."""
        body, self._body = self._body, None
        request = loads(frame)
        if body is None and "attachment" in request:
            body = bytearray()
        return request, body

    def reply(self, message: dict[str, Any], attachment: list[Any] | None) -> str:
        """A reply as text; its attachment goes ahead."""
        try:
            if attachment is not None:
                message["attachment"] = sum(map(len, attachment))
            text = dumps(message)
        except (TypeError, ValueError, RecursionError):  # an object of the user's got into it
            error = {"code": INTERNAL_ERROR, "message": "the reply cannot be sent"}
            return dumps({"jsonrpc": "2.0", "id": message["id"], "error": error})
        for part in attachment or ():
            for start in range(0, len(part), PIECE):
                self.host.attach(str(part[start : start + PIECE], "latin-1"))
        return text
