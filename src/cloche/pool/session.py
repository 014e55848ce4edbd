"""A session that lives in a pool: found by its id, kept by a lease, set aside when its place is wanted."""

from __future__ import annotations

import secrets
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import anyio

from cloche.errors import SessionClosedError

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Callable
    from types import TracebackType
    from typing import Self

    from cloche.aio import AsyncSandbox
    from cloche.isolation import Isolation
    from cloche.policy import ExecutionPolicy
    from cloche.pool.keeping import KeptSession
    from cloche.pool.pool import Pool
    from cloche.result import SandboxResult
    from cloche.session.workspace import FileInfo
    from cloche.snapshot import Skipped, Snapshot

State = Literal["live", "set_aside", "lost", "closed"]


@dataclass(slots=True)
class Order:
    """What a session was opened with; enough to open it again."""

    owner: str
    policy: ExecutionPolicy
    make: Callable[[], AsyncSandbox]
    context: Any = None


@dataclass(slots=True, eq=False)
class PooledSession:
    """The methods of a sandbox, with the pool's rules around them. Made by `Pool.open`."""

    pool: Pool
    order: Order
    sandbox: AsyncSandbox | None
    expires_at: float
    """When its lifetime ends, by `time.monotonic()`."""
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    key: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    """Whoever shows it may take the session up again."""
    state: State = "live"
    why: str = ""
    """Why it is not live any more."""
    calls: int = 0
    """Under way now."""
    used_at: float = field(default_factory=time.monotonic)
    kept: KeptSession | None = None
    unkeepable: bool = False
    """It has something that cannot be set aside; looked at again when it has been used."""
    gate: anyio.Lock = field(default_factory=lambda: anyio.Lock(fast_acquire=True))

    def __repr__(self) -> str:
        """Without its key, which is as good as the session."""
        return f"<PooledSession {self.id} of {self.owner!r}: {self.state}>"

    @property
    def owner(self) -> str:
        """Whose it is."""
        return self.order.owner

    @property
    def idle_seconds(self) -> float:
        """Since it was last used."""
        return 0.0 if self.calls else time.monotonic() - self.used_at

    @property
    def isolation(self) -> Isolation | None:
        """The tier of the wall around it; None while it is set aside."""
        return None if self.sandbox is None else self.sandbox.isolation

    @property
    def capabilities(self) -> frozenset[str]:
        """What its wall can do beyond the common contract."""
        return frozenset() if self.sandbox is None else self.sandbox.capabilities

    @asynccontextmanager
    async def _in_use(self) -> AsyncIterator[AsyncSandbox]:
        """The live sandbox, brought back when it was set aside; nobody closes or moves it meanwhile."""
        async with self.gate:
            self._refuse_ended()
            if self.state == "set_aside":
                await self.pool.bring_back(self)
            self.calls += 1
        sandbox = self.sandbox
        assert sandbox is not None
        try:
            yield sandbox
        finally:
            self.calls -= 1
            self.unkeepable = False
            self.used_at = time.monotonic()

    def _refuse_ended(self) -> None:
        if self.state == "closed":
            raise SessionClosedError(f"this session is closed: {self.why}", remedy="open another one")
        if self.state == "lost":
            self.state = "live"  # the sandbox says so to whoever calls next, and then starts afresh

    # -- the contract --------------------------------------------------------------------------

    async def execute(
        self,
        code: str,
        *,
        timeout_ms: int | None = None,
        on_output: Callable[[str, str], object] | None = None,
        stdin: str | None = None,
    ) -> SandboxResult:
        """Run a cell, when it is this owner's turn."""
        async with self.turn() as sandbox:
            result = await sandbox.execute(code, timeout_ms=timeout_ms, on_output=on_output, stdin=stdin)
        self.charge(result)
        return result

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[AsyncSandbox]:
        """The sandbox, for one cell and what belongs to it; say afterwards what it cost."""
        self.pool.account(self.owner).check()
        async with self._in_use() as sandbox, self.pool.turns.one(self.owner, sandbox):
            yield sandbox

    def charge(self, result: SandboxResult) -> None:
        """A cell has run in this owner's turn."""
        self.pool.account(self.owner).charge(result)
        self.pool.metrics["cells"] += 1

    async def initialize(self, context: Any = None, *, timeout_ms: int | None = None) -> None:
        """Bind `context`."""
        async with self._in_use() as sandbox:
            await sandbox.initialize(context, timeout_ms=timeout_ms)
            self.order.context = context

    async def validate_code(self, code: str, *, timeout_ms: int | None = None) -> bool:
        """Whether `code` compiles with the guest's grammar."""
        async with self._in_use() as sandbox:
            return await sandbox.validate_code(code, timeout_ms=timeout_ms)

    async def get_variable(self, name: str, default: Any = None, *, timeout_ms: int | None = None) -> Any:
        """The value of a variable as plain data."""
        async with self._in_use() as sandbox:
            return await sandbox.get_variable(name, default, timeout_ms=timeout_ms)

    async def set_variable(self, name: str, value: Any, *, timeout_ms: int | None = None) -> None:
        """Bind a variable to plain data."""
        async with self._in_use() as sandbox:
            await sandbox.set_variable(name, value, timeout_ms=timeout_ms)

    async def list_variables(self, *, timeout_ms: int | None = None) -> dict[str, str]:
        """Names of the variables and of their types."""
        async with self._in_use() as sandbox:
            return await sandbox.list_variables(timeout_ms=timeout_ms)

    async def complete(self, text: str, *, timeout_ms: int | None = None) -> list[str]:
        """Completions of a dotted name."""
        async with self._in_use() as sandbox:
            return await sandbox.complete(text, timeout_ms=timeout_ms)

    async def put_file(self, path: str | os.PathLike[str], data: bytes | str, *, timeout_ms: int | None = None) -> None:
        """Write a file into the workspace."""
        async with self._in_use() as sandbox:
            await sandbox.put_file(path, data, timeout_ms=timeout_ms)

    async def get_file(self, path: str | os.PathLike[str], *, timeout_ms: int | None = None) -> bytes:
        """Read a file of the workspace."""
        async with self._in_use() as sandbox:
            return await sandbox.get_file(path, timeout_ms=timeout_ms)

    async def list_files(self, *, timeout_ms: int | None = None) -> list[FileInfo]:
        """Plain files of the workspace."""
        async with self._in_use() as sandbox:
            return await sandbox.list_files(timeout_ms=timeout_ms)

    async def snapshot(self, *, timeout_ms: int | None = None) -> Snapshot:
        """Save the variables."""
        async with self._in_use() as sandbox:
            return await sandbox.snapshot(timeout_ms=timeout_ms)

    async def restore(self, snapshot: Snapshot | bytes, *, timeout_ms: int | None = None) -> tuple[Skipped, ...]:
        """Put saved variables back."""
        async with self._in_use() as sandbox:
            return await sandbox.restore(snapshot, timeout_ms=timeout_ms)

    async def reset(self, *, timeout_ms: int | None = None) -> None:
        """Empty namespace and workspace."""
        async with self._in_use() as sandbox:
            await sandbox.reset(timeout_ms=timeout_ms)

    async def fork_many(self, n: int, *, timeout_ms: int | None = None) -> list[PooledSession]:
        """Branches, each a session of this owner with a place of its own; all or none."""
        async with self._in_use() as sandbox:
            return await self.pool.adopt_branches(self, sandbox, n, timeout_ms)

    async def savepoint(self, *, timeout_ms: int | None = None) -> None:
        """Mark the state."""
        async with self._in_use() as sandbox:
            await sandbox.savepoint(timeout_ms=timeout_ms)
        self.unkeepable = True

    async def undo(self, *, timeout_ms: int | None = None) -> None:
        """Return to the last savepoint."""
        async with self._in_use() as sandbox:
            await sandbox.undo(timeout_ms=timeout_ms)

    def cancel(self) -> None:
        """Stop the running cell."""
        if self.sandbox is not None:
            self.sandbox.cancel()

    # -- the lease -----------------------------------------------------------------------------

    def extend(self) -> None:
        """Count as used now."""
        self._refuse_ended()
        self.used_at = time.monotonic()

    async def close(self, why: str = "it was closed by its owner") -> None:
        """End it. Idempotent."""
        await self.pool.close_session(self, why)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            await self.close()
