"""Test doubles for people who test agents: a sandbox that does what a script says, and a model that does too.

::

    script = Script({"fetch()": Answer(stdout="42\\n"), "crash()": DIE})
    with create_sandbox(backend="fake", script=script, on_llm_query=ScriptedModel(["yes"])) as sandbox:
        assert sandbox.execute("fetch()").stdout == "42\\n"
        assert sandbox.execute("1 + 1").value == "2"  # not in the script: runs for real
        assert script.cells == ["fetch()", "1 + 1"]

The double stands in for the *guest*, not for the sandbox: a scripted reply crosses the same wire and goes
through the same session machine as a real one, so deadlines, cancelling, loss and results are those of
production. Code that the script does not know runs in a real child process, as on the native backend.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

from cloche.backends.native import NativeBackend, NativeChannel
from cloche.errors import StartError
from cloche.sandbox import SessionSandbox
from cloche.session.channel import Availability, Backend, Channel, Exit

if TYPE_CHECKING:
    import os
    from io import BufferedReader

    from cloche.isolation import Isolation
    from cloche.logger import SandboxLogger
    from cloche.policy import ExecutionPolicy
    from cloche.session.workspace import Workspace

_LONGEST_REPLY = 1 << 16  # of a request that we put there ourselves; longer lines are the guest's and only copied
_CHUNK = 1 << 16
_PATIENCE = 5.0


class Act:
    """What becomes of a scripted cell: an `Answer` or a `Fate`."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(Act):
    """What a scripted cell does: it prints, has a value, and perhaps raises or exits."""

    stdout: str = ""
    stderr: str = ""
    value: str | None = None
    raises: BaseException | None = None
    exit_code: int | None = None

    def result(self) -> dict[str, Any]:
        """The guest's reply."""
        reply: dict[str, Any] = {"outcome": "ok"}
        if self.value is not None:
            reply["value"] = self.value
        if self.exit_code is not None:
            reply |= {"outcome": "exited", "code": self.exit_code}
        elif self.raises is not None:
            kind, message = type(self.raises).__name__, str(self.raises)
            text = f"Traceback (most recent call last):\n{kind}: {message}\n"
            reply["outcome"] = "memory" if isinstance(self.raises, MemoryError) else "error"
            reply["exception"] = {"type": kind, "message": message, "line": 1, "traceback": text}
        return reply


class Fate(Act, Enum):
    """What else can become of a cell."""

    DIE = "die"
    """The guest dies while it runs."""
    HANG = "hang"
    """It never ends, and does not hear when it is asked to: only the kill helps."""
    STALL = "stall"
    """It goes on until it is asked to stop, and then stops."""


DIE, HANG, STALL = Fate.DIE, Fate.HANG, Fate.STALL

Rule = tuple[str | Callable[[str], bool], Act | Callable[[str], Act]]


class Script:
    """Which cells are not run but played, and how; and a record of every cell, played or run.

    `rules` is a mapping from the exact text of a cell to an act, a list of (text or predicate, act) pairs of
    which the first that fits counts, or a function that is given the text and returns an act, or None to run
    it for real. In place of an act a rule may have a function that makes one from the text.
    """

    def __init__(
        self,
        rules: Mapping[str, Act] | Iterable[Rule] | Callable[[str], Act | None] = (),
        *,
        refused_starts: int = 0,
    ) -> None:
        self.cells: list[str] = []
        """Every cell that reached the guest, in order."""
        self.starts = 0
        """Guests that were started."""
        self.refused_starts = refused_starts
        """So many attempts to start a guest fail with `StartError`."""
        self._choose = rules if callable(rules) else None
        self._rules: list[Rule] = []
        if isinstance(rules, Mapping):
            self._rules = list(rules.items())
        elif not callable(rules):
            self._rules = list(rules)
        self._live: list[FakeChannel] = []

    def act(self, code: str) -> Act | None:
        """Note the cell and look up what becomes of it; None: it is run."""
        self.cells.append(code)
        if self._choose is not None:
            return self._choose(code)
        for test, act in self._rules:
            if test(code) if callable(test) else test == code:
                return act(code) if callable(act) else act
        return None

    def lose_session(self) -> None:
        """Let the guest die between two cells, as a machine that runs out of memory would."""
        for channel in list(self._live):
            channel.lose()

    def opened(self, channel: FakeChannel) -> None:
        """A guest was started."""
        self.starts += 1
        self._live.append(channel)

    def closed(self, channel: FakeChannel) -> None:
        """A guest was given up."""
        self._live.remove(channel)


class _Line(socket.socket):
    """The host's end. What is sent to a guest that has ended is refused at once, as on a line without us on it."""

    __slots__ = ("guest",)
    guest: socket.socket

    def send(self, data: Any, flags: int = 0, /) -> int:
        with suppress(BlockingIOError):
            if not self.guest.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT):
                raise BrokenPipeError
        return super().send(data, flags)


class FakeChannel(Channel):
    """A native guest with somebody on the line: two threads copy frames and answer scripted cells."""

    def __init__(self, guest: NativeChannel, script: Script) -> None:
        self._guest = guest
        self._script = script
        near, self._far = socket.socketpair()
        self.wire = line = _Line(fileno=near.detach())
        line.guest = guest.wire
        line.setblocking(False)
        self.stdout, self.stderr = guest.stdout, guest.stderr
        self.isolation, self.layers = guest.isolation, guest.layers
        self.workspace, self.greeting = guest.workspace, guest.greeting
        guest.wire.setblocking(True)
        self._played: dict[int, Act] = {}  # requests that became a ping, and what its reply is to become
        self._stalled: int | None = None
        self._sending = threading.Lock()
        self._closed = False
        self._threads = [
            threading.Thread(target=copy, name="cloche-fake", daemon=True) for copy in (self._to_guest, self._to_host)
        ]
        script.opened(self)
        for thread in self._threads:
            thread.start()

    # -- the two directions --------------------------------------------------------------------

    def _to_guest(self) -> None:
        with suppress(OSError), self._far.makefile("rb") as frames:
            while line := frames.readline():
                message = json.loads(line)
                if message.get("method") == "execute":
                    line = self._play(message) or line
                self._guest.wire.sendall(line)
                _copy_body(frames, message, self._guest.wire.sendall)
        with suppress(OSError):
            self._guest.wire.shutdown(socket.SHUT_WR)

    def _play(self, message: dict[str, Any]) -> bytes | None:
        """What goes to the guest in place of a scripted cell: its reply keeps our answer's place."""
        act = self._script.act(message["params"]["code"])
        if act is None:
            return None
        self._played[message["id"]] = act
        return _frame({**message, "method": "ping", "params": {}})

    def _to_host(self) -> None:
        with suppress(OSError), self._guest.wire.makefile("rb") as frames:
            while line := frames.readline(_LONGEST_REPLY):
                if not line.endswith(b"\n"):
                    self._send(line)
                    continue
                message = _parse(line)
                act = self._played.pop(message.get("id", 0), None) if "method" not in message else None
                if act is None:
                    self._send(line)
                    _copy_body(frames, message, self._send)
                else:
                    self._perform(message["id"], act)
        self._hang_up()

    def _send(self, data: bytes) -> None:
        with self._sending:
            self._far.sendall(data)

    def _perform(self, number: int, act: Act) -> None:
        if isinstance(act, Answer):
            for stream in ("stdout", "stderr"):
                text = getattr(act, stream)
                if text:
                    self._send(_frame({"method": "output", "params": {"stream": stream, "text": text}}))
            self._send(_frame({"id": number, "result": act.result()}))
        elif act is STALL:
            self._stalled = number
        elif act is DIE:
            self._guest.kill()

    def _hang_up(self) -> None:
        with suppress(OSError):
            self._far.shutdown(socket.SHUT_RDWR)

    # -- the channel ---------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        """The guest's process."""
        return self._guest.pid

    def interrupt(self, *, insist: bool) -> None:
        number, self._stalled = self._stalled, None
        if number is None:
            self._guest.interrupt(insist=insist)
            return
        with suppress(OSError):
            self._send(_frame({"id": number, "result": {"outcome": "interrupted", "interrupts": 1}}))

    def lose(self) -> None:
        """Die now."""
        self._guest.kill()
        self._hang_up()

    def kill(self) -> None:
        self._guest.kill()

    def reap(self, timeout: float) -> Exit | None:
        return self._guest.reap(timeout)

    def watch_exit(self) -> int | None:
        return self._guest.watch_exit()

    def cpu_seconds(self) -> float | None:
        return self._guest.cpu_seconds()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._script.closed(self)
        self._guest.kill()
        self.wire.close()
        self._hang_up()
        for thread in self._threads:
            thread.join(_PATIENCE)  # both read from sockets whose other end is gone
        self._guest.close()
        self._far.close()


class FakeBackend(Backend):
    """The native backend behind a script."""

    name: ClassVar[str] = "fake"
    capabilities: ClassVar[frozenset[str]] = NativeBackend.capabilities
    options: ClassVar[tuple[str, ...]] = ("script", "python")

    def __init__(self, *, script: Script | None = None, python: str | os.PathLike[str] | None = None) -> None:
        self.script = script if script is not None else Script()
        self._native = NativeBackend(python=python)

    @classmethod
    def probe(cls, *, python: str | os.PathLike[str] | None = None, **_: Any) -> Availability:
        return NativeBackend.probe(python=python)

    def expected_isolation(self) -> Isolation:
        return self._native.expected_isolation()

    def open(self, policy: ExecutionPolicy, workspace: Workspace, timeout: float) -> FakeChannel:
        if self.script.refused_starts > 0:
            self.script.refused_starts -= 1
            raise StartError("the guest did not start", cause="the script refuses it")
        return FakeChannel(self._native.open(policy, workspace, timeout), self.script)


class FakeSandbox(SessionSandbox):
    """A sandbox whose guest follows a `Script`."""

    backend_type: ClassVar[type[FakeBackend]] = FakeBackend

    def __init__(
        self,
        policy: ExecutionPolicy | None = None,
        workspace: str | os.PathLike[str] | None = None,
        logger: SandboxLogger | None = None,
        *,
        script: Script | None = None,
        **options: Any,
    ) -> None:
        self.script = script if script is not None else Script()
        super().__init__(policy, workspace, logger, script=self.script, **options)


FakeBackend.sandbox = FakeSandbox


class ScriptedModel:
    """A model that says what it is told to: for `on_llm_query`, `on_rlm_query` or any tool.

    `answers` is a list that is used up in order of the calls, or a mapping from prompts to answers (the right
    choice for batches, whose items run at the same time). An answer that is an exception is raised; one that
    is callable is given the prompt. A prompt without an answer raises LookupError, which the cell meets as a
    failed bridge call.
    """

    def __init__(self, answers: Iterable[Any] | Mapping[str, Any]) -> None:
        self._by_prompt = dict(answers) if isinstance(answers, Mapping) else None
        self._in_order = [] if isinstance(answers, Mapping) else list(answers)
        self._lock = threading.Lock()
        self.prompts: list[str] = []
        """First argument of each call."""
        self.calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        """All arguments of each call."""

    def __call__(self, prompt: str, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            self.prompts.append(prompt)
            self.calls.append(((prompt, *args), kwargs))
            answer = self._next(prompt)
        if isinstance(answer, BaseException):
            raise answer
        return answer(prompt) if callable(answer) else answer

    def _next(self, prompt: str) -> Any:
        if self._by_prompt is not None:
            if prompt not in self._by_prompt:
                raise LookupError(f"the scripted model has no answer to {prompt!r}")
            return self._by_prompt[prompt]
        if not self._in_order:
            raise LookupError(f"the scripted model has no answer left, and was asked {prompt!r}")
        return self._in_order.pop(0)


def _frame(message: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode("ascii") + b"\n"


def _parse(line: bytes) -> dict[str, Any]:
    """A frame of the guest; what is none is for the session to judge."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def _copy_body(frames: BufferedReader, message: dict[str, Any], send: Callable[[bytes], object]) -> None:
    left = message.get("attachment")
    while isinstance(left, int) and left > 0 and (part := frames.read1(min(left, _CHUNK))):
        send(part)
        left -= len(part)
