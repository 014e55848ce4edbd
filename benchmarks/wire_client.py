"""A client of the daemon's wire that does little itself, so that the daemon is what is measured."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any


class WireClient:
    """A client of the daemon's wire, with one session."""

    def __init__(self, path: Path, token: str, owner: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path))
        self._lines = self._socket.makefile("rb")
        self.call("auth", token=token, owner=owner)
        self._session = self.call("session.open")["session"]

    def call(self, method: str, **params: Any) -> Any:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        self._socket.sendall(json.dumps(message).encode() + b"\n")
        reply = json.loads(self._lines.readline())
        if "error" in reply:
            raise RuntimeError(reply["error"]["message"])
        return reply["result"]

    def run(self, code: str) -> None:
        result = self.call("session.execute", session=self._session, code=code)
        if not result["success"]:
            raise RuntimeError(result["error"])

    def close(self) -> None:
        self._lines.close()
        self._socket.close()
