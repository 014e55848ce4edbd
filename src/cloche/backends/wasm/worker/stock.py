"""Sessions of a stock ``python.wasm``: a WASI preview 1 command that reads requests from its standard input.

It has no functions of ours. So it cannot be interrupted, only ended; it sleeps in the system; and it boots for each
session. Fuel is counted between two calls of `sched_yield`, which is ours here.
"""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from wasmtime import FuncType, Linker, Memory, Module, Trap, ValType, WasiConfig, WasmtimeError

from cloche.backends.wasm.engine import make_engine
from cloche.backends.wasm.ledger import End, Entry
from cloche.backends.wasm.worker import fuel
from cloche.backends.wasm.worker.epochs import on_every_epoch
from cloche.backends.wasm.worker.preopens import preopen
from cloche.backends.wasm.worker.session import CELL_REQUEST, Session

if TYPE_CHECKING:
    from cloche.backends.wasm.worker.images import Image
    from cloche.backends.wasm.worker.trigger import Trigger

_CHUNK = 1 << 18
GUEST = "/cloche"
LAST_WORDS = 0.2
"""Seconds in which what a guest wrote before its end is sent on."""


class StockRuntime:
    """One compiled module."""

    def __init__(self, compiled: str, guest: str) -> None:
        self.engine = make_engine()
        self.module = Module.deserialize_file(self.engine, compiled)
        self.guest = os.open(guest, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        """The folder of the kernel, as it was before any guest ran."""
        self.trigger: Trigger | None = None
        self.images: dict[int, Image] = {}
        self.current = threading.local()
        self.linker = Linker(self.engine)
        self.linker.define_wasi()
        self.linker.allow_shadowing = True
        mark = FuncType([], [ValType.i32()])
        self.linker.define_func("wasi_snapshot_preview1", "sched_yield", mark, self._on_yield)

    def _on_yield(self) -> int:
        marked: int = self.current.session.take_mark()
        return marked


class StockSession(Session):
    """As a session of a component; but the guest runs from beginning to end in one call."""

    _runtime: Any
    _exported: Memory
    _asked = False  # whether the host has sent a cell since the last mark

    def run(self, stdout: int, stderr: int, folders: list[int]) -> None:
        """From its start to its end, on this thread."""
        end = Entry(end=End.FAILED)
        os.close(stdout)  # what it prints comes over the wire
        reader, self._input = os.pipe()
        self._output, writer = os.pipe()
        self._runtime.current.session = self
        carrying = threading.Thread(target=self._carry, daemon=True)
        try:
            start = self._prepare(reader, writer, stderr, folders)
            self._note(thread=threading.get_native_id())
            threading.Thread(target=self._bring, daemon=True).start()
            carrying.start()
            start(self._store)
        except (WasmtimeError, Trap, OSError, MemoryError) as exc:
            end = self._verdict(exc)
        except Exception as exc:  # noqa: BLE001 - the host must see an end, whatever is wrong here
            end = Entry(end=End.FAILED, text=f"{type(exc).__name__}: {exc}")
        finally:
            self._store.close()
            for descriptor in (reader, writer, stderr, *folders):
                os.close(descriptor)
            if carrying.ident is not None:
                carrying.join(LAST_WORDS)
            self._note(end=end.end, status=end.status, text=end.text)
            with suppress(OSError):
                self._wire.shutdown(socket.SHUT_RDWR)  # the thread that reads it would keep it open
            self._wire.close()

    def _prepare(self, reader: int, writer: int, stderr: int, folders: list[int]) -> Any:
        options, runtime, store = self._options, self._runtime, self._store
        wasi = WasiConfig()
        wasi.argv = ["python", "-S", "-X", "utf8", f"{GUEST}/bundle.py", "run", "stock"]
        preopen(wasi, [*folders, runtime.guest], [*options["folders"], (GUEST, False)])
        wasi.stdin_file = f"/dev/fd/{reader}"
        wasi.stdout_file = f"/dev/fd/{writer}"
        wasi.stderr_file = f"/dev/fd/{stderr}"
        store.set_wasi(wasi)
        store.set_fuel(fuel.UNLIMITED)
        store.set_epoch_deadline(1)
        on_every_epoch(store, self._on_epoch)
        if options.get("memory"):
            store.set_limits(memory_size=options["memory"])
        exports = runtime.linker.instantiate(store, runtime.module).exports(store)
        self._exported = exports["memory"]
        return exports["_start"]

    def _bring(self) -> None:
        """Another thread: what the host sends becomes the guest's input."""
        try:
            while (found := self._frames.next_frame()) is not None:
                line, body = found
                if line.startswith(CELL_REQUEST):
                    self._asked = True
                for part in (line, b"\n", body or b""):
                    view = memoryview(part)
                    while view:
                        view = view[os.write(self._input, view) :]
        except OSError:
            pass  # one of the two is gone
        os.close(self._input)

    def _carry(self) -> None:
        """Another thread: what the guest writes is sent to the host."""
        try:
            while data := os.read(self._output, _CHUNK):
                self._wire.sendall(data)
        except OSError:
            pass
        os.close(self._output)

    def take_mark(self) -> int:
        """The guest's kernel gives way: the user's code begins, or has ended. More often than that is the user's."""
        if self._asked:
            self._asked = False
            # The kernel has what it needs to begin with: the next cell is compiled before its first mark.
            self._fuel.begin(fuel.REQUEST)
        self.mark()
        if self._fuel.marks >= 2:
            self._note(fuel=self._fuel.used, memory=self._exported.data_len(self._store))
        return 0
