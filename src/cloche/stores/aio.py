"""`AsyncStore`: the same methods as coroutines. Each call waits in a thread of anyio's pool."""

from __future__ import annotations

import builtins
from functools import partial
from typing import TYPE_CHECKING

from anyio.to_thread import run_sync

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from cloche.stores.interface import Collected, Entry, Held, Quota, Store, Stored


class AsyncStore:
    """A store for event loops. A task that is cancelled waits for the call that is under way: a write has been made,
    or not, when it goes on."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def url(self) -> str:
        """Where it is, without secrets."""
        return self._store.url

    @property
    def quota(self) -> Quota:
        """What each owner may keep."""
        return self._store.quota

    async def put(
        self,
        key: str,
        data: bytes | bytearray | memoryview,
        *,
        owner: str,
        ttl: float | None = None,
        if_match: str | None = None,
        if_none_match: bool = False,
    ) -> Entry:
        """Keep `data`; see `Store.put`."""
        return await run_sync(
            partial(self._store.put, key, data, owner=owner, ttl=ttl, if_match=if_match, if_none_match=if_none_match)
        )

    async def get(self, key: str, *, owner: str) -> Stored:
        """The value."""
        return await run_sync(partial(self._store.get, key, owner=owner))

    async def head(self, key: str, *, owner: str) -> Entry:
        """What is known of a value, without reading it."""
        return await run_sync(partial(self._store.head, key, owner=owner))

    async def delete(self, key: str, *, owner: str, if_match: str | None = None) -> bool:
        """Remove a value; whether there was one."""
        return await run_sync(partial(self._store.delete, key, owner=owner, if_match=if_match))

    async def list(self, *, owner: str, prefix: str = "") -> builtins.list[Entry]:
        """An owner's entries whose key begins with `prefix`, sorted by key."""
        return await run_sync(partial(self._store.list, owner=owner, prefix=prefix))

    async def usage(self, *, owner: str) -> Held:
        """What an owner keeps now."""
        return await run_sync(partial(self._store.usage, owner=owner))

    async def collect(self) -> Collected:
        """Remove what has expired and what interrupted saves left."""
        return await run_sync(self._store.collect)

    async def close(self) -> None:
        """Let go of files and connections."""
        await run_sync(self._store.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
