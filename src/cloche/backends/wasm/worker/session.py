"""One session: a guest in a store of its own, on a thread of its own, between two frames of its wire."""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from wasmtime import ExitTrap, Store, WasiConfig, WasmtimeError

from cloche.backends.wasm.ledger import End, Entry, Ledger
from cloche.backends.wasm.worker import fuel
from cloche.backends.wasm.worker.epochs import on_every_epoch
from cloche.backends.wasm.worker.frames import FrameSource
from cloche.backends.wasm.worker.fuel import FuelMeter
from cloche.backends.wasm.worker.images import Image, copy_memory, restore_memory
from cloche.backends.wasm.worker.memory import MOST as LARGEST_MEMORY
from cloche.backends.wasm.worker.memory import LinearMemory
from cloche.backends.wasm.worker.preopens import preopen
from cloche.backends.wasm.worker.virtual import BIRTH, FUEL_PER_NANOSECOND, SECOND, Chance, DateTime

if TYPE_CHECKING:
    import socket

    from wasmtime.component import Func

    from cloche.backends.wasm.worker.runtime import Runtime

PIECE = 1 << 20
LONGEST_RANDOM = 1 << 20
LONGEST_PIECE = 4 * PIECE
"""Characters of an attachment that a guest may send at once; its kernel sends a quarter of that."""
LONGEST_COUNT = 4096
"""Characters in which a guest says how many files it has open."""
CELL_REQUEST = b'{"jsonrpc":"2.0","method":"execute"'
COPYING = (b'{"jsonrpc":"2.0","method":"branch"', b'{"jsonrpc":"2.0","method":"resume"')


class Session:
    """Lives on its thread; `interrupt` and `end` come from another."""

    def __init__(
        self, runtime: Runtime, ledger: Ledger, slot: int, wire: socket.socket, options: dict[str, Any]
    ) -> None:
        self._runtime = runtime
        self._ledger = ledger
        self._slot = slot
        self._entry = Entry()
        self._wire = wire
        self._frames = FrameSource(wire)
        self._options = options
        self._store = Store(runtime.engine)
        self._serve: Func | None = None
        self._feed: Func | None = None
        self.memory: LinearMemory | None = None
        self._attached: list[bytes] = []
        self._attached_size = 0
        self._greeting = b""
        # -- fuel
        self._fuel = FuelMeter(self._store, options.get("fuel"))
        self._used = 0  # by the last cell
        self._total = 0
        # -- being stopped
        self._knock: bool | None = None  # whether somebody insists
        self._doomed = False
        self._woken = threading.Event()
        self._left: int | None = None
        # -- the virtual world
        self._chance = Chance()
        self._slept = 0

    # -- life ----------------------------------------------------------------------------------

    def run(self, stdout: int, stderr: int, folders: list[int]) -> None:
        """From the first frame to the last, on this thread."""
        self._runtime.current.session = self
        end = Entry(end=End.FAILED)
        try:
            self._instantiate(stdout, stderr, folders)
            if self._options.get("copy"):
                self._return_to(self._options["copy"])
            self._note(thread=threading.get_native_id(), memory=self._memory_size())
            end = self._serve_all()
        except (WasmtimeError, OSError, MemoryError) as exc:
            end = self._verdict(exc) if self._serve is not None else Entry(end=End.FAILED, text=_last_line(exc))
        except Exception as exc:  # noqa: BLE001 - the host must see an end, whatever is wrong here
            end = Entry(end=End.FAILED, text=f"{type(exc).__name__}: {exc}")
        finally:
            self._close()
            self._note(end=end.end, status=end.status, text=end.text)
            self._wire.close()

    def _instantiate(self, stdout: int, stderr: int, folders: list[int]) -> None:
        options, runtime, store = self._options, self._runtime, self._store
        try:
            wasi = WasiConfig()
            preopen(wasi, folders, options["folders"])
            wasi.stdout_file = f"/dev/fd/{stdout}"
            wasi.stderr_file = f"/dev/fd/{stderr}"
            store.set_wasi(wasi)
        finally:
            for descriptor in (stdout, stderr, *folders):
                os.close(descriptor)
        store.set_fuel(fuel.UNLIMITED)
        store.set_epoch_deadline(1)
        on_every_epoch(store, self._on_epoch)
        if options.get("memory"):
            store.set_limits(memory_size=options["memory"])
        linker = runtime.linker(deterministic=bool(options.get("deterministic")))
        with runtime.making:
            instance = linker.instantiate(store, runtime.component)
            self.memory = runtime.mappings.take_newest()
        self._serve = instance.get_func(store, "serve")
        self._feed = instance.get_func(store, "feed")

    def _close(self) -> None:
        memory = self.memory
        with self._runtime.making:
            self._store.close()
            if memory is not None:
                self._runtime.mappings.give_back(memory)

    def _note(self, **changes: Any) -> None:
        self._entry = replace(self._entry, **changes)
        self._ledger.write(self._slot, self._entry)

    def _memory_size(self) -> int:
        return 0 if self.memory is None else self.memory.size()

    # -- requests ------------------------------------------------------------------------------

    def _serve_all(self) -> Entry:
        while True:
            found = self._frames.next_request()
            if found is None:
                return Entry(end=End.ENDED)
            line, body = found
            try:
                if line.startswith(COPYING):
                    self._serve_copying(line)
                    continue
                if not self._greeting:
                    self._greeting = line
                reply = self._call(line, body)
            except WasmtimeError as exc:
                return self._verdict(exc)
            self._note(fuel=self._used, memory=self._memory_size())
            if reply:
                self._reply(reply)

    def _reply(self, reply: str) -> None:
        if len(reply) > self._options["frame"]:
            raise WasmtimeError("a reply is too large")
        self._wire.sendall(reply.encode() + b"\n")
        for part in self._attached:
            self._wire.sendall(part)
        self._attached = []

    def _serve_copying(self, line: bytes) -> None:
        """What concerns copies of this session is not the guest's to answer."""
        message = json.loads(line)
        if message["method"] == "branch":
            self._copy(message["params"]["copy"])
        if "id" in message:
            reply = {"jsonrpc": "2.0", "id": message["id"], "result": {}}
            self._wire.sendall(json.dumps(reply).encode() + b"\n")

    def _copy(self, number: int) -> None:
        """Keep what the guest is now; with files open it cannot be kept."""
        asked = self._call(b'{"jsonrpc":"2.0","id":0,"method":"open_files","params":{}}', None)
        if self.memory is None or len(asked) > LONGEST_COUNT or json.loads(asked).get("result", {}).get("count") != 0:
            return
        image = Image(0, self._greeting, self._total, self._slept)
        copy_memory(self.memory, image)
        self._runtime.images[number] = image
        self._note(copy=number)

    def _return_to(self, number: int) -> None:
        """Be what another session was when that copy was made."""
        image = self._runtime.images.pop(number)
        self._call(image.greeting, None)
        assert self.memory is not None
        missing = image.size - self.memory.size()
        if missing > 0:
            self._call(b'{"jsonrpc":"2.0","id":0,"method":"grow","params":{"bytes":%d}}' % missing, None)
        restore_memory(self.memory, image)
        self._greeting, self._total, self._slept = image.greeting, image.total, image.slept

    def _call(self, line: bytes, body: bytearray | None) -> str:
        """Have the guest serve one request."""
        assert self._serve is not None
        assert self._feed is not None
        store = self._store
        self._attached, self._attached_size = [], 0
        self._knock = None
        self._woken.clear()
        size = len(line) + len(body or b"")
        is_cell = line.startswith(CELL_REQUEST)
        self._fuel.begin(
            fuel.CELL + fuel.CELL_PER_CHARACTER * size if is_cell else fuel.REQUEST + fuel.REQUEST_PER_CHARACTER * size
        )
        store.set_epoch_deadline(1)
        for start in range(0, len(body or b""), PIECE):
            self._feed(store, (body or bytearray())[start : start + PIECE].decode("latin-1"))
            self._feed.post_return(store)
        reply: str = self._serve(store, line.decode())
        self._serve.post_return(store)
        self._total += self._fuel.used
        if is_cell:
            self._used = self._fuel.used
        return reply

    def _verdict(self, exc: BaseException) -> Entry:
        """Why the guest has ended."""
        text = str(exc)
        if self._left is not None:
            return Entry(end=End.EXITED, status=self._left)
        if self._doomed:
            return Entry(end=End.ENDED)
        if isinstance(exc, ExitTrap):
            return Entry(end=End.EXITED, status=exc.code)
        if "all fuel consumed" in text:
            self._note(fuel=self._fuel.used_at_end, memory=self._memory_size())
            return Entry(end=End.OUT_OF_FUEL)
        self._note(memory=self._memory_size())
        return Entry(end=End.TRAPPED, text=_last_line(exc))

    # -- from other threads --------------------------------------------------------------------

    def interrupt(self, *, insist: bool) -> None:
        """Have the guest hear a signal."""
        self._knock = insist
        self._woken.set()
        self._runtime.engine.increment_epoch()

    def end(self) -> None:
        """End the guest, wherever it is."""
        import socket

        self._doomed = True
        self._woken.set()
        self._runtime.engine.increment_epoch()
        try:
            self._wire.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # ended by itself

    def _on_epoch(self) -> str | None:
        """On our own thread, between two instructions of the guest; a text ends it."""
        if self._doomed:
            return "ended by the host"
        self._pull_trigger()
        return None

    def _pull_trigger(self) -> None:
        knock, self._knock = self._knock, None
        if knock is not None and self.memory is not None and self._runtime.trigger is not None:
            self._runtime.trigger.pull(self.memory, insist=knock)

    # -- functions of session.wit --------------------------------------------------------------

    def ask(self, frame: str) -> str:
        """A request of the guest's, and the host's reply; without one, the next that comes."""
        if frame:
            self._send(frame)
        reply = self._frames.next_reply()
        if reply is None:
            raise WasmtimeError("the host is gone")
        self._charge(len(reply))
        self._pull_trigger()
        return reply.decode()

    def tell(self, frame: str) -> None:
        """A message that has no answer."""
        self._send(frame)

    def _send(self, frame: str) -> None:
        self._charge(len(frame))
        if len(frame) > self._options["frame"]:
            raise WasmtimeError("a frame is too large")
        self._wire.sendall(frame.encode() + b"\n")

    def attach(self, piece: str) -> None:
        """A part of what follows the reply. No guest has more to send than fits into its memory."""
        self._charge(len(piece))
        self._attached_size += len(piece)
        most = min(self._options["attachment"], self._options.get("memory") or LARGEST_MEMORY)
        if len(piece) > LONGEST_PIECE or self._attached_size > most:
            raise WasmtimeError("an attachment is too large")
        self._attached.append(piece.encode("latin-1"))

    def pause(self, seconds: float) -> float:
        """Wait. Returns early with what is left when somebody knocks."""
        self._charge()
        if not 0 <= seconds < 1e10:
            return 0.0
        if self._options.get("deterministic"):
            self._slept += int(seconds * SECOND)
            return 0.0
        until = time.monotonic() + seconds
        self._woken.wait(min(seconds, threading.TIMEOUT_MAX))
        self._woken.clear()
        if self._doomed:
            raise WasmtimeError("ended by the host")
        self._pull_trigger()
        return max(0.0, until - time.monotonic())

    def mark(self) -> None:
        """The user's code begins, or has ended, if it is the kernel that says so."""
        self._fuel.mark()
        if self._fuel.marks > 2:
            self._charge()

    def _charge(self, characters: int = 0) -> None:
        """What the host does for a guest is paid in the guest's fuel."""
        self._fuel.charge(fuel.HOST_CALL + characters // fuel.CHARACTERS_PER_FUEL)

    def leave(self, status: int) -> None:
        """The guest ends itself."""
        self._left = status & 0xFF
        raise WasmtimeError("left")

    # -- functions of a virtual world ----------------------------------------------------------

    def random_bytes(self, count: int) -> bytes:
        if count > LONGEST_RANDOM:
            raise WasmtimeError("too many random bytes at once")
        self._fuel.charge(fuel.HOST_CALL + fuel.RANDOM_BYTE * count)
        return self._chance.take(count)

    def random_number(self) -> int:
        return int.from_bytes(self.random_bytes(8), "little")

    def monotonic_clock(self) -> int:
        """Counts instructions of the user's, in this cell and in those before, and the time it slept."""
        self._charge()
        return (self._total + self._fuel.used) // FUEL_PER_NANOSECOND + self._slept

    def monotonic_clock_resolution(self) -> int:
        return 1

    def wall_clock(self) -> DateTime:
        seconds, nanoseconds = divmod(self.monotonic_clock(), SECOND)
        return DateTime(BIRTH + seconds, nanoseconds)

    def wall_clock_resolution(self) -> DateTime:
        return DateTime(0, 1)

    def no_timer(self, *_: Any) -> None:
        raise WasmtimeError("there are no timers in a deterministic session; time.sleep() works")


def _last_line(exc: BaseException) -> str:
    lines = [line.strip() for line in str(exc).splitlines() if line.strip()]
    text = lines[-1] if lines else type(exc).__name__
    return text.partition(": ")[2] if text[:1].isdigit() else text
