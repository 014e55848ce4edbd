"""The guest's end of the wire: JSON-RPC 2.0, one object a line, optional raw bytes after it.

There is no reader thread: fork, WebAssembly and Pyodide forbid one. Whoever waits for something reads for all
("leads"), replies are matched by id, and a leader that has what it wanted wakes another waiter to lead.
"""

from __future__ import annotations

import posix as _os
from _thread import allocate_lock

from cloche_guest.plain_json import dumps, loads
from cloche_guest.signals import look_for_input, safe_point, state, wait_for_input, wait_for_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

CHUNK = 65536


class RemoteError(Exception):
    """The host answered a call with an error."""

    def __init__(self, code: int, message: str, data: Any) -> None:
        Exception.__init__(self, message)
        self.code = code
        self.data = data


class _Slot:
    """A waiter. Its lock belongs to one call and is thrown away, so a signal may cut the wait short."""

    __slots__ = ("asleep", "awake", "lock", "reply")

    def __init__(self) -> None:
        self.lock = allocate_lock()
        self.lock.acquire()
        self.reply: dict[str, Any] | None = None
        self.awake = False
        self.asleep = False
        """Its thread waits, and does not read or write: it can be woken to read for all."""

    def wake(self) -> None:
        """Caller holds the wire's mutex."""
        if not self.awake:
            self.awake = True
            self.lock.release()


class Wire:
    """Frames over two descriptors (which may be one socket)."""

    def __init__(self, reader: int, writer: int) -> None:
        self.reader = reader
        self.writer = writer
        self.requests: list[tuple[dict[str, Any], bytearray | None]] = []
        self._parts: list[bytes] = []
        self._body: tuple[dict[str, Any], bytearray] | None = None
        self._filled = 0
        self._slots: dict[int, _Slot] = {}
        self._main: _Slot | None = None
        self._leading = False
        self._next_id = 0
        self.served = False  # a request has come: the start is over
        self._mutex = allocate_lock()
        self._send_lock = allocate_lock()

    # -- sending -------------------------------------------------------------------------------

    def send(self, message: dict[str, Any], body: list[Any] | None = None) -> None:
        """Write one frame whole, with the buffers of its attachment; frames of several threads never mix."""
        if body is not None:
            message["attachment"] = sum(map(len, body))
        data = (dumps(message) + "\n").encode("ascii")
        with self._send_lock:
            self._write(data)
            for part in body or ():
                self._write(part)

    def _write(self, data: Any) -> None:
        done = _os.write(self.writer, data)
        if done < len(data):
            view = memoryview(data)
            while done < len(data):
                done += _os.write(self.writer, view[done : done + 1048576])

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send a message that has no answer."""
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    # -- receiving -----------------------------------------------------------------------------

    def receive(self) -> tuple[dict[str, Any], bytearray | None]:
        """The next request of the host; called by the main loop only."""
        slot = self._main = _Slot()
        try:
            self._wait(slot, lambda: bool(self.requests))
        finally:
            self._main = None
        self.served = True
        return self.requests.pop(0)

    def call(self, method: str, params: dict[str, Any]) -> Any:
        """Ask the host and wait for its answer; any thread."""
        if state.forked:
            raise RemoteError(-32000, "the host cannot be called from a forked child process", None)
        slot = _Slot()
        with self._mutex:
            self._next_id += 1
            number = self._next_id
            self._slots[number] = slot
        try:
            self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            self._wait(slot, lambda: slot.reply is not None)
        finally:
            with self._mutex:
                self._slots.pop(number, None)
                # Our answer and a wake-up may have crossed: leadership must not be lost with us.
                if not self._leading:
                    self._wake_other(slot)
        reply = slot.reply or {}
        error = reply.get("error")
        if error is not None:
            raise RemoteError(error.get("code", -32000), error.get("message", ""), error.get("data"))
        return reply.get("result")

    def waits(self) -> bool:
        """Whether something was sent that nobody has read yet."""
        import select

        poller = select.poll()
        poller.register(self.reader, select.POLLIN)
        return bool(poller.poll(0))

    def _wait(self, slot: _Slot, ready: Callable[[], bool]) -> None:
        while True:
            with self._mutex:
                if ready():
                    return
                lead = not self._leading
                if lead:
                    self._leading = True
                slot.asleep = not lead
            if lead:
                self._lead(slot, ready)
            else:
                safe_point()
                wait_for_lock(slot.lock)
                with self._mutex:
                    slot.awake = slot.asleep = False

    def _lead(self, slot: _Slot, ready: Callable[[], bool]) -> None:
        try:
            while not ready():
                safe_point()
                if slot is not self._main:
                    # Wait first, read afterwards in masked code: a signal between read() and the storing of
                    # its result would lose bytes. The main loop is masked as a whole and may simply block.
                    wait_for_input(self.reader)
                elif self.served:
                    self._look()
                self._pull()
        finally:
            with self._mutex:
                self._leading = False
                self._wake_other(slot)

    def _look(self) -> None:
        """The next request often follows on the heels of an answer."""
        try:
            look_for_input(self.reader)
        except Exception:  # it only saves time: the reading that follows meets whatever is wrong, and says so
            pass

    def _wake_other(self, slot: _Slot) -> None:
        if self._main is not None and self._main is not slot:
            self._main.wake()
            return
        for other in self._slots.values():
            # Not one whose thread is still writing its request: the host may read no more until its answers are taken.
            if other is not slot and other.asleep:
                other.wake()
                return

    def _pull(self) -> None:
        """Read once and deliver what is complete."""
        if self._body is None:
            chunk = _os.read(self.reader, CHUNK)
            if not chunk:
                _os._exit(0)  # the host is gone
            self._feed(chunk)
            return
        message, body = self._body
        with memoryview(body) as view, view[self._filled : self._filled + 1048576] as rest:
            got = _os.readv(self.reader, [rest])
        if not got:
            _os._exit(0)
        self._filled += got
        if self._filled == len(body):
            self._body = None
            self._deliver(message, body)

    def _feed(self, chunk: bytes) -> None:
        end = chunk.find(b"\n")
        if end < 0:
            self._parts.append(chunk)
            return
        if self._parts:
            end += sum(map(len, self._parts))
            chunk = b"".join(self._parts) + chunk
            self._parts = []
        start = 0
        while end >= 0:
            message = loads(chunk[start:end].decode("utf-8"))
            start = end + 1
            size = message.get("attachment")
            if size is None:
                self._deliver(message, None)
            else:
                body = bytearray(size)
                have = min(size, len(chunk) - start)
                body[:have] = chunk[start : start + have]
                start += have
                if have < size:
                    self._body, self._filled = (message, body), have
                    return
                self._deliver(message, body)
            end = chunk.find(b"\n", start)
        if start < len(chunk):
            self._parts.append(chunk[start:])

    def _deliver(self, message: dict[str, Any], body: bytearray | None) -> None:
        with self._mutex:
            if "method" in message:
                self.requests.append((message, body))
                if self._main is not None:
                    self._main.wake()
                return
            slot = self._slots.pop(message.get("id", 0), None)
            if slot is not None:  # else: its caller was interrupted and has gone
                slot.reply = message
                slot.wake()

    # -- fork ----------------------------------------------------------------------------------

    def begin_again(self, descriptor: int) -> None:
        """In a copy of the session: the same numbers, another socket, and nothing of what was under way."""
        for target in {self.reader, self.writer}:
            _os.dup2(descriptor, target, inheritable=False)
        self._mutex, self._send_lock = allocate_lock(), allocate_lock()
        self._leading = False
        self._slots.clear()
        self.requests, self._parts, self._body = [], [], None

    def leave_in_child(self) -> None:
        """A forked child must neither read nor write here; every lock may be held by a thread that is gone."""
        self._mutex, self._send_lock = allocate_lock(), allocate_lock()
        self._leading = False
        self._slots.clear()
        _os.close(self.reader)
        if self.writer != self.reader:
            _os.close(self.writer)
