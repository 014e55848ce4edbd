"""Places where state is kept: on this machine, in Redis, in a bucket; one small interface in front of all."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from cloche.stores.interface import Collected, Entry, Held, Quota, Store, Stored
from cloche.stores.opening import open_store

if TYPE_CHECKING:
    from cloche.stores.aio import AsyncStore
    from cloche.stores.embedded import EmbeddedStore
    from cloche.stores.redis_store import RedisStore
    from cloche.stores.s3_store import S3Store

__all__ = [
    "AsyncStore", "Collected", "EmbeddedStore", "Entry", "Held", "Quota", "RedisStore", "S3Store", "Store", "Stored",
    "open_store",
]  # fmt: skip

_LAZY = {"AsyncStore": "aio", "EmbeddedStore": "embedded", "RedisStore": "redis_store", "S3Store": "s3_store"}


def __getattr__(name: str) -> Any:
    """Each backend when it is used: anyio, sqlite3 and the clients are not free."""
    if name not in _LAZY:
        raise AttributeError(f"module 'cloche.stores' has no attribute {name!r}")
    return getattr(importlib.import_module(f"cloche.stores.{_LAZY[name]}"), name)
