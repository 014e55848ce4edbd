"""The pool for code that does not await: the same methods, each waiting for its result."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any

from anyio.from_thread import BlockingPortal, start_blocking_portal

from cloche.pool.pool import Pool

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Self

    from cloche.config import SandboxConfig
    from cloche.pool.accounts import OwnerQuota
    from cloche.pool.limits import PoolLimits
    from cloche.pool.session import PooledSession
    from cloche.result import SandboxResult


class BlockingSession:
    """A session of a `BlockingPool`: every coroutine of `PooledSession` as a plain method."""

    def __init__(self, session: PooledSession, portal: BlockingPortal) -> None:
        self._session = session
        self._portal = portal

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._session, name)
        return partial(self._call, found) if callable(found) else found

    def _call(self, method: Any, *args: Any, **options: Any) -> Any:
        async def work() -> Any:
            given = method(*args, **options)
            return await given if hasattr(given, "__await__") else given

        value = self._portal.call(work)
        if method.__name__ == "fork_many":
            return [BlockingSession(branch, self._portal) for branch in value]
        return value

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

    def open(self, owner: str, **options: Any) -> BlockingSession:
        """A session; see `Pool.open`."""
        portal, pool = self._running()
        return BlockingSession(portal.call(partial(pool.open, owner, **options)), portal)

    def run(self, owner: str, code: str, **options: Any) -> SandboxResult:
        """One request in a fresh sandbox."""
        portal, pool = self._running()
        return portal.call(partial(pool.run, owner, code, **options))

    def find(self, session_id: str, *, owner: str | None = None, key: str | None = None) -> BlockingSession:
        """A session by its id."""
        portal, pool = self._running()
        return BlockingSession(portal.call(partial(pool.find, session_id, owner=owner, key=key)), portal)

    def stats(self) -> dict[str, int]:
        """How full it is."""
        portal, pool = self._running()
        return portal.call(pool.stats)

    def _running(self) -> tuple[BlockingPortal, Pool]:
        if self._portal is None or self._pool is None:
            raise RuntimeError("use the pool as a context manager")
        return self._portal, self._pool
