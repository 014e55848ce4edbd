"""A client as somebody else would write it from the page: a socket, lines of JSON, nothing of Cloche."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

PATIENCE = 30.0


class Refused(Exception):
    """The daemon answered with an error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.code: int = error["code"]
        self.type: str | None = (error.get("data") or {}).get("type")


class ForeignClient:
    """Asks, and answers what it is asked."""

    def __init__(self, path: Path, token: str | None = None) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(str(path))
        self._file = self.socket.makefile("rb")
        self._number = 0
        self.output: list[tuple[str, str]] = []
        self.cancelled: list[int] = []
        self.answer: Callable[[dict[str, Any]], Any] = lambda call: None
        self.bridges: list[dict[str, Any]] = []
        self.attachment: bytes | None = None
        if token is not None:
            self.call("auth", token=token)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()
        self.socket.close()

    def send(self, message: dict[str, Any], body: bytes | None = None) -> None:
        if body is not None:
            message["attachment"] = len(body)
        self.socket.sendall(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" + (body or b""))

    def ask(self, method: str, body: bytes | None = None, **params: Any) -> int:
        self._number += 1
        self.send({"id": self._number, "method": method, "params": params}, body)
        return self._number

    def read(self) -> dict[str, Any]:
        line = self._file.readline()
        if not line:
            raise EOFError
        message: dict[str, Any] = json.loads(line)
        self.attachment = self._file.read(message["attachment"]) if "attachment" in message else None
        return message

    def wait(self, number: int) -> Any:
        while True:
            message = self.read()
            if message.get("method") == "bridge":
                self.bridges.append(message)
                self.send({"id": message["id"], "result": self.answer(message["params"])})
            elif message.get("method") == "output":
                self.output.append((message["params"]["stream"], message["params"]["text"]))
            elif message.get("method") == "cancelled":
                self.cancelled.append(message["params"]["id"])
            elif message.get("id") == number:
                if "error" in message:
                    raise Refused(message["error"])
                return message["result"]

    def call(self, method: str, body: bytes | None = None, **params: Any) -> Any:
        return self.wait(self.ask(method, body, **params))


def enter(places: Any, **extra: Any) -> ForeignClient:
    """A client that has introduced itself."""
    return ForeignClient(places.socket, places.read_token())
