"""Another host for the guest, in a hundred lines, written from docs/protocol.md alone: subprocess and json.

python examples/foreign_host.py [FOLDER OF cloche_guest] [PYTHON]
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

Message = dict[str, Any]


class GuestError(Exception):
    """The guest answered a request with an error."""


class Guest:
    """One session, without capture pipes: output comes as notifications."""

    def __init__(self, python: str, folder: str, tools: Mapping[str, Callable[..., Any]]) -> None:
        self._process = subprocess.Popen(
            [python, "-I", "-S", "-X", "utf8", f"{folder}/bundle.py", "run"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._tools = tools
        self._last_id = 0
        self._cells = 0
        self.output = ""
        names = [{"name": name, "doc": tool.__doc__ or ""} for name, tool in tools.items()]
        self.hello, _ = self.request("initialize", {"protocol": 1, "tools": names, "context": {"none": True}})

    def request(self, method: str, params: Message, body: bytes | None = None) -> tuple[Message, bytes | None]:
        """Ask, serve what the guest asks meanwhile, and return its answer with the bytes attached to it."""
        self._last_id += 1
        self._send({"id": self._last_id, "method": method, "params": params}, body)
        while True:
            message, attached = self._receive()
            if "method" in message:
                self._serve(message)
            elif message["id"] == self._last_id:
                if "error" in message:
                    raise GuestError(f"{message['error']['code']}: {message['error']['message']}")
                return message["result"], attached

    def execute(self, code: str) -> Message:
        """Run a cell; what it printed is in `output`."""
        self._cells += 1
        self.output = ""
        return self.request("execute", {"code": code, "cell": self._cells})[0]

    def set_context(self, text: str) -> None:
        """Text travels as raw bytes after the frame, not inside of it."""
        self.request("context", {"encoding": "utf-8"}, text.encode("utf-8", "surrogatepass"))

    def close(self) -> int:
        """Say goodbye; the guest's exit status."""
        self.request("shutdown", {})
        self._process.communicate()
        return self._process.returncode

    def _send(self, message: Message, body: bytes | None = None) -> None:
        assert self._process.stdin is not None
        if body is not None:
            message["attachment"] = len(body)
        frame = json.dumps({"jsonrpc": "2.0", **message}).encode("ascii") + b"\n"
        self._process.stdin.write(frame + (body or b""))
        self._process.stdin.flush()

    def _receive(self) -> tuple[Message, bytes | None]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise EOFError(f"the guest ended with status {self._process.wait()}")
        message: Message = json.loads(line)
        size = message.get("attachment")
        return message, None if size is None else self._process.stdout.read(size)

    def _serve(self, message: Message) -> None:
        params = message["params"]
        if message["method"] == "output":
            self.output += params["text"]
        elif message["method"] == "bridge":
            reply: Message = {"id": message["id"]}
            try:
                reply["result"] = self._tools[params["name"]](*params["args"], **params.get("kwargs", {}))
            except Exception as exc:  # noqa: BLE001 - whatever the tool raises is the cell's to handle
                reply["error"] = {"code": -32000, "message": str(exc), "data": {"type": type(exc).__name__}}
            self._send(reply)


def main(folder: str, python: str) -> None:
    """A short session."""
    guest = Guest(python, folder, {"add": lambda a, b: a + b})
    guest.set_context("The answer is somewhere in here.")
    print(guest.execute("x = add(40, 2)\nprint(len(context), 'characters')\nx"), guest.output)
    print(guest.request("get_variable", {"name": "x"})[0])
    print(guest.execute("add(1)")["exception"]["message"])
    print("status", guest.close())


if __name__ == "__main__":
    here = __file__.rpartition("/")[0] or "."
    given = sys.argv[1:]
    main(given[0] if given else f"{here}/../src/cloche_guest", given[1] if len(given) > 1 else sys.executable)
