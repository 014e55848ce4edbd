"""Sessions that the daemon drives itself, for clients in any language: the contract as JSON-RPC methods."""

from __future__ import annotations

import base64
from functools import partial
from typing import TYPE_CHECKING, Any

from cloche.backends.daemon.policies import read_policy
from cloche.daemon.mishaps import do_all
from cloche.errors import RequestError, UnknownSessionError
from cloche.session.callbacks import calling_sandbox
from cloche.session.operations import outgoing
from cloche_guest.values import decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cloche.daemon.connection import Connection
    from cloche.daemon.server import Daemon
    from cloche.pool.pool import Pool
    from cloche.pool.session import PooledSession

MAX_VALUE = 1 << 24


class Routes:
    """To whom the calls and the output of each session go. To nobody, while it is detached."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.clients: dict[str, Connection] = {}

    async def bridge(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """A bridge call: from the guest through the daemon to the client, and back. A session and its branches share
        this function: who calls is asked of the session layer."""
        number = calling_sandbox()
        session = next((one for one in self._pool.sessions() if one.sandbox and one.sandbox.id == number), None)
        client = None if session is None else self.clients.get(session.id)
        if session is None or client is None:
            raise RuntimeError("no client is attached to this session")
        params = {
            "session": session.id,
            "name": name,
            "args": [encode(value, MAX_VALUE) for value in args],
            "kwargs": {key: encode(value, MAX_VALUE) for key, value in kwargs.items()},
        }
        return decode(await client.ask("bridge", params))

    async def show(self, session: str, stream: str, text: str) -> None:
        """Output as it comes."""
        client = self.clients.get(session)
        if client is not None:
            await client.tell("output", {"session": session, "stream": stream, "text": text})


class SessionDesk:
    """The sessions of one client."""

    def __init__(self, daemon: Daemon, connection: Connection) -> None:
        self._daemon = daemon
        self._connection = connection
        self._mine: dict[str, PooledSession] = {}
        self.methods: dict[str, Callable[[Mapping[str, Any]], Any]] = {
            "session.open": self._open,
            "session.attach": self._attach,
            "session.detach": self._detach,
            "session.close": self._close,
            "session.list": self._list,
            "session.execute": self._execute,
            "session.cancel": self._cancel,
            "session.extend": self._extend,
            "session.initialize": self._initialize,
            "session.validate": self._validate,
            "session.get_variable": self._get_variable,
            "session.set_variable": self._set_variable,
            "session.list_variables": self._list_variables,
            "session.put_file": self._put_file,
            "session.get_file": self._get_file,
            "session.list_files": self._list_files,
            "session.snapshot": self._snapshot,
            "session.restore": self._restore,
            "session.reset": self._reset,
            "session.fork": self._fork,
            "session.savepoint": self._savepoint,
            "session.undo": self._undo,
            "run": self._run,
        }

    def _session(self, params: Mapping[str, Any]) -> PooledSession:
        found = self._mine.get(str(params.get("session")))
        if found is None:
            raise UnknownSessionError("there is no such session of yours", remedy="session.open, or session.attach")
        return found

    def _keep(self, session: PooledSession) -> dict[str, Any]:
        self._daemon.routes.clients[session.id] = self._connection
        self._mine[session.id] = session  # from here on it ends with the client, whatever goes wrong
        return {"session": session.id, "key": session.key, "capabilities": sorted(session.capabilities)}

    # -- life ----------------------------------------------------------------------------------

    async def _open(self, params: Mapping[str, Any]) -> dict[str, Any]:
        bridge = self._daemon.routes.bridge
        options: dict[str, Any] = {"policy": read_policy(params.get("policy"))}
        bridges = params.get("bridges", [])
        for name in bridges:
            if name not in ("llm_query", "rlm_query"):
                raise RequestError(
                    f"there is no bridge {name!r:.60}", remedy="llm_query, rlm_query; use tools for others"
                )
            options[f"on_{name}"] = partial(bridge, name)
        tools = {
            str(tool["name"]): {"tool": partial(bridge, str(tool["name"])), "description": str(tool.get("doc", ""))}
            for tool in params.get("tools", [])
        }
        if tools:
            options["tools"] = tools
        context = _context(params)
        session = await self._daemon.pool.open(self._connection.owner, context=context, **options)
        return self._keep(session)

    async def _attach(self, params: Mapping[str, Any]) -> dict[str, Any]:
        session = self._daemon.pool.find(str(params.get("session")), key=str(params.get("key", "")))
        if self._daemon.routes.clients.get(session.id, self._connection) is not self._connection:
            raise RequestError("another client has this session", remedy="it must detach first")
        return self._keep(session)

    async def _detach(self, params: Mapping[str, Any]) -> dict[str, Any]:
        session = self._session(params)
        self._let_go(session)
        return {"session": session.id, "key": session.key}

    def _let_go(self, session: PooledSession) -> None:
        self._mine.pop(session.id, None)
        self._daemon.routes.clients.pop(session.id, None)

    async def _close(self, params: Mapping[str, Any]) -> dict[str, Any]:
        session = self._session(params)
        self._let_go(session)
        await session.close()
        return {}

    async def close(self) -> None:
        """The client is gone."""
        sessions = list(self._mine.values())
        for session in sessions:
            self._let_go(session)
        await do_all(partial(session.close, "its client is gone") for session in sessions)

    async def _list(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return {"sessions": [{"session": one.id, "state": one.state} for one in self._mine.values()]}

    async def _extend(self, params: Mapping[str, Any]) -> dict[str, Any]:
        self._session(params).extend()
        return {}

    # -- cells ---------------------------------------------------------------------------------

    async def _execute(self, params: Mapping[str, Any]) -> dict[str, Any]:
        session = self._session(params)
        show = partial(self._daemon.routes.show, session.id) if params.get("live") else None
        stdin = None if params.get("stdin") is None else _text(params, "stdin")
        result = await session.execute(
            _text(params, "code"), timeout_ms=params.get("timeout_ms"), on_output=show, stdin=stdin
        )
        return result.to_dict()

    async def _run(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """One request in a fresh sandbox."""
        options = {"policy": read_policy(params.get("policy"))}
        result = await self._daemon.pool.run(
            self._connection.owner, _text(params, "code"), context=_context(params),
            timeout_ms=params.get("timeout_ms"), **options,
        )  # fmt: skip
        return result.to_dict()

    async def _cancel(self, params: Mapping[str, Any]) -> dict[str, Any]:
        self._session(params).cancel()
        return {}

    async def _initialize(self, params: Mapping[str, Any]) -> dict[str, Any]:
        await self._session(params).initialize(_context(params), timeout_ms=params.get("timeout_ms"))
        return {}

    async def _validate(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return {"valid": await self._session(params).validate_code(_text(params, "code"))}

    async def _reset(self, params: Mapping[str, Any]) -> dict[str, Any]:
        await self._session(params).reset()
        return {}

    # -- variables and files -------------------------------------------------------------------

    async def _get_variable(self, params: Mapping[str, Any]) -> dict[str, Any]:
        missing = object()
        value = await self._session(params).get_variable(_text(params, "name"), missing)
        return {"found": False} if value is missing else {"found": True, "value": encode(value, MAX_VALUE)}

    async def _set_variable(self, params: Mapping[str, Any]) -> dict[str, Any]:
        value = decode(params.get("value"))
        outgoing(value, MAX_VALUE, "value")
        await self._session(params).set_variable(_text(params, "name"), value)
        return {}

    async def _list_variables(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return {"variables": await self._session(params).list_variables()}

    async def _put_file(self, params: Mapping[str, Any]) -> dict[str, Any]:
        data = params.get("attachment")
        if data is None:
            data = base64.b64decode(_text(params, "data"), validate=True)
        await self._session(params).put_file(_text(params, "path"), data)
        return {}

    async def _get_file(self, params: Mapping[str, Any]) -> tuple[dict[str, Any], bytes]:
        return {}, await self._session(params).get_file(_text(params, "path"))

    async def _list_files(self, params: Mapping[str, Any]) -> dict[str, Any]:
        files = await self._session(params).list_files()
        return {"files": [{"path": file.path, "size": file.size} for file in files]}

    # -- state ---------------------------------------------------------------------------------

    async def _snapshot(self, params: Mapping[str, Any]) -> tuple[dict[str, Any], bytes]:
        taken = await self._session(params).snapshot()
        skipped = [[item.name, item.reason] for item in taken.skipped]
        return {"variables": list(taken.variables), "skipped": skipped}, taken.to_bytes()

    async def _restore(self, params: Mapping[str, Any]) -> dict[str, Any]:
        data = params.get("attachment")
        if not isinstance(data, bytes):
            raise RequestError("restore takes the attachment of a snapshot")
        failed = await self._session(params).restore(data)
        return {"failed": [[item.name, item.reason] for item in failed]}

    async def _fork(self, params: Mapping[str, Any]) -> dict[str, Any]:
        branches = await self._session(params).fork_many(int(params.get("n", 1)))
        return {"sessions": [self._keep(branch) for branch in branches]}

    async def _savepoint(self, params: Mapping[str, Any]) -> dict[str, Any]:
        await self._session(params).savepoint()
        return {}

    async def _undo(self, params: Mapping[str, Any]) -> dict[str, Any]:
        await self._session(params).undo()
        return {}


def _text(params: Mapping[str, Any], name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str):
        raise RequestError(f"{name} must be text")
    return value


def _context(params: Mapping[str, Any]) -> Any:
    """`context`: text as an attachment in UTF-8, or a value."""
    data = params.get("attachment")
    if isinstance(data, bytes):
        return data.decode("utf-8", "surrogatepass")
    return decode(params.get("context"))
