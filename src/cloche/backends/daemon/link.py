"""A client's connection to the daemon: JSON-RPC 2.0 over a Unix socket, and descriptors that come with answers."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from cloche import errors
from cloche.backends.daemon.lines import Line, connect
from cloche.backends.daemon.places import Places
from cloche.errors import BackendUnavailableError, ClocheError, ProtocolError, RequestError
from cloche.session.frames import FrameReader, encode_frame

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_FRAME = 1 << 24
MAX_ATTACHMENT = 1 << 28
MAX_DESCRIPTORS = 64
"""Of one answer, several times over."""
STARTING = 0.05
"""Seconds between two looks at whether a daemon that is being started has come up."""
GONE = "the daemon is gone"
_START = "cloche daemon start; the next call tries again"
_KINDS = {kind.code: kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ClocheError)}


@dataclass(frozen=True, slots=True)
class _Answer:
    """An answer as it came."""

    message: dict[str, Any]
    descriptors: list[int]
    body: bytes | None

    def close(self) -> None:
        """Nobody wants the descriptors."""
        for descriptor in self.descriptors:
            os.close(descriptor)


class Link:
    """One connection. Calls of several threads are under way at once: whoever waits reads for all."""

    def __init__(self, places: Places, timeout: float) -> None:
        """Connect and prove who we are. Raises `BackendUnavailableError` when nobody answers in time."""
        self.owner = os.getpid()
        self.alive = True
        self._lost: str | None = None
        self._sending = threading.Lock()
        self._numbers = 0
        self._frames = FrameReader(MAX_FRAME, MAX_ATTACHMENT, "the daemon")
        self._descriptors: list[int] = []
        self._answered = threading.Condition()
        self._reading = False
        self._answers: dict[int, _Answer | None] = {}
        """Of calls that wait for one."""
        end = time.monotonic() + timeout
        used: str | None = None
        self._line: Line | None = None
        while True:
            try:
                self._line = connect(places, max(end - time.monotonic(), 0.001))
                used = _await_token(places, used, end)
                self.greeting, _, _ = self.call("auth", {"token": used}, timeout=max(end - time.monotonic(), 0.0))
            except (OSError, ClocheError) as exc:
                self.close()
                # it may have been started by our knocking, after we had read what its predecessor left
                if isinstance(exc, RequestError) and places.read_token() not in (used, None):
                    self.alive = True
                    continue
                raise BackendUnavailableError("no daemon answers", cause=_why(exc), remedy=_next_step(exc)) from None
            return

    def call(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: float,
        body: bytes | None = None,
    ) -> tuple[dict[str, Any], list[int], bytes | None]:
        """Ask and wait: the result, the descriptors that came with it, and raw bytes.

        A call that is not answered in time raises, and the connection stays; what comes after that is dropped.
        """
        end = time.monotonic() + timeout
        number = self._send(method, params, answered=True, body=body)
        answer = self._wait(number, end)
        if answer is None:
            with self._answered:
                late = self._answers.pop(number)
            if late is not None:  # it has come this moment
                late.close()
            raise BackendUnavailableError(
                "the daemon does not answer",
                cause=f"nothing came to {method} within {timeout:.1f} s",
                remedy="cloche daemon status; where it does not answer either, cloche daemon stop --force",
            )
        message = answer.message
        if "error" in message:
            answer.close()
            raise read_error(message["error"])
        result = message.get("result")
        if result is not None and type(result) is not dict:
            answer.close()
            self._lose("it answered with something that is no answer")
        return result or {}, answer.descriptors, answer.body

    def tell(self, method: str, params: Mapping[str, Any]) -> None:
        """Say something that is not answered."""
        with suppress(ClocheError):
            self._send(method, params, answered=False)

    def _send(self, method: str, params: Mapping[str, Any] | None, *, answered: bool, body: bytes | None = None) -> int:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": dict(params or {})}
        if body is not None:
            message["attachment"] = len(body)
        with self._sending:
            self._check()
            assert self._line is not None
            self._numbers += 1
            number = self._numbers
            if answered:
                message["id"] = number
                with self._answered:
                    self._answers[number] = None
            try:
                self._line.send(encode_frame(message) + (body or b""))
            except OSError as exc:
                self._lose(str(exc))
            return number

    def _check(self) -> None:
        if self.owner != os.getpid() or self._line is None or not self.alive:
            cause = self._lost if self.owner == os.getpid() else "it was reached by the process that forked this one"
            raise BackendUnavailableError(GONE, cause=cause, remedy=_START)

    def _wait(self, number: int, end: float) -> _Answer | None:
        """The answer to a call; None when it does not come in time."""
        while True:
            with self._answered:
                answer = self._answers[number]
                if answer is not None:
                    del self._answers[number]
                    return answer
                left = end - time.monotonic()
                if not self.alive:
                    del self._answers[number]
                    self._check()
                if left <= 0:
                    return None
                if self._reading:
                    self._answered.wait(left)
                    continue
                self._reading = True
            try:
                self._read(left)
            finally:
                with self._answered:
                    self._reading = False
                    self._answered.notify_all()

    def _read(self, patience: float) -> None:
        """Take what has come, for whoever waits for it."""
        assert self._line is not None
        try:
            data, found = self._line.receive(patience)
        except TimeoutError:
            return
        except OSError as exc:
            self._lose(str(exc))
        self._descriptors += found
        if not data:
            self._lose("it closed the connection")
        try:
            frames = [(frame, None if body is None else bytes(body)) for frame, body in self._frames.feed(data)]
        except ProtocolError as exc:
            self._lose(str(exc))
        with self._answered:
            for message, body in frames:
                count = _whole(message.get("descriptors"))
                taken, self._descriptors = self._descriptors[:count], self._descriptors[count:]
                answer, number = _Answer(message, taken, body), _whole(message.get("id"))
                if "method" not in message and self._answers.get(number, answer) is None:
                    self._answers[number] = answer
                else:
                    answer.close()  # whoever asked did not wait for it
        if len(self._descriptors) > MAX_DESCRIPTORS:  # more than those of one answer whose end has not come
            self._lose("it sent descriptors that nobody asked for")

    def _lose(self, why: str) -> NoReturn:
        with self._answered:
            self.alive = False
            self._lost = self._lost or why
            self._answered.notify_all()
        raise BackendUnavailableError(GONE, cause=why, remedy=_START)

    def close(self) -> None:
        """Leave. The daemon ends what was ours."""
        self.alive = False
        if self._line is not None:
            self._line.close()
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors = []


def _whole(said: Any) -> int:
    return said if type(said) is int and said > 0 else 0


def _why(exc: OSError | ClocheError) -> str:
    if isinstance(exc, ClocheError):
        return exc.cause or exc.message
    return exc.strerror or str(exc)


def _next_step(exc: OSError | ClocheError) -> str:
    """Where there is none, start one; where one is and does not let us in, see what it is."""
    absent = isinstance(exc, (FileNotFoundError, NotADirectoryError, ConnectionRefusedError))
    return "cloche daemon start" if absent else "cloche daemon status"


def _await_token(places: Places, refused: str | None, end: float) -> str:
    """What the daemon wants to hear. One that starts because somebody knocks writes it down first."""
    while True:
        token = places.read_token()
        if token is not None and token != refused:
            return token
        if time.monotonic() + STARTING > end:
            raise OSError("its token cannot be read")
        time.sleep(STARTING)


class Links:
    """One connection for this process; a forked child makes its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[Places, Link] = {}
        os.register_at_fork(after_in_child=self._forget)

    def get(self, places: Places, timeout: float) -> Link:
        """The live connection, or a new one."""
        with self._lock:
            link = self._found.get(places)
            if link is None or not link.alive:
                if link is not None:
                    link.close()
                link = self._found[places] = Link(places, timeout)
            return link

    def close(self) -> None:
        """Leave all daemons."""
        with self._lock:
            found, self._found = self._found, {}
        for link in found.values():
            link.close()

    def _forget(self) -> None:
        self._lock = threading.Lock()
        found, self._found = self._found, {}
        for link in found.values():
            link.close()


links = Links()


def read_error(said: Any) -> ClocheError:
    """The error that the daemon reported, as if it had been raised here."""
    data = said.get("data") if isinstance(said, dict) else None
    data = data if isinstance(data, dict) else {}
    message = str(said.get("message", "refused")) if isinstance(said, dict) else "refused"
    kind = _KINDS.get(str(data.get("type")), RequestError)
    extra = {name: str(data[name]) for name in ("cause", "remedy") if data.get(name) is not None}
    special = {"unsupported": "capability", "quota": "quota", "call_timeout": "session_state", "bad_policy": "field"}
    name = special.get(kind.code)
    if name is not None:
        extra[name] = str(data.get(name, ""))
    try:
        return kind(message, **extra)
    except TypeError:
        return RequestError(message, cause=extra.get("cause"), remedy=extra.get("remedy"))
