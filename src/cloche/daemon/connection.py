"""One client of the daemon: who it is, what it asks, and what is asked of it."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import anyio

from cloche import __version__
from cloche.daemon.doors import Stream, peer_of
from cloche.daemon.lending import LendingDesk
from cloche.daemon.mishaps import do_all, report
from cloche.daemon.sessions import SessionDesk
from cloche.daemon.sweeping import sweep_after
from cloche.errors import ClocheError, MachineError, ProtocolError
from cloche.session.frames import FrameReader, encode_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anyio.abc import TaskGroup

    from cloche.daemon.server import Daemon

PROTOCOL = 1
MAX_FRAME = 1 << 24
MAX_ATTACHMENT = 1 << 28
MOST_HELD = 1 << 29
"""Bytes of all clients together that the daemon holds for requests under way, and for frames whose end has not come.
When they come to more, the client that holds the most is shown out."""
FIRST_FRAME = 4096
"""Bytes that a stranger may send."""
INTRODUCTION = 5.0
"""Seconds that a stranger has."""
MOST_REQUESTS = 256
"""Under way at once; a client that asks for more is read no further until one is answered."""
AT_ONCE = 1 << 16
"""Bytes that are sent without asking whether there is room for them."""
LAST_WORDS = 1.0
"""Seconds in which a client that is shown out can be told why."""
UNAUTHORISED, FAILED, NO_METHOD, BAD_REQUEST, INTERNAL = -32001, -32000, -32601, -32600, -32603


class Refusal(Exception):
    """An answer that is an error of the protocol itself."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Connection:
    """Speaks JSON-RPC 2.0 with one client, in both directions."""

    def __init__(self, daemon: Daemon, stream: Stream) -> None:
        self._daemon = daemon
        self._stream = stream
        self._sending = anyio.Lock(fast_acquire=True)
        self._room = anyio.Semaphore(MOST_REQUESTS, fast_acquire=True)
        self._frames = FrameReader(FIRST_FRAME, 0, "the client")
        self._asked: dict[int, tuple[anyio.Event, list[dict[str, Any]]]] = {}
        self._next_id = 0
        self.held = 0
        """Bytes that are kept in memory for this client."""
        self._dismissed = False
        self._group: TaskGroup | None = None
        self.owner = ""
        self._methods: dict[str, Callable[..., Any]] = {}
        self._desks: list[Any] = []
        self._lending: LendingDesk | None = None

    async def serve(self) -> None:
        """Until the client goes away or misbehaves. What it had is ended then, unless it was detached."""
        uid, pid = peer_of(self._stream)
        if uid not in (None, self._daemon.uid, 0):
            await self._stream.aclose()
            return
        try:
            async with anyio.create_task_group() as self._group:
                self._daemon.clients.add(self)
                try:
                    with anyio.fail_after(INTRODUCTION):
                        known = await self._introduce(pid)
                    if known:
                        await self._listen()
                except TimeoutError:
                    await self.show_out(UNAUTHORISED, f"auth did not come within {INTRODUCTION:g} s")
                except ProtocolError as exc:
                    await self.show_out(BAD_REQUEST, str(exc))
                self._group.cancel_scope.cancel()
        except* (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError):
            pass
        finally:
            self._daemon.clients.discard(self)
            self._hold(-self.held)
            with anyio.CancelScope(shield=True):
                abrupt = self._lending is not None and self._lending.has_lent
                await do_all(desk.close for desk in self._desks)
                await self._stream.aclose()
        if abrupt and pid is not None:
            await sweep_after(pid)

    async def show_out(self, code: int, why: str) -> None:
        """Tell the client why its connection ends now, if it listens."""
        with anyio.move_on_after(LAST_WORDS):
            await self._send({"id": None, "error": {"code": code, "message": why[:500]}})

    def _hold(self, more: int) -> None:
        """Count what is kept in memory for this client."""
        self.held += more
        self._daemon.held += more
        if more > 0 and self._daemon.held > MOST_HELD:
            largest = max(self._daemon.clients, key=lambda client: client.held, default=self)
            if largest is self:
                raise _held_too_much()
            largest.dismiss()

    def dismiss(self) -> None:
        """Show the client out, since it holds the most of what the daemon can hold."""
        if self._group is not None and not self._dismissed:
            self._dismissed = True
            self._group.start_soon(self._leave)

    async def _leave(self) -> None:
        assert self._group is not None
        await self.show_out(BAD_REQUEST, str(_held_too_much()))
        self._group.cancel_scope.cancel()

    async def _introduce(self, pid: int | None) -> bool:
        """The first frame must prove that the client may be here."""
        while True:
            for message, _ in self._frames.feed(await self._stream.receive()):
                params = message.get("params")
                token = params.get("token") if isinstance(params, dict) else None
                known = isinstance(token, str) and secrets.compare_digest(token.encode(), self._daemon.token.encode())
                if message.get("method") != "auth" or not known:
                    wrong = (
                        "the token is wrong" if message.get("method") == "auth" else "call auth with the token first"
                    )
                    await self._send({"id": message.get("id"), "error": {"code": UNAUTHORISED, "message": wrong}})
                    return False
                self.owner = str(params.get("owner") or f"process {pid}")[:100]  # type: ignore[union-attr]  # a dict: it had a token
                self._frames = FrameReader(MAX_FRAME, MAX_ATTACHMENT, "the client")
                lending = LendingDesk(self._daemon.pool, self._daemon.cloakroom, self.owner)
                sessions = SessionDesk(self._daemon, self)
                self._lending, self._desks = lending, [lending, sessions]
                self._methods = {**sessions.methods, **lending.methods, "ping": self._ping, "stats": self._stats}
                greeting = {"authenticated": True, "protocol": PROTOCOL, "version": __version__, "owner": self.owner}
                await self._send({"id": message.get("id"), "result": greeting})
                return True

    async def _listen(self) -> None:
        assert self._group is not None
        unfinished = 0
        while True:
            for message, attachment in self._frames.feed(await self._stream.receive(1 << 16)):
                self._daemon.touch()
                size = self._frames.cost + len(attachment or b"")
                self._hold(size - unfinished)
                unfinished = 0
                if "method" in message:
                    await self._room.acquire()
                    body = None if attachment is None else bytes(attachment)
                    self._group.start_soon(self._answer, message, body, size)
                else:
                    self._hold(-size)
                    self._take_reply(message)
            self._hold(self._frames.held - unfinished)
            unfinished = self._frames.held

    # -- what it asks --------------------------------------------------------------------------

    async def _answer(self, message: dict[str, Any], attachment: bytes | None, size: int) -> None:
        self._daemon.requests += 1
        try:
            said, descriptors, body = await self._reply(message, attachment)
            if message.get("id") is not None:
                await self._send({"id": message["id"], **said}, descriptors, body)
        finally:
            self._hold(-size)
            self._room.release()
            self._daemon.requests -= 1

    async def _reply(
        self, message: dict[str, Any], attachment: bytes | None
    ) -> tuple[dict[str, Any], list[int], bytes | None]:
        """(result or error, descriptors, raw bytes)."""
        descriptors: list[int] = []
        body: bytes | None = None
        try:
            reply = await self._call(message, attachment)
            result, *extra = reply if isinstance(reply, tuple) else (reply,)
            for part in extra:
                if isinstance(part, bytes):
                    body = part
                else:
                    descriptors = part
            if body is not None and len(body) > MAX_ATTACHMENT:
                raise Refusal(FAILED, f"the answer has {len(body)} bytes; {MAX_ATTACHMENT} fit into an attachment")
            said: dict[str, Any] = {"result": result}
        except Refusal as exc:
            said = {"error": {"code": exc.code, "message": str(exc)}}
        except ClocheError as exc:
            said = {"error": plain_error(self._daemon.explain(exc))}
        except (TypeError, ValueError, KeyError, AttributeError) as exc:
            said = {"error": {"code": BAD_REQUEST, "message": f"{type(exc).__name__}: {exc}"[:500]}}
        except Exception as exc:  # noqa: BLE001 - a full disk or a fault of ours: one request fails, and not the house
            report(exc)
            failure = MachineError(
                "the daemon failed", cause=f"{type(exc).__name__}: {exc}"[:500], remedy="cloche daemon logs"
            )
            said = {"error": {**plain_error(failure), "code": INTERNAL}}
        return said, descriptors, body

    async def _call(self, message: dict[str, Any], attachment: bytes | None) -> Any:
        method = self._methods.get(str(message.get("method")))
        params = message.get("params", {})
        if method is None:
            raise Refusal(NO_METHOD, f"there is no method {str(message.get('method'))[:60]!r}")
        if not isinstance(params, dict):
            raise Refusal(BAD_REQUEST, "params must be an object")
        if attachment is not None:
            params = {**params, "attachment": attachment}
        return await method(params)

    async def _ping(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return self._daemon.describe()

    async def _stats(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return {**self._daemon.describe(), "pool": self._daemon.pool.stats()}

    # -- what is asked of it -------------------------------------------------------------------

    async def ask(self, method: str, params: dict[str, Any]) -> Any:
        """Ask the client and wait for its answer; raises what it answers with."""
        self._next_id += 1
        number = self._next_id
        answered = anyio.Event()
        replies: list[dict[str, Any]] = []
        self._asked[number] = (answered, replies)
        try:
            await self._send({"id": number, "method": method, "params": params})
            await answered.wait()
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True), anyio.move_on_after(1):
                await self.tell("cancelled", {"id": number})
            raise
        finally:
            del self._asked[number]
        if "error" in replies[0]:
            error = replies[0]["error"]
            raise RuntimeError(str(error.get("message", "") if isinstance(error, dict) else error)[:1000])
        return replies[0].get("result")

    async def tell(self, method: str, params: dict[str, Any]) -> None:
        """Say something to the client. While it does not read, whoever prints to it waits, and nobody else."""
        await self._send({"method": method, "params": params})

    def _take_reply(self, message: dict[str, Any]) -> None:
        asked = self._asked.get(message.get("id"))  # type: ignore[arg-type]  # whatever was sent is not there
        if asked is not None:
            answered, replies = asked
            replies.append(message)
            answered.set()

    async def _send(
        self, message: dict[str, Any], descriptors: list[int] | None = None, body: bytes | None = None
    ) -> None:
        frame: dict[str, Any] = {"jsonrpc": "2.0", **message}
        if body is not None:
            frame["attachment"] = len(body)
        if descriptors:
            frame["descriptors"] = len(descriptors)  # answers are read for several callers: to whom these belong
        data = encode_frame(frame)
        async with self._sending:
            # with all of a short answer: whoever waits for it is woken once
            sent = self._stream.send_now(data[:AT_ONCE], descriptors or ())
            if not sent and descriptors:
                await self._stream.send_fds(data[:AT_ONCE], descriptors)
                sent = min(len(data), AT_ONCE)
            if sent < len(data):
                await self._stream.send(data[sent:])
            if body is not None:
                await self._stream.send(body)


def _held_too_much() -> ProtocolError:
    return ProtocolError(
        "the daemon holds as much as it can", cause=f"{MOST_HELD} bytes of all clients", remedy="send less at once"
    )


def plain_error(exc: ClocheError) -> dict[str, Any]:
    """An error that the client can raise as what it is."""
    data: dict[str, Any] = {"type": exc.code, "cause": exc.cause, "remedy": exc.remedy}
    for name in ("capability", "quota", "session_state", "field"):
        if hasattr(exc, name):
            data[name] = getattr(exc, name)
    return {"code": FAILED, "message": exc.message, "data": data}
