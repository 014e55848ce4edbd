"""The pool: opens, finds, sets aside and closes the sessions of all owners."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from cloche.errors import ClocheError, SessionClosedError, UnknownSessionError
from cloche.factory import prepare_async_sandbox
from cloche.pool.accounts import Account, OwnerQuota
from cloche.pool.fair_queue import FairQueue
from cloche.pool.keeping import Shelf
from cloche.pool.limits import PoolLimits
from cloche.pool.session import Order, PooledSession
from cloche.pool.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Self

    from anyio.abc import TaskGroup

    from cloche.aio import AsyncSandbox
    from cloche.config import SandboxConfig
    from cloche.policy import ExecutionPolicy
    from cloche.result import SandboxResult

HEALTH = 1.0
"""Seconds between two looks at whether idle sessions are still there, and whether a lease is over."""


class Pool:
    """Sandboxes for many owners, behind one set of limits. Use it as an async context manager.

    One task looks after all leases; an idle session costs no task and no thread.
    """

    def __init__(
        self,
        limits: PoolLimits | None = None,
        *,
        config: SandboxConfig | Mapping[str, Any] | None = None,
        quota: OwnerQuota | None = None,
        quotas: Mapping[str, OwnerQuota] | None = None,
    ) -> None:
        """`quota` holds for every owner that `quotas` does not name. `config` as for `create_sandbox`."""
        self.limits = limits or PoolLimits()
        self.metrics: Counter[str] = Counter()
        self._config = config
        self._quota = quota or OwnerQuota()
        self._quotas = dict(quotas or {})
        self._accounts: dict[str, Account] = {}
        self._sessions: dict[str, PooledSession] = {}
        self._places = FairQueue(self.limits.sessions, self.limits.waiting, "a session")
        running, waiting = self.limits.running, self.limits.waiting
        self._processors = FairQueue(running, waiting, "a cell", spare=1, shared=max(1, running // 2))
        self.turns = Turns(self._processors, self.limits.wait_ms)
        self._shelf = Shelf(self.limits.kept_bytes)
        self._group: TaskGroup | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"<Pool: {len(self._sessions)} sessions, {self._places.taken} of {self.limits.sessions} places taken>"

    async def __aenter__(self) -> Self:
        self._group = anyio.create_task_group()
        await self._group.__aenter__()
        self._group.start_soon(self._look_after)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            await self.close()
        if self._group is not None:
            self._group.cancel_scope.cancel()
            await self._group.__aexit__(None, None, None)

    # -- sessions ------------------------------------------------------------------------------

    async def open(
        self, owner: str, *, context: Any = None, wait_ms: int | None = None, **options: Any
    ) -> PooledSession:
        """A session for `owner`; waits for a place at most `wait_ms`. `options` as for `create_async_sandbox`."""
        self._refuse_closed()
        options = self._outside_turns(options)
        prepared = await anyio.to_thread.run_sync(lambda: prepare_async_sandbox(self._config, **options))
        order = Order(owner, prepared.policy, prepared.make, context)
        account = self.account(owner)
        account.open_session(order.policy)
        try:
            sandbox = await self._place_for(owner, order.make, wait_ms)
        except BaseException:
            account.close_session(order.policy)
            raise
        session = self._enrol(order, sandbox)
        if context is not None:
            try:
                await session.initialize(context)
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await session.close("its context could not be given to it")
                raise
        return session

    async def run(self, owner: str, code: str, *, context: Any = None, **options: Any) -> SandboxResult:
        """One request, one fresh sandbox, which is destroyed after it."""
        timeout_ms, on_output = options.pop("timeout_ms", None), options.pop("on_output", None)
        async with await self.open(owner, context=context, **options) as session:
            return await session.execute(code, timeout_ms=timeout_ms, on_output=on_output)

    def find(self, session_id: str, *, owner: str | None = None, key: str | None = None) -> PooledSession:
        """A session by its id, for its owner or for whoever has its key."""
        session = self._sessions.get(session_id)
        if session is None or not (
            (owner is not None and session.owner == owner)
            or (key is not None and secrets.compare_digest(session.key.encode(), key.encode()))
        ):
            raise UnknownSessionError(f"there is no session {session_id[:40]!r} for you")
        return session

    def sessions(self, owner: str | None = None) -> list[PooledSession]:
        """All that are open, or those of one owner."""
        return [session for session in self._sessions.values() if owner is None or session.owner == owner]

    def account(self, owner: str) -> Account:
        """What an owner uses."""
        found = self._accounts.get(owner)
        if found is None:
            found = self._accounts[owner] = Account(owner, self._quotas.get(owner, self._quota))
        return found

    @property
    def has_room(self) -> bool:
        """Whether a new session gets a place at once, if need be that of one that has been idle for long enough."""
        return self._places.has_room or bool(self._idle_sessions())

    @property
    def places_taken(self) -> int:
        """Of `limits.sessions`."""
        return self._places.taken

    def stats(self) -> dict[str, int]:
        """How full it is, and what has happened."""
        return {
            "sessions": len(self._sessions),
            "live": self._places.taken,
            "set_aside": sum(session.state == "set_aside" for session in self._sessions.values()),
            "running": self._processors.taken,
            "waiting": self._places.waiting + self._processors.waiting,
            "owners": sum(account.sessions > 0 for account in self._accounts.values()),
            **self.metrics,
        }

    async def adopt_branches(
        self, parent: PooledSession, sandbox: AsyncSandbox, count: int, timeout_ms: int | None
    ) -> list[PooledSession]:
        """Places for the branches of a session first, then the branches."""
        account, policy, owner = self.account(parent.owner), parent.order.policy, parent.owner
        counted = placed = 0
        try:
            for _ in range(count):
                account.open_session(policy)
                counted += 1
                await self._find_place(owner, None)
                placed += 1
            branches = await sandbox.fork_many(count, timeout_ms=timeout_ms)
        except BaseException:
            for _ in range(counted):
                account.close_session(policy)
            for _ in range(placed):
                self._places.leave(owner)
            raise
        order = parent.order
        return [self._enrol(Order(owner, policy, order.make, order.context), branch) for branch in branches]

    async def close_session(self, session: PooledSession, why: str) -> None:
        """End a session and give its place back."""
        if session.state == "closed":
            return
        was, session.state, session.why = session.state, "closed", why
        self._sessions.pop(session.id, None)
        self.account(session.owner).close_session(session.order.policy)
        self.metrics["closed"] += 1
        sandbox, session.sandbox = session.sandbox, None
        kept, session.kept = session.kept, None
        if kept is not None:
            self._shelf.drop(kept)
        try:
            if sandbox is not None:
                with anyio.CancelScope(shield=True):  # nobody else knows of it any more
                    await sandbox.destroy()
        finally:
            if was != "set_aside":
                self._places.leave(session.owner)

    async def close(self) -> None:
        """End all sessions."""
        self._closed = True
        async with anyio.create_task_group() as group:
            for session in list(self._sessions.values()):
                group.start_soon(session.close, "the pool was closed")
        self._shelf.clear()

    def _outside_turns(self, options: dict[str, Any]) -> dict[str, Any]:
        """Host functions as they are called from a pool: whoever waits for one does not keep others from running."""
        wrapped = dict(options)
        for name in ("on_llm_query", "on_rlm_query"):
            if callable(wrapped.get(name)):
                wrapped[name] = self.turns.outside(wrapped[name])
        tools: dict[str, Any] = {}
        for name, tool in (wrapped.get("tools") or {}).items():
            if callable(tool):
                tools[name] = self.turns.outside(tool)
            elif isinstance(tool, dict) and callable(tool.get("tool")):
                tools[name] = {**tool, "tool": self.turns.outside(tool["tool"])}
            else:
                tools[name] = tool
        return {**wrapped, "tools": tools} if tools else wrapped

    # -- places --------------------------------------------------------------------------------

    async def take_place(self, owner: str, policy: ExecutionPolicy, wait_ms: int | None = None) -> None:
        """A place for a session that somebody else drives, within the owner's quota."""
        self._refuse_closed()
        account = self.account(owner)
        account.open_session(policy)
        try:
            await self._find_place(owner, wait_ms)
        except BaseException:
            account.close_session(policy)
            raise

    def give_place_back(self, owner: str, policy: ExecutionPolicy) -> None:
        """The end of `take_place`."""
        self._places.leave(owner)
        self.account(owner).close_session(policy)

    def _enrol(self, order: Order, sandbox: AsyncSandbox) -> PooledSession:
        session = PooledSession(self, order, sandbox, time.monotonic() + self.limits.lifetime_ms / 1000)
        self._sessions[session.id] = session
        self.metrics["opened"] += 1
        return session

    async def _place_for(self, owner: str, make: Callable[[], AsyncSandbox], wait_ms: int | None) -> AsyncSandbox:
        await self._find_place(owner, wait_ms)
        try:
            return await anyio.to_thread.run_sync(make)
        except BaseException:
            self._places.leave(owner)
            raise

    async def _find_place(self, owner: str, wait_ms: int | None) -> None:
        if not self._places.has_room:
            await self._make_room()
        try:
            await self._places.enter(owner, self.limits.wait_ms if wait_ms is None else wait_ms)
        except ClocheError:
            self.metrics["refused"] += 1
            raise
        if self._closed:
            self._places.leave(owner)
            self._refuse_closed()

    async def _make_room(self) -> None:
        """Set the session aside that has been idle longest, if one has been for long enough."""
        for session in sorted(self._idle_sessions(), key=lambda one: one.used_at):
            if await self._set_aside(session):
                return

    def _idle_sessions(self) -> list[PooledSession]:
        """Those that could be set aside."""
        after = self.limits.set_aside_ms
        return [
            session
            for session in self._sessions.values()
            if session.state == "live" and not session.unkeepable and not session.gate.locked()
            and after is not None and session.idle_seconds * 1000 >= after and not session.calls
        ]  # fmt: skip

    async def _set_aside(self, session: PooledSession) -> bool:
        async with session.gate:
            sandbox = session.sandbox
            if session.state != "live" or session.calls or sandbox is None:
                return False
            try:
                kept = await self._shelf.take(sandbox, session.id)
            except (ClocheError, OSError):
                kept = None
            if kept is None:
                session.unkeepable = True
                return False
            session.kept, session.sandbox, session.state = kept, None, "set_aside"
            try:
                await sandbox.destroy()
            finally:
                self._places.leave(session.owner)
        self.metrics["set_aside_total"] += 1
        return True

    async def bring_back(self, session: PooledSession) -> None:
        """Give a session that was set aside a place again. The caller holds its gate."""
        kept = session.kept
        assert kept is not None
        sandbox = await self._place_for(session.owner, session.order.make, None)
        try:
            if session.order.context is not None:
                await sandbox.initialize(session.order.context)
            await self._shelf.give_back(kept, sandbox)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await sandbox.destroy()
            self._places.leave(session.owner)
            raise
        session.kept, session.sandbox, session.state = None, sandbox, "live"
        self.metrics["brought_back"] += 1

    def _refuse_closed(self) -> None:
        if self._closed:
            raise SessionClosedError("the pool is closed")

    # -- leases --------------------------------------------------------------------------------

    async def _look_after(self) -> None:
        """The one task of the pool: ends leases, and notices sessions that died while nobody used them."""
        while True:
            await anyio.sleep(min(HEALTH, self.limits.idle_ms / 1000))
            now = time.monotonic()
            for session in list(self._sessions.values()):
                if now >= session.expires_at:
                    await self._expire(session, "its lifetime is over")
                elif session.idle_seconds * 1000 >= self.limits.idle_ms:
                    await self._expire(session, f"nobody used it for {self.limits.idle_ms / 1000:g} s")
                elif session.state == "live" and not session.calls and session.sandbox is not None:
                    self._check_health(session, session.sandbox)
            for owner in [name for name, account in self._accounts.items() if account.idle]:
                del self._accounts[owner]

    async def _expire(self, session: PooledSession, why: str) -> None:
        self.metrics["expired"] += 1
        session.cancel()
        with anyio.move_on_after(30, shield=True):
            await session.close(why)

    def _check_health(self, session: PooledSession, sandbox: AsyncSandbox) -> None:
        died = sandbox.died()
        if died is not None:
            session.state, session.why = "lost", died
            self.metrics["lost"] += 1
