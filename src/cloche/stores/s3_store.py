"""The store in a bucket of S3, or of anything that speaks its protocol and honours conditions on writes.

One object for each entry: a small head (owner, key, digest, expiry), then the data; the version is the object's ETag.
Two writers are kept apart by the server (``If-Match``, ``If-None-Match``); one that ignores those headers is found out
and refused. No delete of S3 takes a condition everywhere, so what has expired is first replaced, on condition, by a
small mark that it is gone; marks are removed when they are a day old. A quota is looked up before the write: writers at
the very same moment can pass it by one entry each.

Objects lie in the folder ``.cloche-entries`` below the prefix, by owner and key. No owner, key or prefix of another
store can have that name, so that stores of one bucket never see each other, wherever in it they lie.
"""

from __future__ import annotations

import json
import secrets
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from cloche.errors import DamagedEntryError, StoreError
from cloche.stores.interface import Collected, Condition, Entry, Held, Quota, Store, Stored, damaged

INSTALL = "pip install 'cloche[s3]'"

_MAGIC = b"CLOCHE-E"
_HEAD = struct.Struct(">8sI")
_HEAD_ROOM = 4096
_FOLDER = ".cloche-entries"
"""Not a name that `_plain` gives."""
_MARK_AGE = 86_400.0
_AT_ONCE = 8
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")


@dataclass(frozen=True, slots=True)
class _Object:
    """What is in the bucket at the place of an entry."""

    tag: str
    modified: float
    entry: Entry | None
    """None for the mark that an entry is gone."""
    head_bytes: int


class S3Store(Store):
    """A bucket, below a prefix. Any number of hosts may use it at once."""

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        *,
        quota: Quota | None = None,
        clock: Callable[[], float] | None = None,
        **options: Any,
    ) -> None:
        """`options` go to `obstore.store.S3Store`; what is missing there comes from ``AWS_*`` variables."""
        super().__init__(quota=quota, **({} if clock is None else {"clock": clock}))
        try:
            import obstore
            from obstore import exceptions
        except ImportError:
            raise StoreError("s3:// needs the obstore package", remedy=INSTALL) from None
        prefix = prefix.strip("/")
        if _FOLDER in prefix.split("/"):
            raise StoreError(
                f"s3://{bucket}/{prefix} cannot be used as a store",
                cause=f"{_FOLDER} is where another store keeps its entries",
                remedy="name a prefix beside it",
            )
        self.url = f"s3://{bucket}/{prefix}".rstrip("/")
        self._lost_races = (exceptions.AlreadyExistsError, exceptions.PreconditionError)
        self._failures = (exceptions.BaseError, OSError)
        self._prefix = f"{prefix}/{_FOLDER}/" if prefix else f"{_FOLDER}/"
        self._conditions_hold = False
        with self._translated():
            self._bucket = obstore.store.S3Store(bucket, **options)

    def close(self) -> None:
        pass  # connections belong to the library, which shares them

    # -- the interface -------------------------------------------------------------------------

    def _put(self, entry: Entry, data: bytes, condition: Condition) -> Entry:
        self._admit(entry)
        mode: Any = "overwrite"
        if condition.version is not None or condition.absent:
            there = self._look(self._path(entry.owner, entry.key), entry.key)
            alive = there is not None and there.entry is not None and not there.entry.has_expired(entry.written)
            condition.check(entry, there.tag if there is not None and alive else None)
            self._require_conditions()
            mode = "create" if there is None else {"e_tag": there.tag}
        try:
            tag = self._write(entry, data, mode)
        except _LostRace:
            now = self._look(self._path(entry.owner, entry.key), entry.key)
            raise condition.conflict(entry.key, None if now is None or now.entry is None else now.tag) from None
        return replace(entry, version=tag)

    def _get(self, key: str, owner: str) -> Stored | None:
        with self._translated():
            try:
                found = self._bucket.get(self._path(owner, key))
                whole = bytes(found.bytes())
            except FileNotFoundError:
                return None
        there = _parse(whole, found.meta, key)
        return None if there.entry is None else Stored(there.entry, whole[there.head_bytes :])

    def _head(self, key: str, owner: str) -> Entry | None:
        there = self._look(self._path(owner, key), key)
        return None if there is None else there.entry

    def _delete(self, key: str, owner: str, version: str | None, now: float) -> bool:
        path = self._path(owner, key)
        try:
            there = self._look(path, key)
        except DamagedEntryError:
            if version is not None:
                raise
            with self._translated():
                self._bucket.delete(path)
            return True
        entry = None if there is None else there.entry
        alive = entry is not None and not entry.has_expired(now)
        if version is not None:
            if entry is None or not alive or entry.version != version:
                raise Condition(version).conflict(key, entry.version if entry is not None and alive else None)
            self._require_conditions()
            try:
                self._mark_gone(path, version)
            except _LostRace:
                raise Condition(version).conflict(key, "another one") from None
        elif alive:
            with self._translated():
                self._bucket.delete(path)
        return alive

    def _list(self, owner: str, prefix: str) -> list[Entry]:
        found = self._look_at([path for path, _ in self._objects(f"{_plain(owner)}/")])
        return [there.entry for _, there in found if there.entry is not None and there.entry.key.startswith(prefix)]

    def collect(self) -> Collected:
        now = self._clock()
        entries = marks = freed = 0
        found = self._look_at([path for path, _ in self._objects("")])
        for path, there in found:
            if there.entry is None:
                if now - there.modified > _MARK_AGE:
                    with self._translated():
                        self._bucket.delete(path)
                    marks, freed = marks + 1, freed + there.head_bytes
            elif there.entry.has_expired(now):
                self._require_conditions()
                try:
                    self._mark_gone(path, there.tag)
                except _LostRace:
                    continue  # somebody has written it anew
                entries, freed = entries + 1, freed + there.entry.size
        return Collected(entries, marks, freed)

    # -- objects -------------------------------------------------------------------------------

    def _path(self, owner: str, key: str) -> str:
        return f"{self._prefix}{_plain(owner)}/{_plain(key)}"

    def _objects(self, folder: str) -> list[tuple[str, int]]:
        with self._translated():
            return [
                (item["path"], item["size"]) for batch in self._bucket.list(f"{self._prefix}{folder}") for item in batch
            ]

    def _look(self, path: str, key: str) -> _Object | None:
        """The head of an object, without its data."""
        with self._translated():
            try:
                found = self._bucket.get(path, options={"range": (0, _HEAD_ROOM)})
                return _parse(bytes(found.bytes()), found.meta, key)
            except FileNotFoundError:
                return None
            except self._failures:
                if self._bucket.head(path)["size"]:
                    raise
                raise damaged(key, "its object is empty") from None  # of which no range can be had

    def _look_at(self, paths: list[str]) -> list[tuple[str, _Object]]:
        """The heads of many; what is not ours, or is gone by now, is passed over."""

        def look(path: str) -> _Object | None:
            try:
                found = self._look(path, path)
            except DamagedEntryError:
                return None
            entry = None if found is None else found.entry
            # what was copied here from elsewhere belongs to another place
            return found if entry is None or self._path(entry.owner, entry.key) == path else None

        with ThreadPoolExecutor(_AT_ONCE) as threads:
            found = list(threads.map(look, paths))
        return [(path, there) for path, there in zip(paths, found, strict=True) if there is not None]

    def _write(self, entry: Entry | None, data: bytes, mode: Any, path: str = "") -> str:
        """Put an object there; its tag. A condition that does not hold: `_LostRace`."""
        # Random, so that no two writes ever have one tag.
        head: dict[str, Any] = {"nonce": secrets.token_hex(8)}
        if entry is not None:
            path = self._path(entry.owner, entry.key)
            head |= {name: getattr(entry, name) for name in ("key", "owner", "size", "sha256", "written", "expires")}
        text = json.dumps(head).encode("ascii")
        content = _HEAD.pack(_MAGIC, len(text)) + text + data
        with self._translated():
            try:
                written = self._bucket.put(path, content, mode=mode, use_multipart=False)
            except self._lost_races:
                raise _LostRace from None
            except FileNotFoundError:
                raise _LostRace from None  # it was deleted meanwhile
        return str(written["e_tag"])

    def _mark_gone(self, path: str, tag: str) -> None:
        self._write(None, b"", {"e_tag": tag}, path)

    def _admit(self, entry: Entry) -> None:
        quota = self.quota
        if quota.total_bytes is None and quota.entries is None:
            return
        path = self._path(entry.owner, entry.key)
        sizes = [size for other, size in self._objects(f"{_plain(entry.owner)}/") if other != path]
        total, entries = quota.total_bytes, quota.entries
        if (total is None or sum(sizes) + entry.size <= total) and (entries is None or len(sizes) < entries):
            return  # even with heads, marks and what has expired
        others = [other for other in self.list(owner=entry.owner) if other.key != entry.key]
        self._check_quota(entry, Held(sum(other.size for other in others), len(others)))

    def _require_conditions(self) -> None:
        """Find out, once, whether the server honours conditions; one that ignores them would lose updates."""
        if self._conditions_hold:
            return
        path = f"{self._prefix}.conditions-{secrets.token_hex(8)}"
        tag = self._write(None, b"", "create", path)
        honoured = 0
        other = f'"{"0" * 32}"' if tag.startswith('"') else "0" * 32
        for mode in ("create", {"e_tag": other}):
            try:
                self._write(None, b"", mode, path)
            except _LostRace:
                honoured += 1
        with self._translated():
            self._bucket.delete(path)
        if honoured < 2:
            raise StoreError(
                f"{self.url} cannot keep two writers apart",
                cause="the server ignores If-Match or If-None-Match",
                remedy="use a server that honours conditional writes, or redis:// or sqlite://",
            )
        self._conditions_hold = True

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except self._failures as exc:
            cause = str(exc).partition("\n\nDebug source:")[0]
            raise StoreError(
                f"{self.url} cannot be used", cause=cause[:500], remedy="see endpoint, region and AWS_* credentials"
            ) from None


class _LostRace(Exception):
    """Somebody else has written meanwhile."""


def _parse(data: bytes, meta: Any, key: str) -> _Object:
    """The head at the start of an object."""
    try:
        magic, size = _HEAD.unpack_from(data)
        if magic != _MAGIC or _HEAD.size + size > min(len(data), _HEAD_ROOM):
            raise ValueError("not an object of a store")
        head = json.loads(data[_HEAD.size : _HEAD.size + size])
        tag = str(meta["e_tag"])
        entry = None
        if "key" in head:
            expires = None if head["expires"] is None else float(head["expires"])
            entry = Entry(
                str(head["key"]), str(head["owner"]), tag, int(head["size"]), str(head["sha256"]),
                float(head["written"]), expires,
            )  # fmt: skip
        return _Object(tag, meta["last_modified"].timestamp(), entry, _HEAD.size + size)
    except (struct.error, ValueError, KeyError, TypeError, RecursionError) as exc:
        raise damaged(key, f"its head cannot be read: {exc}") from None


def _plain(name: str) -> str:
    """`name` in characters that every server and path takes as they are; two names never become one."""
    return "".join(chr(byte) if byte in _PLAIN else f"~{byte:02x}" for byte in name.encode())
