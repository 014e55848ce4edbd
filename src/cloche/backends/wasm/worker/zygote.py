"""A worker's first process: it loads the guest once and forks a process for each session. It runs no guest itself.

So it has one thread, and nothing that a guest does can take its descriptors, its memory or its time.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import threading
from typing import TYPE_CHECKING, Any

from cloche.backends.wasm.control import ControlLine
from cloche.backends.wasm.engine import THREAD_STACK
from cloche.backends.wasm.ledger import Ledger
from cloche.backends.wasm.worker.runtime import Runtime
from cloche.backends.wasm.worker.service import serve_sessions
from cloche.backends.wasm.worker.session import Session
from cloche.backends.wasm.worker.trigger import Trigger

if TYPE_CHECKING:
    from collections.abc import Mapping


def serve(control: int, ledger: int) -> None:
    """Until the host is gone. Processes of sessions end with their own lines to the host."""
    line = ControlLine(socket.socket(fileno=control))
    book = Ledger(ledger)
    os.close(ledger)
    settings = line.receive()
    if settings is not None:
        Zygote(line, book, settings[0]).serve()
    os._exit(0)


class Zygote:
    """What sessions have in common, and the processes that were forked for them."""

    def __init__(self, line: ControlLine, ledger: Ledger, settings: Mapping[str, Any]) -> None:
        self._line = line
        self._ledger = ledger
        self._processes: dict[int, int] = {}  # pid, by the number that the host gave
        _limit(settings["limits"])
        threading.stack_size(THREAD_STACK)
        self._runtime, self._kind = _load(settings)
        gc.freeze()  # what was imported need not be walked again and again, nor copied
        self._ended, self._wake = os.pipe()
        os.set_blocking(self._ended, False)
        os.set_blocking(self._wake, False)
        signal.signal(signal.SIGCHLD, _nothing)  # which writes to the pipe
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)

    def serve(self) -> None:
        """Take what the host asks for. Children are waited for here alone, so a number never is another process's."""
        poll = select.poll()
        poll.register(self._line.fileno(), select.POLLIN)
        poll.register(self._ended, select.POLLIN)
        while True:
            while (found := self._line.received()) is not None:
                self._obey(*found)
            ready = {descriptor for descriptor, _ in poll.poll()}
            if self._ended in ready:
                os.read(self._ended, 4096)
                self._wait_for_children()
            if self._line.fileno() in ready:
                found = self._line.receive()
                if found is None:
                    return
                self._obey(*found)

    def _obey(self, message: dict[str, Any], descriptors: list[int]) -> None:
        try:
            if "fork" in message and descriptors:
                self._fork(message["fork"], message["slot"], descriptors[0])
            elif "kill" in message and message["kill"] in self._processes:
                os.kill(self._processes[message["kill"]], signal.SIGKILL)
        except OSError:
            pass  # no process can be made: the host sees that its line has no other end
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _fork(self, number: int, slot: int, control: int) -> None:
        pid = os.fork()
        if pid:
            self._processes[number] = pid
            self._ledger.set_process(slot, pid)
            return
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._line.close()
            for end in (self._ended, self._wake):
                os.close(end)
            line = ControlLine(socket.socket(fileno=os.dup(control)))
            os.close(control)
            self._ledger.set_process(slot, os.getpid())
            serve_sessions(line, self._ledger, slot, self._runtime, self._kind)
        finally:
            os._exit(0)

    def _wait_for_children(self) -> None:
        for number, pid in list(self._processes.items()):
            if os.waitpid(pid, os.WNOHANG)[0]:
                del self._processes[number]


def _nothing(*_: object) -> None:
    """A handler must be there for the pipe to be written to."""


def _load(settings: Mapping[str, Any]) -> tuple[Any, type[Session]]:
    """What sessions are made of, and what kind of sessions."""
    if settings["kind"] == "module":
        from cloche.backends.wasm.worker.stock import StockRuntime, StockSession

        return StockRuntime(settings["compiled"], settings["guest"]), StockSession
    trigger = settings.get("trigger")
    runtime = Runtime(settings["compiled"], None if trigger is None else Trigger(**trigger))
    runtime.linker(deterministic=False)
    return runtime, Session


def _limit(limits: Mapping[str, Any]) -> None:
    """The operating system's own limits, for this process and those that it forks."""
    import resource

    for name, amount in limits.items():
        which = getattr(resource, f"RLIMIT_{name.upper()}", None)
        if which is not None:
            _, hard = resource.getrlimit(which)
            most = amount if hard == resource.RLIM_INFINITY else min(amount, hard)
            resource.setrlimit(which, (most, most))
