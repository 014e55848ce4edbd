"""What all sessions of a worker share: the engine, the compiled guest, and the functions it may call."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from wasmtime import WasmtimeError
from wasmtime.component import Component, Linker

from cloche.backends.wasm.engine import make_engine
from cloche.backends.wasm.worker.memory import Mappings
from cloche.backends.wasm.worker.virtual import add_virtual_world

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloche.backends.wasm.worker.images import Image
    from cloche.backends.wasm.worker.session import Session
    from cloche.backends.wasm.worker.trigger import Trigger

HOST_FUNCTIONS = ("ask", "tell", "attach", "pause", "mark", "leave")
"""Of ``session.wit``; each is a method of `Session`."""


class _Current(threading.local):
    """The session of this thread."""

    session: Session


class Runtime:
    """One compiled guest, ready to be instantiated."""

    def __init__(self, compiled: str, trigger: Trigger | None) -> None:
        self.compiled = compiled
        self.trigger = trigger
        self.engine = make_engine()
        self.component = Component.deserialize_file(self.engine, compiled)
        self.current = _Current()
        self.making = threading.Lock()
        """Held while a session is made: the newest memory is then its own."""
        self.mappings = Mappings(compiled)
        self.images: dict[int, Image] = {}
        """Copies of sessions, by number."""
        self._linkers: dict[bool, Linker] = {}

    def linker(self, *, deterministic: bool) -> Linker:
        """What a guest is linked with: WASI, where clock and randomness may be ours, and the host functions."""
        if deterministic not in self._linkers:
            linker = Linker(self.engine)
            linker.add_wasip2()
            with linker.root() as root:
                for name in HOST_FUNCTIONS:
                    root.add_func(name, self._function(name))
            if deterministic:
                add_virtual_world(linker, self._function)
            self._linkers[deterministic] = linker
        return self._linkers[deterministic]

    def _function(self, name: str) -> Callable[..., Any]:
        """A method of the session whose guest calls. Whatever it raises ends the guest, and nothing else."""
        current = self.current

        def call(store: object, *values: Any) -> Any:  # noqa: ARG001 - the session has its own
            try:
                return getattr(current.session, name)(*values)
            except WasmtimeError:
                raise
            except Exception as exc:  # noqa: BLE001 - wasmtime keeps a stray exception where another thread finds it
                raise WasmtimeError(f"{type(exc).__name__}: {exc}") from None

        return call
