"""The worker processes of this host: each holds sessions of ours alone, and all of them end with us."""

from __future__ import annotations

import atexit
import os
import signal
import socket
import subprocess
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cloche.backends.interpreter import guest_folder
from cloche.backends.interpreter import locate as locate_interpreter
from cloche.backends.lifeline import kill_group_at_end, lifeline
from cloche.backends.wasm.artefacts import Binary
from cloche.backends.wasm.building import module_path
from cloche.backends.wasm.control import ControlLine
from cloche.backends.wasm.ledger import SLOTS, Entry, Ledger
from cloche.errors import StartError

DEBUG_VARIABLE = "CLOCHE_WASM_DEBUG"
"""Set: what a worker complains about is shown."""
OPEN_FILES = 4096
FLAGS = ("-I", "-S", "-X", "utf8")
_HEADROOM = 64


@dataclass(frozen=True, slots=True)
class Kind:
    """Sessions that can share a worker."""

    binary: Binary
    file_bytes: int
    """The largest file that they may write: a limit of the whole process."""
    layers: frozenset[str]
    """Of those that are a matter of the process."""


class Worker:
    """One process. Any thread may ask it for something."""

    def __init__(self, kind: Kind) -> None:
        facts = kind.binary.facts()
        if facts is None:
            raise StartError("the guest is not compiled", remedy="cloche setup wasm")
        self._lock = threading.Lock()
        self._free = list(range(SLOTS - 1, -1, -1))
        self._closed = False
        self.ledger, ledger = Ledger.create()
        ours, theirs = socket.socketpair()
        self._line = ControlLine(ours)
        passed = [theirs.fileno(), ledger]
        dies_with_us = "lifeline" in kind.layers
        reader = lifeline.reader() if dies_with_us else -1
        try:
            script = Path(__file__).parent / "worker" / "__main__.py"
            self.process = subprocess.Popen(
                [locate_interpreter(None), *FLAGS, str(script), *map(str, passed), *module_path("wasmtime")],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, cwd="/", env={}, process_group=0,
                stderr=None if os.environ.get(DEBUG_VARIABLE) else subprocess.DEVNULL,
                pass_fds=[*passed, reader] if dies_with_us else passed,
            )  # fmt: skip
            if dies_with_us:
                kill_group_at_end(reader, self.process.pid)
        except OSError as exc:
            self._line.close()
            raise StartError("the worker process could not be started", cause=str(exc)) from None
        finally:
            theirs.close()
            os.close(ledger)
            if dies_with_us:
                os.close(reader)
        limits = {"core": 0}
        if "rlimits" in kind.layers:
            limits |= {"fsize": kind.file_bytes, "nofile": OPEN_FILES}
        settings = {"kind": kind.binary.kind, "compiled": str(kind.binary.compiled), "trigger": facts["trigger"]}
        self._send({**settings, "guest": str(guest_folder()), "limits": limits})

    @property
    def pid(self) -> int:
        """Its process."""
        return self.process.pid

    @property
    def alive(self) -> bool:
        """Whether it is there."""
        with suppress(ChildProcessError):
            return self.process.poll() is None
        return False

    @property
    def has_room(self) -> bool:
        """Whether it can take another session."""
        return len(self._free) > _HEADROOM

    def open(self, descriptors: list[int], options: dict[str, Any]) -> int:
        """Begin a session over these descriptors; the number by which it goes."""
        with self._lock:
            if self._closed:
                raise StartError("the worker process has ended", remedy="try again: the next session starts another")
            slot = self._free.pop()
            self.ledger.write(slot, Entry())
        self._send({"open": slot, "options": options}, descriptors)
        return slot

    def interrupt(self, slot: int, *, insist: bool) -> None:
        """Have a session hear a signal."""
        self._send({"interrupt": slot, "insist": insist})

    def end(self, slot: int) -> None:
        """End a session."""
        self._send({"end": slot})

    def forget(self, copy: int) -> None:
        """A copy is not wanted any more."""
        self._send({"forget": copy})

    def release(self, slot: int) -> None:
        """A session has ended, and nobody will ask about it any more."""
        with self._lock:
            self._free.append(slot)
            self._close_unread_ledger()

    def _close_unread_ledger(self) -> None:
        """It has a descriptor. Sessions that outlive the worker still look up how they ended."""
        if self._closed and len(self._free) == SLOTS:
            self.ledger.close()

    def _send(self, message: dict[str, Any], descriptors: list[int] | tuple[int, ...] = ()) -> None:
        with self._lock, suppress(OSError):  # gone: who looks for a session's end finds that
            self._line.send(message, descriptors)

    def kill(self) -> None:
        """End it at once, with all of its sessions."""
        with suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            self.process.wait()

    def close(self) -> None:
        """End it and forget it."""
        self._line.close()
        self.kill()
        with self._lock:
            self._closed = True
            self._close_unread_ledger()

    def leave(self) -> None:
        """In a forked child: it is our parent's."""
        self._lock = threading.Lock()
        self.process.returncode = 0
        self._line.close()


class Workers:
    """All of this process. A forked child has none of its parent's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[Kind, Worker] = {}  # those that take new sessions
        self._all: list[Worker] = []
        os.register_at_fork(after_in_child=self._forget)

    def get(self, kind: Kind) -> Worker:
        """A worker for such sessions."""
        with self._lock:
            worker = self._found.get(kind)
            if worker is not None and not worker.alive:
                worker.close()
            if worker is None or not worker.alive or not worker.has_room:
                worker = self._found[kind] = Worker(kind)
                self._all.append(worker)
            return worker

    def close(self) -> None:
        """End all of them."""
        with self._lock:
            found, self._all, self._found = self._all, [], {}
        for worker in found:
            worker.close()

    def _forget(self) -> None:
        self._lock = threading.Lock()
        found, self._all, self._found = self._all, [], {}
        for worker in found:
            worker.leave()


workers = Workers()
atexit.register(workers.close)
