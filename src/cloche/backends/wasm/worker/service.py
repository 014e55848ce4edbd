"""The process of a session: its main thread takes what the host asks for, and the session has a thread of its own.

When a session has ended, its process may be given another, never two at a time: descriptors, memory, threads and waits
of the system are the session's alone.
"""

from __future__ import annotations

import os
import socket
import threading
from typing import TYPE_CHECKING, Any

from cloche.backends.wasm.ledger import End, Entry
from cloche.backends.wasm.worker.bounds import bound_memory

if TYPE_CHECKING:
    from cloche.backends.wasm.control import ControlLine
    from cloche.backends.wasm.ledger import Ledger
    from cloche.backends.wasm.worker.session import Session

AT_LEAST = 3
"""Descriptors that a session comes with, before those of its folders."""


def serve_sessions(line: ControlLine, ledger: Ledger, slot: int, runtime: Any, kind: type[Session]) -> None:
    """Until the host is gone, or wants no other session here."""
    session: Session | None = None
    while (found := line.receive()) is not None:
        message, descriptors = found
        if "open" in message:
            try:
                session = _open(ledger, slot, runtime, kind, message["open"], descriptors)
            except (OSError, RuntimeError, MemoryError, ValueError) as exc:  # this one cannot be had
                ledger.write(slot, Entry(end=End.FAILED, text=f"{type(exc).__name__}: {exc}"))
                for descriptor in descriptors:
                    _close(descriptor)
        elif "forget" in message:
            runtime.images.pop(message["forget"], None)
        elif session is None:
            continue  # it was never opened
        elif "interrupt" in message:
            session.interrupt(insist=message["interrupt"])
        elif "end" in message:
            session.end()


def _open(
    ledger: Ledger, slot: int, runtime: Any, kind: type[Session], options: dict[str, Any], descriptors: list[int]
) -> Session:
    if len(descriptors) < AT_LEAST + len(options["folders"]):
        raise OSError("a session could not be given its descriptors")
    wire, stdout, stderr, *folders = descriptors
    bound_memory(options.get("room"))
    session = kind(runtime, ledger, slot, socket.socket(fileno=wire), options)
    threading.Thread(target=session.run, args=(stdout, stderr, folders), daemon=True).start()
    return session


def _close(descriptor: int) -> None:
    try:
        os.close(descriptor)
    except OSError:
        pass
