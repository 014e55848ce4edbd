"""The interpreter that runs requests, as the process in front of it sees it.

It is a forked copy of that process with the kernel in it. It holds nothing of the outer wire: whatever the code
writes, and wherever, it can neither break a frame nor forge one, and when it dies there is somebody left to say so.
What it sends is hostile all the same: bounded and checked.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # no stub; `signal` itself costs an import of enum
import posix as _os
import select
from time import perf_counter

from cloche_guest.c_library import let_others_look
from cloche_guest.capture import keep_private
from cloche_guest.codes import METHOD_NOT_FOUND
from cloche_guest.plain_json import dumps, loads
from cloche_guest.start import die_with_host, serve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CHUNK = 1 << 20
LONGEST_LINE = 1 << 25
MOST_OUTPUT = 1 << 24
MOST_DISPLAYS = 200
MOST_CALLS = 1000
DRAIN_LIMIT = 1 << 22  # a child of the code's that never stops writing must not keep its request open
KILL = 9


class InterpreterEnded(Exception):
    """The interpreter is gone; `status` as a shell would say it."""

    def __init__(self, text: str, status: int) -> None:
        Exception.__init__(self, text)
        self.status = status


class TimeIsOver(Exception):
    """The request's own limit has passed."""


class HostGone(Exception):
    """Nobody reads our answers any more."""


class Output:
    """What came on one descriptor, up to a bound."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, data: bytes) -> None:
        room = MOST_OUTPUT - self._size
        self._size += len(data)
        if room > 0:
            self._parts.append(data[:room])

    def take(self) -> str:
        text = b"".join(self._parts).decode("utf-8", "replace")
        if self._size > MOST_OUTPUT:
            text += "\n... [truncated, %d bytes omitted]" % (self._size - MOST_OUTPUT)
        self._parts, self._size = [], 0
        return text


class Replies:
    """Cuts what the interpreter sends into messages and the raw bytes after them."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._open: tuple[dict[str, Any], list[bytes], int] | None = None
        self.most = 0  # raw bytes that the next answer may carry

    def feed(self, data: bytes) -> list[tuple[dict[str, Any], list[bytes]]]:
        """Raises ValueError for what is no message."""
        found: list[tuple[dict[str, Any], list[bytes]]] = []
        start = 0
        while start < len(data):
            if self._open is not None:
                message, body, left = self._open
                part = data[start : start + left]
                start += len(part)
                body.append(part)
                self._open = (message, body, left - len(part))
                if left == len(part):
                    self._open = None
                    found.append((message, body))
                continue
            end = data.find(b"\n", start)
            part = data[start : end if end >= 0 else len(data)]
            start += len(part) + 1
            self._parts.append(part)
            self._size += len(part)
            if self._size > LONGEST_LINE:
                raise ValueError("a message is too long")
            if end >= 0:
                self._begin(b"".join(self._parts), found)
                self._parts, self._size = [], 0
        return found

    def _begin(self, line: bytes, found: list[tuple[dict[str, Any], list[bytes]]]) -> None:
        message = loads(line.decode("utf-8"))
        if type(message) is not dict:
            raise ValueError("a message is no object")
        size = message.get("attachment", 0)
        if type(size) is not int or not 0 <= size <= self.most:
            raise ValueError("raw bytes that nobody asked for")
        if size:
            self._open = (message, [], size)
        else:
            found.append((message, []))


class Interpreter:
    """A running one. `private` are descriptors that it must not have; `outer` is where answers go."""

    def __init__(self, private: tuple[int, ...], outer: int) -> None:
        self.out, self.err = Output(), Output()
        self.displays: list[dict[str, str]] = []
        self._named: dict[str, int] = {}  # where those stand that code may replace
        self._shown = self._calls = 0
        self._replies = Replies()
        self._answers: list[tuple[dict[str, Any], list[bytes]]] = []
        self._expected = 0
        self.deadline: float | None = None
        self._fork(private)
        self._poller = select.poll()
        for descriptor in (self._reader, self._out, self._err):
            _os.set_blocking(descriptor, False)
            self._poller.register(descriptor, select.POLLIN)
        self._outer = outer
        self._poller.register(outer, 0)  # only to hear that its reader has gone

    def _fork(self, private: tuple[int, ...]) -> None:
        down, self._writer = _os.pipe()
        self._reader, up = _os.pipe()
        self._out, out = _os.pipe()
        self._err, err = _os.pipe()
        lifeline, self._life = _os.pipe()
        enlarge(down)
        enlarge(up)
        self.pid = _os.fork()
        if self.pid:
            for descriptor in (down, up, out, err, lifeline):
                _os.close(descriptor)
            return
        try:
            for descriptor in (self._writer, self._reader, self._out, self._err, self._life, *private):
                _os.close(descriptor)
            _os.setpgid(0, 0)
            _signal.signal(_signal.SIGTERM, _signal.SIG_DFL)
            try:
                let_others_look(True)  # as in any process: only the one in front has something to hide
            except OSError:  # then nor could that one be closed
                pass
            die_with_host(lifeline)
            inner = keep_private(down), keep_private(up)
            _os.close(down)
            _os.close(up)
            serve(*inner, (out, err))
        finally:
            _os._exit(70)

    # -- talking to it -------------------------------------------------------------------------

    def call(
        self, method: str, params: dict[str, Any], body: list[bytes] | None = None, most: int = 0
    ) -> tuple[dict[str, Any], list[bytes]]:
        """(answer, raw bytes of at most `most`, in pieces). The output of meanwhile is in `out` and `err`."""
        self._expected = int.from_bytes(_os.urandom(6), "big")  # no code can answer what has not been asked yet
        self._answers, self._replies.most = [], most
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": self._expected, "method": method, "params": params}
        if body is not None:
            message["attachment"] = sum(map(len, body))
        try:
            self._send((dumps(message) + "\n").encode("ascii"))
            for piece in body or ():
                self._send(piece)
        except OSError:
            raise self._ended() from None
        while not self._answers:
            self._wait(None)
        self._drain()
        self._replies.most, self._expected = 0, 0
        return self._answers[0]

    def idle_until(self, descriptor: int) -> None:
        """Until there is something to be read there; what threads of the code write meanwhile is kept."""
        while not self._wait(descriptor):
            pass

    def _send(self, data: bytes) -> None:
        view = memoryview(data)
        done = 0
        while done < len(view):
            done += _os.write(self._writer, view[done : done + CHUNK])

    def _wait(self, other: int | None) -> bool:
        """Take in whatever has come. Whether there is something at `other`."""
        if other is not None:
            self._poller.register(other, select.POLLIN)
        try:
            ready = dict(self._poller.poll(self._patience()))
        finally:
            if other is not None:
                self._poller.unregister(other)
        if self._outer in ready:
            raise HostGone
        if not ready:
            raise TimeIsOver
        for descriptor, sink in ((self._out, self.out), (self._err, self.err)):
            if descriptor in ready:
                self._take_output(descriptor, sink)
        if self._reader in ready:
            self._take_messages()
        return other is not None and other in ready

    def _patience(self) -> float | None:
        """Milliseconds. Looked at whenever something has come, too."""
        if self.deadline is None:
            return None
        left = self.deadline - perf_counter()
        if left <= 0:
            raise TimeIsOver
        return left * 1000 + 1

    def _take_output(self, descriptor: int, sink: Output) -> int:
        try:
            data = _os.read(descriptor, CHUNK)
        except BlockingIOError:
            return 0
        if data:
            sink.add(data)
        else:
            self._poller.unregister(descriptor)  # every copy of the other end was closed
        return len(data)

    def _take_messages(self) -> None:
        try:
            data = _os.read(self._reader, CHUNK)
        except BlockingIOError:
            return
        if not data:
            raise self._ended()
        try:
            for message, body in self._replies.feed(data):
                self._take(message, body)
        except (ValueError, TypeError, RecursionError) as exc:
            self.kill()
            raise InterpreterEnded("the code broke the interpreter's own wire: %s" % (exc,), 70) from None

    def _take(self, message: dict[str, Any], body: list[bytes]) -> None:
        method = message.get("method")
        if method == "display":
            self._show(message.get("params") or {})
        elif method == "bridge":
            self._calls += 1
            if self._calls > MOST_CALLS:  # our answers would fill the pipe, and we would wait for it to be read
                raise ValueError("calls without end")
            error = {"code": METHOD_NOT_FOUND, "message": "there is no host function here"}
            self._send((dumps({"jsonrpc": "2.0", "id": message.get("id"), "error": error}) + "\n").encode("ascii"))
        elif method is not None or not self._expected or message.get("id") != self._expected:
            raise ValueError("an answer to nothing that was asked")
        else:
            self._answers = [(message, body)]
            self._expected = 0

    def _show(self, params: dict[str, Any]) -> None:
        data, name = params.get("data"), params.get("id")
        if params.get("clear") is True:
            self.displays, self._named = [], {}
        if type(data) is not dict:
            return
        shown = {str(mime): text for mime, text in data.items() if type(text) is str}
        self._shown += sum(map(len, shown.values()))
        if self._shown > LONGEST_LINE:
            return
        if params.get("update") is True and type(name) is str and name in self._named:
            self.displays[self._named[name]] = shown
        elif len(self.displays) < MOST_DISPLAYS:
            if type(name) is str:
                self._named[name] = len(self.displays)
            self.displays.append(shown)

    def begin_request(self, limit: float | None) -> None:
        """Count from nothing again. `limit` in seconds."""
        self.displays, self._named, self._shown, self._calls = [], {}, 0, 0
        self.deadline = None if limit is None else perf_counter() + limit

    def _drain(self) -> None:
        """What was written before the answer is in the pipes by now."""
        for descriptor, sink in ((self._out, self.out), (self._err, self.err)):
            taken = 0
            while taken < DRAIN_LIMIT:
                try:
                    data = _os.read(descriptor, CHUNK)
                except BlockingIOError:
                    break
                if not data:
                    break
                sink.add(data)
                taken += len(data)

    # -- its end -------------------------------------------------------------------------------

    def _ended(self) -> InterpreterEnded:
        self._drain()
        _, status = self.kill()
        if _os.WIFSIGNALED(status):
            number = _os.WTERMSIG(status)
            return InterpreterEnded("the interpreter was ended by signal %d" % number, 128 + number)
        code = _os.WEXITSTATUS(status)
        return InterpreterEnded("the interpreter exited with status %d" % code, code)

    def kill(self) -> tuple[int, int]:
        """End it and whatever it started in its group. (pid, status as it was, had it ended by itself)."""
        ended = _wait_a_moment(self.pid)
        _kill_quietly(-self.pid)
        if ended is None:
            _kill_quietly(self.pid)
        if ended is None:
            ended = _os.waitpid(self.pid, 0)
        for descriptor in (self._writer, self._reader, self._out, self._err, self._life):
            _os.close(descriptor)
        return ended


def _wait_a_moment(pid: int) -> tuple[int, int] | None:
    """A process closes its descriptors a little before it can be waited for."""
    from time import sleep

    for _ in range(50):
        found, status = _os.waitpid(pid, _os.WNOHANG)
        if found:
            return found, status
        sleep(0.001)
    return None


def _kill_quietly(target: int) -> None:
    try:
        _os.kill(target, KILL)
    except OSError:  # it has gone
        pass


def enlarge(pipe: int) -> None:
    """Fewer turns for a large state. Linux has it; elsewhere, or past the user's share, it goes without."""
    import fcntl

    try:
        fcntl.fcntl(pipe, getattr(fcntl, "F_SETPIPE_SZ", 1031), CHUNK)
    except OSError:
        pass
