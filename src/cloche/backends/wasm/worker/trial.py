"""Compiling a guest, and a first session with it: what could only be found out by looking at a running one."""

from __future__ import annotations

import json
import os
import socket
import tempfile
import threading
from dataclasses import asdict
from typing import Any

from wasmtime import Module
from wasmtime.component import Component

from cloche.backends.wasm.engine import THREAD_STACK, make_engine
from cloche.backends.wasm.ledger import Ledger
from cloche.backends.wasm.worker.runtime import Runtime
from cloche.backends.wasm.worker.session import Session
from cloche.backends.wasm.worker.trigger import QUESTION, find_trigger
from cloche_guest.codes import PROTOCOL

KNOCK = 0.02
PATIENCE = 10.0


def compile_component(component: str, compiled: str) -> None:
    """Machine code for this processor, for us alone."""
    data = (Module if is_module(component) else Component).from_file(make_engine(), component).serialize()
    with open(os.open(compiled, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(data)


def is_module(path: str) -> bool:
    """Whether it is a bare module, and not a component."""
    with open(path, "rb") as file:
        return file.read(8)[4:] == b"\x01\x00\x00\x00"


def try_out(compiled: str) -> dict[str, Any]:
    """What is worth knowing about a compiled guest: its version, and how it can be interrupted (None: not at all)."""
    threading.stack_size(THREAD_STACK)
    runtime = Runtime(compiled, None)
    with tempfile.TemporaryDirectory() as folder:
        trial = _Trial(runtime, folder)
        try:
            version = trial.request(
                "initialize", {"protocol": PROTOCOL, "workspace": "/app", "context": {"none": True}}
            )
            answer = json.loads(trial.cell(QUESTION)["value"])
            memory = trial.session.memory
            runtime.trigger = None if memory is None else find_trigger(memory, answer)
            works = runtime.trigger is not None and trial.can_be_interrupted()
        finally:
            trial.close()
    return {"python": version["python"], "trigger": asdict(runtime.trigger) if works and runtime.trigger else None}


class _Trial:
    """A session, and both ends of its wire."""

    def __init__(self, runtime: Runtime, folder: str) -> None:
        ledger, descriptor = Ledger.create()
        os.close(descriptor)
        self._wire, theirs = socket.socketpair()
        self._wire.settimeout(PATIENCE)
        self._lines = self._wire.makefile("rb")
        options = {"folders": [("/app", True)], "frame": 1 << 20, "attachment": 0}
        self.session = Session(runtime, ledger, 0, theirs, options)
        nowhere = [os.open(os.devnull, os.O_WRONLY) for _ in range(2)]
        home = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._thread = threading.Thread(target=self.session.run, args=(*nowhere, [home]), daemon=True)
        self._thread.start()

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The result of a request."""
        frame = {"jsonrpc": "2.0", "method": method, "params": params, "id": 1}
        self._wire.sendall(json.dumps(frame, separators=(",", ":")).encode() + b"\n")
        result: dict[str, Any] = json.loads(self._lines.readline())["result"]
        return result

    def cell(self, code: str) -> dict[str, Any]:
        """The reply to a cell."""
        return self.request("execute", {"code": code, "cell": 1, "live": False})

    def can_be_interrupted(self) -> bool:
        """Whether an endless loop stops when it is told to, and the session is there afterwards."""
        over = threading.Event()

        def knock() -> None:
            while not over.wait(KNOCK):
                self.session.interrupt(insist=False)

        knocking = threading.Thread(target=knock, daemon=True)
        knocking.start()
        try:
            stopped = self.cell("x = 1\nwhile True: pass")["outcome"] == "interrupted"
        except (OSError, ValueError, KeyError):
            return False
        finally:
            over.set()
            knocking.join()
        return bool(stopped and self.cell("x")["value"] == "1")

    def close(self) -> None:
        self.session.end()
        self._thread.join(PATIENCE)
        self._lines.close()
        self._wire.close()
