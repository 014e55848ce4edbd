"""The store in Redis. Each write is one script, so that condition, quota and change are one step.

Everything of a store carries the same hash tag, so that a cluster keeps it together. What a server with an eviction
policy throws away is gone; `collect()` puts the accounts right again. Durable is what the server's own settings make
so (``appendonly yes``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from cloche.errors import QuotaError, StoreError
from cloche.stores.interface import Collected, Condition, Entry, Held, Quota, Store, Stored, damaged

if TYPE_CHECKING:
    import redis

INSTALL = "pip install 'cloche[redis]'"
LARGEST = 512 << 20
"""What one value of Redis can hold."""

_PATIENCE = 30.0
_CONNECT_PATIENCE = 5.0
_KEPT_BY_SERVER = 86_400_000  # ms beyond expiry: a store that nobody collects empties itself at last
_META = ("version", "size", "sha256", "written", "expires")

# KEYS: sizes (key -> bytes), expiry (key by time), owners.  ARGV: prefix of entries, owner, now, ...
_PURGE = """
local sizes, expiry, owners = KEYS[1], KEYS[2], KEYS[3]
local prefix, owner, now = ARGV[1], ARGV[2], ARGV[3]
local purged, freed = 0, 0
local function forget(key)
  freed = freed + tonumber(redis.call('HGET', sizes, key) or '0')
  redis.call('DEL', prefix .. key)
  redis.call('HDEL', sizes, key)
  redis.call('ZREM', expiry, key)
end
for _, key in ipairs(redis.call('ZRANGEBYSCORE', expiry, '-inf', now)) do
  forget(key)
  purged = purged + 1
end
"""
_HELD = """
local function held(but)
  local total, count = 0, 0
  local pairs_ = redis.call('HGETALL', sizes)
  for i = 1, #pairs_, 2 do
    if pairs_[i] ~= but then total, count = total + tonumber(pairs_[i + 1]), count + 1 end
  end
  return total, count
end
"""
_PUT = (
    _PURGE
    + _HELD
    + """
local key, data, version, size, sha256, written, expires, keep_until = unpack(ARGV, 4, 11)
local wanted, absent, most_bytes, most_entries = unpack(ARGV, 12, 15)
local found = redis.call('HGET', prefix .. key, 'version')
if (absent == '1' and found) or (wanted ~= '' and found ~= wanted) then return {'conflict', found or ''} end
if most_bytes ~= '' or most_entries ~= '' then
  local total, count = held(key)
  if most_entries ~= '' and count + 1 > tonumber(most_entries) then return {'quota', total, count} end
  if most_bytes ~= '' and total + tonumber(size) > tonumber(most_bytes) then return {'quota', total, count} end
end
redis.call('DEL', prefix .. key)
redis.call('HSET', prefix .. key, 'data', data, 'version', version, 'size', size, 'sha256', sha256,
           'written', written, 'expires', expires)
redis.call('HSET', sizes, key, size)
if expires == '' then redis.call('ZREM', expiry, key) else
  redis.call('ZADD', expiry, expires, key)
  redis.call('PEXPIREAT', prefix .. key, keep_until)
end
redis.call('SADD', owners, owner)
return {'ok'}
"""
)
_DELETE = (
    _PURGE
    + """
local key, wanted = ARGV[4], ARGV[5]
local found = redis.call('HGET', prefix .. key, 'version')
if wanted ~= '' and found ~= wanted then return {'conflict', found or ''} end
forget(key)
return {'ok', found and 1 or 0}
"""
)
_COLLECT = (
    _PURGE
    + """
local lost = 0
for _, key in ipairs(redis.call('HKEYS', sizes)) do
  if redis.call('EXISTS', prefix .. key) == 0 then
    forget(key)
    lost = lost + 1
  end
end
if redis.call('HLEN', sizes) == 0 then redis.call('SREM', owners, owner) end
return {purged, lost, freed}
"""
)


class RedisStore(Store):
    """A Redis server, of version 5 or later. Any number of hosts may use it at once."""

    def __init__(
        self, url: str, *, name: str = "cloche", quota: Quota | None = None, clock: Callable[[], float] | None = None
    ) -> None:
        """`name` sets stores apart that share a database."""
        super().__init__(quota=quota, **({} if clock is None else {"clock": clock}))
        try:
            import redis
        except ImportError:
            raise StoreError(f"{url.partition(':')[0]}:// needs the redis package", remedy=INSTALL) from None
        self._failures: tuple[type[Exception], ...] = (redis.RedisError, OSError)
        self._prefix = f"{{{quote(name, safe='')}}}"  # quoted: no name can lead into the keys of another
        try:
            self._client: redis.Redis = redis.Redis.from_url(
                url, socket_timeout=_PATIENCE, socket_connect_timeout=_CONNECT_PATIENCE
            )
        except ValueError as exc:
            raise StoreError("that is no address of a Redis server", cause=str(exc)) from None
        place = self._client.connection_pool.connection_kwargs
        server = place.get("path") or f"{place.get('host', 'localhost')}:{place.get('port', 6379)}"
        self.url = f"redis://{server}/{place.get('db', 0)}"
        self._put_script = self._client.register_script(_PUT)
        self._delete_script = self._client.register_script(_DELETE)
        self._collect_script = self._client.register_script(_COLLECT)

    def close(self) -> None:
        self._client.close()

    def _put(self, entry: Entry, data: bytes, condition: Condition) -> Entry:
        if entry.size > LARGEST:
            raise QuotaError(
                f"{entry.key!r} has {entry.size} bytes; Redis holds at most {LARGEST} in one value",
                quota="entry_bytes",
                remedy="keep what is that large in s3:// or sqlite://",
            )
        quota = self.quota
        expires = "" if entry.expires is None else repr(entry.expires)
        keep_until = "" if entry.expires is None else math.ceil(entry.expires * 1000) + _KEPT_BY_SERVER
        reply = self._run(
            self._put_script,
            entry.owner,
            entry.written,
            [entry.key, data, entry.version, entry.size, entry.sha256, repr(entry.written), expires, keep_until,
             condition.version or "", int(condition.absent), _limit(quota.total_bytes), _limit(quota.entries)],
        )  # fmt: skip
        if reply[0] == b"conflict":
            raise condition.conflict(entry.key, reply[1].decode() or None)
        if reply[0] == b"quota":
            self._check_quota(entry, Held(reply[1], reply[2]))
        return entry

    def _get(self, key: str, owner: str) -> Stored | None:
        with self._translated():
            fields = self._client.hmget(self._entry(owner) + key, [*_META, "data"])
        entry = _read(key, owner, fields)
        return None if entry is None else Stored(entry, fields[-1] or b"")

    def _head(self, key: str, owner: str) -> Entry | None:
        with self._translated():
            fields = self._client.hmget(self._entry(owner) + key, list(_META))
        return _read(key, owner, fields)

    def _delete(self, key: str, owner: str, version: str | None, now: float) -> bool:
        reply = self._run(self._delete_script, owner, now, [key, version or ""])
        if reply[0] == b"conflict":
            raise Condition(version).conflict(key, reply[1].decode() or None)
        return bool(reply[1])

    def _list(self, owner: str, prefix: str) -> list[Entry]:
        with self._translated():
            names = [name.decode() for name in self._client.hkeys(self._account(owner)[0])]
            names = [name for name in names if name.startswith(prefix)]
            pipeline = self._client.pipeline(transaction=False)
            for name in names:
                pipeline.hmget(self._entry(owner) + name, list(_META))
            replies = pipeline.execute()
        found = [_read(name, owner, fields) for name, fields in zip(names, replies, strict=True)]
        return [entry for entry in found if entry is not None]

    def collect(self) -> Collected:
        with self._translated():
            owners = [owner.decode() for owner in self._client.smembers(self._account("")[2])]
        done = [self._run(self._collect_script, owner, self._clock(), []) for owner in owners]
        return Collected(*(sum(figures[place] for figures in done) for place in range(3)))

    # -- names and errors ----------------------------------------------------------------------

    def _entry(self, owner: str) -> str:
        return f"{self._prefix}:entry:{quote(owner, safe='')}:"

    def _account(self, owner: str) -> list[str]:
        name = quote(owner, safe="")
        return [f"{self._prefix}:sizes:{name}", f"{self._prefix}:expiry:{name}", f"{self._prefix}:owners"]

    def _run(self, script: Any, owner: str, now: float, arguments: list[Any]) -> Any:
        with self._translated():
            return script(keys=self._account(owner), args=[self._entry(owner), owner, repr(now), *arguments])

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except self._failures as exc:
            raise StoreError(
                f"{self.url} cannot be used", cause=str(exc), remedy="see whether the server runs and has room"
            ) from None


def _limit(value: int | None) -> str:
    return "" if value is None else str(value)


def _read(key: str, owner: str, fields: list[Any]) -> Entry | None:
    """The entry of a reply; None where there is none."""
    version, size, sha256, written, expires = fields[: len(_META)]
    if version is None:
        return None
    try:
        return Entry(
            key,
            owner,
            version.decode(),
            int(size),
            sha256.decode(),
            float(written),
            float(expires) if expires else None,
        )
    except (ValueError, TypeError, AttributeError) as exc:
        raise damaged(key, f"its record cannot be read: {exc}") from None
