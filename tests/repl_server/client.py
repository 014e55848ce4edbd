"""A client of the REPL server, with pipes and json alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

GUEST = Path(__file__).resolve().parents[2] / "src" / "cloche_guest"
BY_PATH = [sys.executable, str(GUEST / "repl_server.py")]
READY = b">>> REPL_READY <<<\n"
FIELDS = ["stdout", "stderr", "exit_code", "state", "files", "error"]


class Client:
    """Starts a server in `folder` and asks it."""

    def __init__(self, folder: Path, command: list[str] | None = None, **variables: str) -> None:
        environment = {**os.environ, "PRELOAD_MODULES": "json,math,os,sys", "DEBUG": "", **variables}
        self.process = subprocess.Popen(
            command or BY_PATH,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env=environment,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.stdin, self.stdout, self.stderr = self.process.stdin, self.process.stdout, self.process.stderr

    def wait_until_ready(self) -> None:
        line = self.stdout.readline()
        assert line == READY, (line, self.stderr.read() if not line else b"")

    def send(self, request: Any) -> None:
        self.write(b">>> REQUEST_START <<<\n" + json.dumps(request).encode() + b"\n>>> REQUEST_END <<<\n")

    def write(self, data: bytes) -> None:
        self.stdin.write(data)
        self.stdin.flush()

    def receive(self) -> dict[str, Any]:
        assert self.stdout.readline() == b">>> RESPONSE_START <<<\n"
        response: dict[str, Any] = json.loads(self.stdout.readline())
        assert self.stdout.readline() == b">>> RESPONSE_END <<<\n"
        assert list(response)[: len(FIELDS)] == FIELDS
        return response

    def ask(self, code: str, **fields: Any) -> dict[str, Any]:
        self.send({"code": code, **fields})
        return self.receive()

    def run(self, code: str, **fields: Any) -> str:
        """The output of code that succeeds."""
        response = self.ask(code, **fields)
        assert response["error"] is None, response
        assert response["exit_code"] == 0, response
        return str(response["stdout"])

    def close(self) -> bytes:
        """What it said on stderr."""
        self.stdin.close()
        said = self.stderr.read()
        self.stdout.close()
        self.stderr.close()
        assert self.process.wait(30) == 0
        return said

    def run_folder(self) -> Path:
        """Where it works."""
        return Path(os.readlink(f"/proc/{self.process.pid}/cwd"))
