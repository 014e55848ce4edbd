"""A REPL server that is a command of somebody's: a container, a remote shell, an interpreter.

It is spoken to over its stdin and stdout, by the delimited protocol. Requests may be written ahead; responses come in
order. Each byte is looked at once, and what is large is read and written outside of the event loop's thread.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import secrets
import signal
import subprocess
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
from anyio import TASK_STATUS_IGNORED

from cloche.errors import ProtocolError, SessionLostError, StartError, UnsupportedError
from cloche.executor.response import CutOut, REPLRequest, REPLResponse, failed, read_response
from cloche.executor.servers import NotAccepted, Server, timed_out
from cloche.json_cost import decoded_cost
from cloche.result import EXIT_CODES
from cloche_guest.repl_frames import CUT, READY, REQUEST, RESPONSE, DelimitedReader, cut_out_state, enclose, is_base64

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from anyio.abc import Process, TaskStatus

    from cloche.executor.settings import REPLSettings

CHUNK = 1 << 18
LARGE = 1 << 20
RESPONSE_SLACK = 1 << 28
"""Bytes of a response beside its state: two outputs, each byte of which may become six of JSON, and displays."""
MAX_WIDTH, MAX_STRUCTURE = 4, 1 << 26
"""Bytes of memory for a byte of text; and for all objects of a response, which has few, beside its texts."""
TAIL = 4000
BACKSTOP = 2.0
"""Seconds after our own limit at which the server ends the code itself, should it outlive us."""


@dataclass(slots=True, eq=False)
class _Waiting:
    """A request that was written, or is being written."""

    id: str
    done: anyio.Event = field(default_factory=anyio.Event)
    message: Any = None
    trouble: Exception | None = None


class ServerProcess(Server):
    """One process. `run` has to run in a task of its own, for as long as the server is used."""

    def __init__(
        self,
        command: Sequence[str],
        settings: REPLSettings,
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._command = list(command)
        self._settings = settings
        self._cwd, self._env = cwd, env
        self._process: Process | None = None
        self._frames = DelimitedReader(RESPONSE, limit=settings.state_max_bytes + RESPONSE_SLACK)
        self._ready = anyio.Event()
        self._over = anyio.Event()
        self._ended: str | None = None
        self._said = b""
        self._silent = False
        self._waiting: deque[_Waiting] = deque()
        self._writing = anyio.Lock()
        self._scope = anyio.CancelScope()

    # -- its life ------------------------------------------------------------------------------

    async def run(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Start the process, read what it says until it ends, and clean up after it."""
        try:
            with anyio.CancelScope(shield=True):  # cut short, it might leave a process that nobody knows of
                self._process = process = await anyio.open_process(
                    self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                    cwd=self._cwd, env=self._env, start_new_session=True,
                )  # fmt: skip
        except OSError as exc:
            raise StartError(f"{self._command[0]!r:.200} cannot be started", cause=exc.strerror) from None
        trouble: Exception | None = None
        try:
            task_status.started()
            with self._scope:
                async with anyio.create_task_group() as group:
                    group.start_soon(self._read_log, process)
                    try:
                        await self._read(process)
                    except Exception as exc:  # noqa: BLE001 - whatever it sent, it is this server that ends, and not all
                        trouble = exc
                    group.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await self._clean_up(process, trouble)

    async def _clean_up(self, process: Process, trouble: Exception | None) -> None:
        if self._silent:
            with anyio.move_on_after(1.0):  # it closed its output, and is given a moment to end by itself
                await process.wait()
        self._kill(process)
        await process.wait()
        if trouble is not None:
            self._ended = f"it broke the protocol: {trouble}"
        elif self._ended is None:
            self._ended = _describe(process.returncode)
        await process.aclose()
        self._over.set()
        for waiting in self._waiting:
            waiting.trouble = SessionLostError("the server ended before it answered", cause=self.why)
            waiting.done.set()
        self._waiting.clear()

    @property
    def why(self) -> str:
        """How it ended, with the last that it said."""
        said = self._said.decode("utf-8", "replace").strip()
        return f"{self._ended or 'it runs'}{': ' + said[-500:] if said else ''}"

    @property
    def ended(self) -> str | None:
        return self.why if self._over.is_set() or self._ended is not None else None

    async def over(self) -> None:
        """Until it has ended and everything of it is gone."""
        await self._over.wait()

    def _kill(self, process: Process) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)

    async def start(self) -> None:
        limit = self._settings.warmup_timeout_seconds
        with anyio.move_on_after(limit):
            async with anyio.create_task_group() as group:

                async def give_up() -> None:
                    await self._over.wait()
                    group.cancel_scope.cancel()

                group.start_soon(give_up)
                await self._ready.wait()
                group.cancel_scope.cancel()
        if self._ready.is_set() and not self._over.is_set():
            return
        if self._over.is_set():
            raise StartError("the server ended before it was ready", cause=self.why)
        await self.destroy()
        raise StartError(
            f"the server was not ready within {limit:g} s",
            cause=self._said.decode("utf-8", "replace").strip()[-500:] or None,
            remedy="raise REPL_WARMUP_TIMEOUT_SECONDS, or set PRELOAD_MODULES to less",
        )

    async def destroy(self) -> None:
        if self._process is None:
            return
        if self._ended is None:
            self._ended = "it was ended"
        self._scope.cancel()
        await self._over.wait()

    # -- requests ------------------------------------------------------------------------------

    async def check(self) -> None:
        if self.ended is not None:
            raise NotAccepted(self.ended)
        try:
            with anyio.fail_after(self._settings.health_check_timeout_seconds):
                response = read_response(await self._ask({"code": ""}), 0)
        except (TimeoutError, SessionLostError, ProtocolError) as exc:
            raise NotAccepted(f"it did not pass the health check: {str(exc) or 'no answer in time'}") from exc
        if response.exit_code != 0:
            raise NotAccepted(f"it did not pass the health check: {response.error}")

    async def serve(self, request: REPLRequest, seconds: float) -> REPLResponse:
        """Carry a request out. Several may be under way; they are served in order."""
        if request.files or request.collect_files:
            raise UnsupportedError(
                "a server that is a command has no files to put or collect",
                capability="files",
                remedy="leave `command` out, or bind a folder into the container",
            )
        message = {
            "code": request.code,
            "state": request.state,
            "capture_state": request.capture_state,
            "partial_state": True,
            "timeout": seconds + BACKSTOP,
        }
        try:
            with anyio.fail_after(seconds):
                answer = await self._ask(message)
        except TimeoutError:
            with anyio.CancelScope(shield=True):
                await self.destroy()
            raise timed_out(request, seconds) from None
        except SessionLostError as exc:
            return failed(str(exc), EXIT_CODES["killed"])
        try:
            return read_response(answer, self._settings.state_max_bytes)
        except ProtocolError as exc:
            self._ended = f"it broke the protocol: {exc.message}"
            with anyio.CancelScope(shield=True):
                await self.destroy()
            raise

    async def _ask(self, message: dict[str, Any]) -> Any:
        """Write a request and wait for its answer."""
        waiting = _Waiting(secrets.token_hex(8))
        large = sum(len(part) for part in (message["code"], message.get("state") or "")) > LARGE
        pieces = await _perhaps_in_a_thread(large, _enclose, {**message, "id": waiting.id})
        async with self._writing:
            if self.ended is not None or self._process is None or self._process.stdin is None:
                raise NotAccepted(self.ended or "it was not started")
            self._waiting.append(waiting)
            whole = False
            try:
                for piece in pieces:
                    for start in range(0, len(piece), CHUNK):
                        await self._process.stdin.send(piece[start : start + CHUNK])
                whole = True
            except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as exc:
                # Without its end marker it is no request: nothing of it was run.
                raise NotAccepted("it ended before the request was whole") from exc
            finally:
                if not whole:
                    if waiting in self._waiting:
                        self._waiting.remove(waiting)
                    self._scope.cancel()  # what is written next would be taken for the rest of this
        await waiting.done.wait()
        if waiting.trouble is not None:
            raise waiting.trouble
        return waiting.message

    # -- reading -------------------------------------------------------------------------------

    async def _read(self, process: Process) -> None:
        assert process.stdout is not None
        while True:
            try:
                chunk = await process.stdout.receive(CHUNK)
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                self._silent = True
                return
            for is_frame, data in self._frames.feed(chunk):
                if is_frame:
                    self._take(await _perhaps_in_a_thread(sum(map(len, data)) > LARGE, parse_frame, data))
                elif data == [READY]:
                    self._ready.set()

    def _take(self, message: Any) -> None:
        if not self._waiting:
            raise ProtocolError("the server answered although nothing was asked")
        waiting = self._waiting.popleft()
        if type(message) is not dict or message.get("id", waiting.id) != waiting.id:
            self._waiting.appendleft(waiting)
            raise ProtocolError("the server answered another request than the next one")
        waiting.message = message
        waiting.done.set()

    async def _read_log(self, process: Process) -> None:
        """The last of what it says on stderr, for whoever asks why it ended."""
        assert process.stderr is not None
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            while True:
                self._said = (self._said + await process.stderr.receive(CHUNK))[-TAIL:]


def _enclose(message: dict[str, Any]) -> Iterator[bytes]:
    """A request, in pieces that are made when they are wanted. A state is put in as it is: it needs no escapes."""
    state = message.get("state") or ""
    if len(state) < LARGE or not all(is_base64(piece) for piece in _slices(state)):
        return iter(enclose(REQUEST, json.dumps(message)))
    rest = {name: value for name, value in message.items() if name != "state"}
    start, *more = enclose(REQUEST, json.dumps(rest)[:-1] + ',"state":"', '"}')
    return itertools.chain([start, more[0]], _slices(state), more[1:])


def _slices(text: str) -> Iterator[bytes]:
    return (text[start : start + LARGE].encode("utf-8", "replace") for start in range(0, len(text), LARGE))


def parse_frame(frame: list[bytes]) -> Any:
    """What a server said. Raises `ProtocolError` for what is no JSON."""
    text, state = cut_out_state(frame)
    try:
        message = _decoded(text)
        if state is not None and (type(message) is not dict or message.get("state") != CUT):
            state, message = None, _decoded(b"".join(frame))
    except (ValueError, RecursionError) as exc:
        raise ProtocolError("the server's response is not JSON", cause=str(exc)[:200]) from None
    frame.clear()  # whoever still has it keeps nothing large alive
    if state is not None:
        message["state"] = CutOut([*state])
    return message


def _decoded(text: bytes) -> Any:
    if decoded_cost(text) > len(text) * MAX_WIDTH + MAX_STRUCTURE:
        raise ValueError(f"{len(text)} bytes with more parts than a response has")
    return json.loads(text)


async def _perhaps_in_a_thread(large: bool, function: Any, value: Any) -> Any:
    """What takes long for large data must not hold up everybody else."""
    return await anyio.to_thread.run_sync(function, value) if large else function(value)


def _describe(status: int | None) -> str:
    if status is not None and status < 0:
        return f"it was ended by signal {-status}"
    return f"it exited with status {math.nan if status is None else status}"
