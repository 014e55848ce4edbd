"""A session in its process, as the host holds it: a wire, two pipes, and a line in the worker's ledger."""

from __future__ import annotations

import os
import socket
import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from cloche.backends.native import SOCKET_BUFFER, capture_pipe
from cloche.backends.wasm.folders import open_all
from cloche.backends.wasm.ledger import End, Entry
from cloche.errors import StartError
from cloche.isolation import Isolation
from cloche.session.channel import Channel, Counted, Exit
from cloche.session.chores import chores
from cloche.session.deadline import CLEAN_UP, time_left
from cloche.session.descriptors import none_left
from cloche.session.processes import cpu_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cloche.backends.wasm.folders import GuestFolder
    from cloche.backends.wasm.guest_process import GuestProcess
    from cloche.session.workspace import Workspace

PATIENCE = 0.5
"""Seconds in which a session must end when it is told to. After that it is stuck where nobody can stop it, and its
process is killed."""
_LOOK = 0.001


class WasmChannel(Channel):
    """One session."""

    isolation = Isolation.METERED

    def __init__(
        self, process: GuestProcess, workspace: Workspace, folders: tuple[GuestFolder, ...], options: dict[str, Any]
    ) -> None:
        self.process = process
        self.folders = folders
        self.options = options
        self.last = Entry()
        """What the ledger said when this session was closed."""
        self._owner = os.getpid()
        self._exit: Exit | None = None
        self._told: float | None = None
        self._closed = False
        self.workspace = workspace
        self.layers: tuple[str, ...] = ()
        self.greeting: Mapping[str, Any] = {}
        try:
            with ExitStack() as ours:
                process.hold()
                ours.callback(process.let_go)
                self._open({**options, "folders": [(folder.name, folder.writable) for folder in folders]}, ours)
                ours.pop_all()
        except OSError as exc:
            raise none_left(exc) or StartError("a session could not be given its descriptors", cause=str(exc)) from None

    def _open(self, options: dict[str, Any], ours: ExitStack) -> None:
        with ExitStack() as theirs:
            wire, far = socket.socketpair()
            ours.enter_context(wire)
            theirs.enter_context(far)
            for end in (wire, far):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BUFFER)
            readers, writers = [], []
            for _ in ("stdout", "stderr"):
                reader, writer = capture_pipe()
                ours.callback(os.close, reader)
                theirs.callback(os.close, writer)
                readers.append(reader)
                writers.append(writer)
            folders = open_all(self.folders, theirs)
            self._cpu_before = cpu_seconds(self.process.pid) or 0.0 if self.process.used else 0.0
            self.process.open([far.fileno(), *writers, *folders], options)
        wire.setblocking(False)
        self.wire = wire
        self.stdout, self.stderr = readers

    @property
    def pid(self) -> int:
        """The session's process, which it has for itself."""
        return self.process.pid

    def interrupt(self, *, insist: bool) -> None:
        if self._owner == os.getpid():
            self.process.interrupt(insist=insist)

    def kill(self) -> None:
        if self._owner != os.getpid() or self._exit is not None or self._told is not None:
            return
        self._told = time.monotonic()
        self.process.end()
        chores.after(PATIENCE, self._insist)

    def _insist(self) -> None:
        """It was told to end. Where it waits in the system, only the end of the whole process helps."""
        if self._owner == os.getpid() and not self._closed and self.reap(0) is None:
            self.process.kill()

    def reap(self, timeout: float) -> Exit | None:
        until = time.monotonic() + timeout
        while self._exit is None:
            entry = self._entry()
            if entry.end is not End.NOT:
                self._exit = _exit(entry)
            elif not self.process.alive:
                entry = self._entry()  # what it wrote last
                self._exit = Exit(reason="its process has ended") if entry.end is End.NOT else _exit(entry)
            elif self._told is not None and time.monotonic() > self._told + PATIENCE:
                self.process.kill()
                self._told = time.monotonic()  # once more should that be lost, not at every look
            elif time.monotonic() >= until:
                break
            else:
                time.sleep(_LOOK)
        return self._exit

    def _entry(self) -> Entry:
        return self.last if self._closed else self.process.entry

    def cpu_seconds(self) -> float | None:
        used = cpu_seconds(self.process.pid)
        return None if used is None else max(0.0, used - self._cpu_before)

    def counted(self) -> Counted:
        entry = self._entry()
        return Counted(fuel=entry.fuel, peak_bytes=entry.memory or None)

    def close(self) -> None:
        if self._closed:
            return
        ours = self._owner == os.getpid()
        if ours:
            self.kill()
            self.reap(time_left(PATIENCE + 5.0, least=PATIENCE + CLEAN_UP))
            self.last = self._entry()
        self._closed = True
        if ours:
            self.process.let_go()
        self.wire.close()
        for descriptor in (self.stdout, self.stderr):
            if descriptor is not None:
                with suppress(OSError):
                    os.close(descriptor)


def _exit(entry: Entry) -> Exit:
    """How the worker says that it ended."""
    if entry.end is End.EXITED:
        return Exit(code=entry.status)
    if entry.end is End.OUT_OF_FUEL:
        return Exit(out_of_fuel=True)
    reasons = {End.TRAPPED: f"trap: {entry.text}", End.FAILED: entry.text, End.ENDED: "ended by the host"}
    return Exit(reason=reasons[entry.end])
