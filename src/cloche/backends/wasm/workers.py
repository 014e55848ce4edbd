"""The worker processes of this host: each forks processes for sessions of ours alone, and all of them end with us."""

from __future__ import annotations

import atexit
import itertools
import os
import signal
import socket
import subprocess
import threading
import time
from collections import deque
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
from cloche.backends.wasm.guest_process import GuestProcess
from cloche.backends.wasm.ledger import SLOTS, Entry, Ledger
from cloche.errors import StartError

DEBUG_VARIABLE = "CLOCHE_WASM_DEBUG"
"""Set: what a worker complains about is shown."""
OPEN_FILES = 1024
"""Of one session; the worker's own process opens none for a guest."""
MAX_IDLE = 12
"""Processes that are kept for the next sessions when theirs have ended."""
FLAGS = ("-I", "-S", "-X", "utf8")
PATIENCE = 1.0
"""Seconds within which processes that were killed are gone."""
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
    """A process that has loaded the guest, and forks one for each session. Any thread may ask it for something."""

    def __init__(self, kind: Kind) -> None:
        facts = kind.binary.facts()
        if facts is None:
            raise StartError("the guest is not compiled", remedy="cloche setup wasm")
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._slots = deque(range(SLOTS))
        self._processes: dict[int, GuestProcess] = {}
        self._idle: list[GuestProcess] = []
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
        return bool(self._idle) or len(self._slots) > _HEADROOM

    def claim(self) -> GuestProcess:
        """A process for one session: one that has run others, or a fresh one."""
        with self._lock:
            while self._idle:
                process = self._idle.pop()
                if process.alive:
                    return process
                self._drop(process)
        return self._fork()

    def _fork(self) -> GuestProcess:
        """It need not be there yet: what is sent to it waits, and where it cannot be made its line has no end."""
        ours, theirs = socket.socketpair()
        with theirs:
            with self._lock:
                if self._closed:
                    ours.close()
                    raise StartError(
                        "the worker process has ended", remedy="try again: the next session starts another"
                    )
                number, slot = next(self._numbers), self._slots.popleft()
                process = GuestProcess(self, number, slot, ControlLine(ours), self._take_back)
                self._processes[number] = process
                self.ledger.set_process(slot, 0)
                self.ledger.write(slot, Entry())
            self._send({"fork": number, "slot": slot}, [theirs.fileno()])
        return process

    def _take_back(self, process: GuestProcess) -> None:
        """The session there has ended, and nobody will ask about it any more."""
        with self._lock:
            if not self._closed and len(self._idle) < MAX_IDLE and process.reusable:
                self._idle.append(process)
                return
        process.close()
        with self._lock:
            self._drop(process)
            self._close_unread_ledger()

    def _drop(self, process: GuestProcess) -> None:
        if self._processes.pop(process.number, None) is not None:
            self._slots.append(process.slot)

    def kill_process(self, number: int) -> None:
        """End one of its processes. Where there is no worker any more, all of them."""
        if self.alive:
            self._send({"kill": number})
        else:
            self.kill()

    def _close_unread_ledger(self) -> None:
        """It has a descriptor. Sessions that outlive the worker still look up how they ended."""
        if self._closed and not self._processes:
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
        until = time.monotonic() + PATIENCE
        for process in list(self._processes.values()):
            process.wait(until - time.monotonic())

    def close(self) -> None:
        """End it and forget it."""
        self._line.close()
        self.kill()
        with self._lock:
            self._closed = True
        self.close_idle()

    def close_idle(self) -> None:
        """End the processes that no session has."""
        with self._lock:
            idle, self._idle = self._idle, []
        for process in idle:
            process.close()
        with self._lock:
            for process in idle:
                self._drop(process)
            self._close_unread_ledger()

    def leave(self) -> None:
        """In a forked child: it is our parent's."""
        self._lock = threading.Lock()
        self.process.returncode = 0
        self._line.close()
        for process in self._processes.values():
            process.leave()


class Workers:
    """All of this process. A forked child has none of its parent's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[Kind, Worker] = {}  # those that take new sessions
        self._all: list[Worker] = []
        os.register_at_fork(after_in_child=self._forget)

    def claim(self, kind: Kind) -> GuestProcess:
        """A process for such a session."""
        with self._lock:
            worker = self._found.get(kind)
            if worker is not None and not worker.alive:
                worker.close()
            if worker is None or not worker.alive or not worker.has_room:
                worker = self._found[kind] = Worker(kind)
                self._all.append(worker)
        return worker.claim()

    def close_idle(self) -> None:
        """End the processes that are kept for sessions to come."""
        with self._lock:
            found = list(self._all)
        for worker in found:
            worker.close_idle()

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
