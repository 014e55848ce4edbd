"""Sessions that were lent and left: nobody drives them, and whoever shows the key may take them up."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from cloche.daemon.mishaps import do_all
from cloche.errors import UnknownSessionError

if TYPE_CHECKING:
    from cloche.backends.jail.backend import JailBackend
    from cloche.backends.jail.channel import JailChannel
    from cloche.policy import ExecutionPolicy
    from cloche.pool.pool import Pool

LOOK = 1.0


@dataclass(slots=True)
class Lease:
    """A place of the pool with a session in it that somebody else drives."""

    owner: str
    backend: JailBackend
    policy: ExecutionPolicy
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    in_turn: anyio.Lock = field(default_factory=lambda: anyio.Lock(fast_acquire=True))
    """Orders about its guest are carried out in the order in which they came: an end must not hit the next one."""


@dataclass(slots=True)
class LeftSession:
    """One that waits, with what its next driver must know."""

    lease: Lease
    channel: JailChannel
    note: dict[str, Any]
    context: bytes | None
    key: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    since: float = field(default_factory=time.monotonic)


class Cloakroom:
    """All of them. One that nobody comes for is ended when its time, that of any idle session, is over."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._left: dict[str, LeftSession] = {}

    def __len__(self) -> int:
        return len(self._left)

    def leave(self, session: LeftSession) -> None:
        """Keep it."""
        self._left[session.lease.id] = session

    def take(self, name: str, key: str) -> LeftSession:
        """Give it to whoever has its key; a guess finds out nothing."""
        found = self._left.get(name)
        if found is None or not secrets.compare_digest(found.key.encode(), key.encode()):
            raise UnknownSessionError(
                f"there is no session {name[:40]!r} to be taken up with this key",
                remedy="detach it first; one that nobody took up for a while was ended",
            )
        del self._left[name]
        return found

    async def look_after(self) -> None:
        """End those that were forgotten."""
        patience = self._pool.limits.idle_ms / 1000
        while True:
            await anyio.sleep(min(LOOK, patience))
            now = time.monotonic()
            forgotten = [name for name, one in self._left.items() if now - one.since >= patience]
            await do_all(partial(self._end, self._left.pop(name)) for name in forgotten)

    async def close(self) -> None:
        """End them all."""
        left, self._left = self._left, {}
        await do_all(partial(self._end, one) for one in left.values())

    async def _end(self, one: LeftSession) -> None:
        with anyio.CancelScope(shield=True):
            try:
                await anyio.to_thread.run_sync(one.channel.close)
                await anyio.to_thread.run_sync(one.lease.backend.release)
            finally:
                self._pool.give_place_back(one.lease.owner, one.lease.policy)
