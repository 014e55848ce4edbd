"""The pool for code that does not await: the same methods, each waiting for its result."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from anyio.from_thread import BlockingPortal, start_blocking_portal

from cloche.pool.pool import Pool

if TYPE_CHECKING:
    import os
    from collections.abc import Awaitable, Callable, Mapping
    from types import TracebackType
    from typing import Self

    from cloche.config import SandboxConfig
    from cloche.isolation import Isolation
    from cloche.pool.accounts import OwnerQuota
    from cloche.pool.limits import PoolLimits
    from cloche.pool.session import PooledSession, State
    from cloche.result import SandboxResult
    from cloche.session.workspace import FileInfo
    from cloche.snapshot import Skipped, Snapshot

P = ParamSpec("P")
T = TypeVar("T")


class BlockingSession:
    """A session of a `BlockingPool`: a `PooledSession` whose methods wait for their results."""

    def __init__(self, session: PooledSession, portal: BlockingPortal) -> None:
        self._session = session
        self._portal = portal

    @property
    def id(self) -> str:
        """By which the pool finds it."""
        return self._session.id

    @property
    def key(self) -> str:
        """Whoever shows it may take the session up again."""
        return self._session.key

    @property
    def owner(self) -> str:
        """Whose it is."""
        return self._session.owner

    @property
    def state(self) -> State:
        """Whether it lives, is set aside, or has ended."""
        return self._session.state

    @property
    def why(self) -> str:
        """Why it is not live any more."""
        return self._session.why

    @property
    def expires_at(self) -> float:
        """When its lifetime ends, by `time.monotonic()`."""
        return self._session.expires_at

    @property
    def idle_seconds(self) -> float:
        """Since it was last used."""
        return self._session.idle_seconds

    @property
    def isolation(self) -> Isolation | None:
        """The tier of the wall around it; None while it is set aside."""
        return self._session.isolation

    @property
    def capabilities(self) -> frozenset[str]:
        """What its wall can do beyond the common contract."""
        return self._session.capabilities

    def execute(
        self,
        code: str,
        *,
        timeout_ms: int | None = None,
        on_output: Callable[[str, str], object] | None = None,
        stdin: str | None = None,
    ) -> SandboxResult:
        """Run a cell, when it is this owner's turn."""
        return self._wait(self._session.execute, code, timeout_ms=timeout_ms, on_output=on_output, stdin=stdin)

    def initialize(self, context: Any = None, *, timeout_ms: int | None = None) -> None:
        """Bind `context`."""
        self._wait(self._session.initialize, context, timeout_ms=timeout_ms)

    def validate_code(self, code: str, *, timeout_ms: int | None = None) -> bool:
        """Whether `code` compiles with the guest's grammar."""
        return self._wait(self._session.validate_code, code, timeout_ms=timeout_ms)

    def get_variable(self, name: str, default: Any = None, *, timeout_ms: int | None = None) -> Any:
        """The value of a variable as plain data."""
        return self._wait(self._session.get_variable, name, default, timeout_ms=timeout_ms)

    def set_variable(self, name: str, value: Any, *, timeout_ms: int | None = None) -> None:
        """Bind a variable to plain data."""
        self._wait(self._session.set_variable, name, value, timeout_ms=timeout_ms)

    def list_variables(self, *, timeout_ms: int | None = None) -> dict[str, str]:
        """Names of the variables and of their types."""
        return self._wait(self._session.list_variables, timeout_ms=timeout_ms)

    def complete(self, text: str, *, timeout_ms: int | None = None) -> list[str]:
        """Completions of a dotted name."""
        return self._wait(self._session.complete, text, timeout_ms=timeout_ms)

    def put_file(self, path: str | os.PathLike[str], data: bytes | str, *, timeout_ms: int | None = None) -> None:
        """Write a file into the workspace."""
        self._wait(self._session.put_file, path, data, timeout_ms=timeout_ms)

    def get_file(self, path: str | os.PathLike[str], *, timeout_ms: int | None = None) -> bytes:
        """Read a file of the workspace."""
        return self._wait(self._session.get_file, path, timeout_ms=timeout_ms)

    def list_files(self, *, timeout_ms: int | None = None) -> list[FileInfo]:
        """Plain files of the workspace."""
        return self._wait(self._session.list_files, timeout_ms=timeout_ms)

    def snapshot(self, *, timeout_ms: int | None = None) -> Snapshot:
        """Save the variables."""
        return self._wait(self._session.snapshot, timeout_ms=timeout_ms)

    def restore(self, snapshot: Snapshot | bytes, *, timeout_ms: int | None = None) -> tuple[Skipped, ...]:
        """Put saved variables back."""
        return self._wait(self._session.restore, snapshot, timeout_ms=timeout_ms)

    def reset(self, *, timeout_ms: int | None = None) -> None:
        """Empty namespace and workspace."""
        self._wait(self._session.reset, timeout_ms=timeout_ms)

    def savepoint(self, *, timeout_ms: int | None = None) -> None:
        """Mark the state."""
        self._wait(self._session.savepoint, timeout_ms=timeout_ms)

    def undo(self, *, timeout_ms: int | None = None) -> None:
        """Return to the last savepoint."""
        self._wait(self._session.undo, timeout_ms=timeout_ms)

    def fork_many(self, n: int, *, timeout_ms: int | None = None) -> list[BlockingSession]:
        """Branches, each a session of this owner with a place of its own; all or none."""
        branches = self._wait(self._session.fork_many, n, timeout_ms=timeout_ms)
        return [BlockingSession(branch, self._portal) for branch in branches]

    def cancel(self) -> None:
        """Stop the running cell. From any thread."""
        self._portal.call(self._session.cancel)

    def extend(self) -> None:
        """Count as used now."""
        self._portal.call(self._session.extend)

    def close(self, why: str = "it was closed by its owner") -> None:
        """End it. Idempotent."""
        self._wait(self._session.close, why)

    def _wait(self, method: Callable[P, Awaitable[T]], *args: P.args, **options: P.kwargs) -> T:
        return self._portal.call(partial(method, *args, **options))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class BlockingPool:
    """`Pool` for threads: one event loop in a thread of its own serves all of them."""

    def __init__(
        self,
        limits: PoolLimits | None = None,
        *,
        config: SandboxConfig | Mapping[str, Any] | None = None,
        quota: OwnerQuota | None = None,
        quotas: Mapping[str, OwnerQuota] | None = None,
    ) -> None:
        self._make = partial(Pool, limits, config=config, quota=quota, quotas=quotas)
        self._portal_manager: AbstractContextManager[BlockingPortal] = start_blocking_portal()
        self._portal: BlockingPortal | None = None
        self._pool_manager: AbstractContextManager[Pool] | None = None
        self._pool: Pool | None = None

    def __enter__(self) -> Self:
        self._portal = self._portal_manager.__enter__()
        self._pool_manager = self._portal.wrap_async_context_manager(self._portal.call(self._make))
        self._pool = self._pool_manager.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool_manager is not None:
            self._pool_manager.__exit__(None, None, None)
        self._portal_manager.__exit__(kind, exc, trace)

    def open(self, owner: str, *, context: Any = None, wait_ms: int | None = None, **options: Any) -> BlockingSession:
        """A session; see `Pool.open`."""
        portal, pool = self._running()
        opened = portal.call(partial(pool.open, owner, context=context, wait_ms=wait_ms, **options))
        return BlockingSession(opened, portal)

    def run(self, owner: str, code: str, *, context: Any = None, **options: Any) -> SandboxResult:
        """One request in a fresh sandbox."""
        portal, pool = self._running()
        return portal.call(partial(pool.run, owner, code, context=context, **options))

    def find(self, session_id: str, *, owner: str | None = None, key: str | None = None) -> BlockingSession:
        """A session by its id."""
        portal, pool = self._running()
        return BlockingSession(portal.call(partial(pool.find, session_id, owner=owner, key=key)), portal)

    def sessions(self, owner: str | None = None) -> list[BlockingSession]:
        """All that are open, or those of one owner."""
        portal, pool = self._running()
        return [BlockingSession(session, portal) for session in portal.call(pool.sessions, owner)]

    def stats(self) -> dict[str, int]:
        """How full it is."""
        portal, pool = self._running()
        return portal.call(pool.stats)

    def _running(self) -> tuple[BlockingPortal, Pool]:
        if self._portal is None or self._pool is None:
            raise RuntimeError("use the pool as a context manager")
        return self._portal, self._pool
