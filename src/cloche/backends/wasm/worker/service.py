"""A worker's main thread: takes what the host asks for on the control line."""

from __future__ import annotations

import gc
import os
import socket
import threading
from typing import TYPE_CHECKING, Any

from cloche.backends.wasm.control import ControlLine
from cloche.backends.wasm.engine import THREAD_STACK
from cloche.backends.wasm.ledger import Ledger
from cloche.backends.wasm.worker.runtime import Runtime
from cloche.backends.wasm.worker.session import Session
from cloche.backends.wasm.worker.trigger import Trigger

if TYPE_CHECKING:
    from collections.abc import Mapping


def serve(control: int, ledger: int) -> None:
    """Until the host is gone. Nothing is cleaned up: a store must be closed on its own thread, and all go at once."""
    line = ControlLine(socket.socket(fileno=control))
    book = Ledger(ledger)
    os.close(ledger)
    try:
        _serve(line, book)
    except Exception as exc:  # noqa: BLE001 - told to the host, which knows what to do about it
        line.send({"failed": f"{type(exc).__name__}: {exc}"})
    os._exit(0)


def _serve(line: ControlLine, ledger: Ledger) -> None:
    first = line.receive()
    if first is None:
        return
    settings = first[0]
    _limit(settings["limits"])
    threading.stack_size(THREAD_STACK)
    runtime, kind = _runtime(settings)
    gc.freeze()  # what was imported need not be walked again and again
    sessions: dict[int, Session] = {}
    while (found := line.receive()) is not None:
        message, descriptors = found
        if "open" in message:
            slot = message["open"]
            wire, stdout, stderr, *folders = descriptors
            session = kind(runtime, ledger, slot, socket.socket(fileno=wire), message["options"])
            sessions[slot] = session
            threading.Thread(target=session.run, args=(stdout, stderr, folders), daemon=True).start()
        elif "interrupt" in message:
            sessions[message["interrupt"]].interrupt(insist=message["insist"])
        elif "forget" in message:
            runtime.images.pop(message["forget"], None)
        elif "end" in message:
            sessions[message["end"]].end()


def _runtime(settings: Mapping[str, Any]) -> tuple[Any, type[Session]]:
    """What sessions are made of, and what kind of sessions."""
    if settings["kind"] == "module":
        from cloche.backends.wasm.worker.stock import StockRuntime, StockSession

        return StockRuntime(settings["compiled"], settings["guest"]), StockSession
    trigger = settings.get("trigger")
    return Runtime(settings["compiled"], None if trigger is None else Trigger(**trigger)), Session


def _limit(limits: Mapping[str, Any]) -> None:
    """The operating system's own limits, as a second wall."""
    import resource

    for name, amount in limits.items():
        which = getattr(resource, f"RLIMIT_{name.upper()}", None)
        if which is not None:
            _, hard = resource.getrlimit(which)
            most = amount if hard == resource.RLIM_INFINITY else min(amount, hard)
            resource.setrlimit(which, (most, most))
