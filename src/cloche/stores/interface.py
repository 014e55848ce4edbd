"""What every store does: keep bytes under a key of an owner, and let nobody overwrite what they have not seen.

A store never looks inside what it keeps, and nothing of it is ever unpickled here. The core blocks, since SQLite does
and the others do not mind; `AsyncStore` is the same for event loops.
"""

from __future__ import annotations

import builtins
import hashlib
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cloche.errors import ConflictError, DamagedEntryError, QuotaError, RequestError, UnknownEntryError

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

KEY_BYTES = 256
OWNER_BYTES = 64
LONGEST_TTL = 10**10
"""Seconds: some three centuries. Larger numbers overflow in one backend or another."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known of a value without reading it."""

    key: str
    owner: str
    version: str
    """Another one after each write: what `if_match` takes. Its form is the store's own."""
    size: int
    sha256: str
    written: float
    """Seconds since the epoch."""
    expires: float | None = None

    def has_expired(self, now: float) -> bool:
        """Whether it is as good as gone."""
        return self.expires is not None and self.expires <= now


@dataclass(frozen=True, slots=True)
class Stored:
    """A value, and what is known of it."""

    entry: Entry
    data: bytes


@dataclass(frozen=True, slots=True)
class Quota:
    """What each owner may keep; None where there is no limit."""

    total_bytes: int | None = None
    entries: int | None = None
    entry_bytes: int | None = None

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 0):
                raise RequestError(
                    f"{name} of a quota must be a whole number of at least 0, or None, not {value!r:.40}"
                )


@dataclass(frozen=True, slots=True)
class Held:
    """What an owner keeps."""

    total_bytes: int
    entries: int


@dataclass(frozen=True, slots=True)
class Collected:
    """What `collect()` removed."""

    entries: int
    """That had expired."""
    leftovers: int
    """That nobody referred to: what interrupted saves left."""
    freed_bytes: int


@dataclass(frozen=True, slots=True)
class Condition:
    """What must be there for a write to happen."""

    version: str | None = None
    absent: bool = False

    def check(self, entry: Entry, found: str | None) -> None:
        """`found`: the version that is there now, None where nothing is."""
        if (self.absent and found is not None) or (self.version is not None and found != self.version):
            raise self.conflict(entry.key, found)

    def conflict(self, key: str, found: str | None) -> ConflictError:
        """The refusal."""
        if self.absent:
            message, cause = f"{key!r} is there already", None
        elif found is None:
            message, cause = f"{key!r} is gone", f"version {self.version} was expected"
        else:
            message = f"{key!r} was changed by somebody else meanwhile"
            cause = f"version {self.version} was expected, {found} is there"
        return ConflictError(
            message,
            expected=self.version,
            found=found,
            cause=cause,
            remedy="read it again, apply the change to what is there now, and put that",
        )


class Store(ABC):
    """Bytes by owner and key. Owners do not see each other; a version is another one after each write.

    Safe to be used from several threads and, but for what a backend says itself, from several processes and hosts.
    Hosts that share a store need clocks that agree, since expiry is a time.
    """

    url: str
    """Where it is, without secrets."""

    def __init__(self, *, quota: Quota | None = None, clock: Callable[[], float] = time.time) -> None:
        self.quota = quota or Quota()
        self._clock = clock

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.url}>"

    # -- the interface -------------------------------------------------------------------------

    def put(
        self,
        key: str,
        data: bytes | bytearray | memoryview,
        *,
        owner: str,
        ttl: float | None = None,
        if_match: str | None = None,
        if_none_match: bool = False,
    ) -> Entry:
        """Keep `data`; when this returns it is kept, and until then what was there before is.

        `ttl` is in seconds. With `if_match` only when the version is still that one, with `if_none_match` only when
        nothing is there; else `ConflictError`. Over the quota: `QuotaError`, with figures.
        """
        check_names(key, owner)
        _check_version(if_match)
        if if_match is not None and if_none_match:
            raise RequestError("if_match and if_none_match exclude each other")
        if ttl is not None and (type(ttl) not in (int, float) or not 0 < ttl <= LONGEST_TTL):
            raise RequestError(f"ttl must be a number of seconds above 0 and up to {LONGEST_TTL}, not {ttl!r:.40}")
        content = _content(data)
        limit = self.quota.entry_bytes
        if limit is not None and len(content) > limit:
            raise QuotaError(f"{key!r} has {len(content)} bytes; one entry may have {limit}", quota="entry_bytes")
        now = self._clock()
        entry = Entry(
            key,
            owner,
            secrets.token_hex(12),
            len(content),
            hashlib.sha256(content).hexdigest(),
            now,
            None if ttl is None else now + ttl,
        )
        return self._put(entry, content, Condition(if_match, if_none_match))

    def get(self, key: str, *, owner: str) -> Stored:
        """The value. What is not there, has expired or is another owner's: `UnknownEntryError`."""
        check_names(key, owner)
        stored = self._get(key, owner)
        if stored is None or stored.entry.has_expired(self._clock()):
            raise unknown(key)
        entry = stored.entry
        if len(stored.data) != entry.size or hashlib.sha256(stored.data).hexdigest() != entry.sha256:
            raise damaged(key, f"{len(stored.data)} bytes that are not the {entry.size} that were written")
        return stored

    def head(self, key: str, *, owner: str) -> Entry:
        """What is known of a value, without reading it."""
        check_names(key, owner)
        entry = self._head(key, owner)
        if entry is None or entry.has_expired(self._clock()):
            raise unknown(key)
        return entry

    def delete(self, key: str, *, owner: str, if_match: str | None = None) -> bool:
        """Remove a value; whether there was one. With `if_match` only when the version is still that one."""
        check_names(key, owner)
        _check_version(if_match)
        return self._delete(key, owner, if_match, self._clock())

    def list(self, *, owner: str, prefix: str = "") -> builtins.list[Entry]:
        """An owner's entries whose key begins with `prefix`, sorted by key."""
        check_names("-" if prefix == "" else prefix, owner)
        now = self._clock()
        return sorted(
            (entry for entry in self._list(owner, prefix) if not entry.has_expired(now)), key=lambda entry: entry.key
        )

    def usage(self, *, owner: str) -> Held:
        """What an owner keeps now."""
        entries = self.list(owner=owner)
        return Held(sum(entry.size for entry in entries), len(entries))

    @abstractmethod
    def collect(self) -> Collected:
        """Remove what has expired and what interrupted saves left, of all owners. Safe beside writers."""

    @abstractmethod
    def close(self) -> None:
        """Let go of files and connections. Idempotent."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- what a backend does -------------------------------------------------------------------

    @abstractmethod
    def _put(self, entry: Entry, data: bytes, condition: Condition) -> Entry:
        """Check the condition and the quota and write, as one step."""

    @abstractmethod
    def _get(self, key: str, owner: str) -> Stored | None:
        """The value, expired or not, unchecked."""

    @abstractmethod
    def _head(self, key: str, owner: str) -> Entry | None:
        """What is known of it, expired or not."""

    @abstractmethod
    def _delete(self, key: str, owner: str, version: str | None, now: float) -> bool:
        """Remove it, as one step."""

    @abstractmethod
    def _list(self, owner: str, prefix: str) -> builtins.list[Entry]:
        """In any order, expired ones too."""

    def _check_quota(self, entry: Entry, others: Held) -> None:
        """`others`: what the owner keeps under other keys."""
        quota = self.quota
        if quota.entries is not None and others.entries + 1 > quota.entries:
            raise QuotaError(
                f"{entry.owner!r} keeps {others.entries} entries; {quota.entries} are allowed",
                quota="entries",
                remedy="delete some, or give them a ttl",
            )
        if quota.total_bytes is not None and others.total_bytes + entry.size > quota.total_bytes:
            raise QuotaError(
                f"{entry.owner!r} keeps {others.total_bytes} bytes beside {entry.key!r}; with {entry.size} more it "
                f"would be over the {quota.total_bytes} that are allowed",
                quota="total_bytes",
                remedy="delete some, or give them a ttl",
            )


def check_names(key: str, owner: str) -> None:
    """Refuse what cannot be a key or an owner everywhere."""
    for what, name, limit in (("a key", key, KEY_BYTES), ("an owner", owner, OWNER_BYTES)):
        try:
            size = len(name.encode("utf-8"))
        except (AttributeError, UnicodeEncodeError):
            raise RequestError(f"{what} must be text that UTF-8 can write, not {name!r:.60}") from None
        if not 0 < size <= limit or not name.isprintable():
            raise RequestError(f"{what} must be 1 to {limit} bytes of printable text, not {name!r:.60}")


def _check_version(version: str | None) -> None:
    """An empty one is nobody's: a backend must not take it for no condition at all."""
    if version is not None and (type(version) is not str or not version or not version.isprintable()):
        raise RequestError(f"if_match must be the version of an entry, not {version!r:.40}")


def _content(data: bytes | bytearray | memoryview) -> bytes:
    """The bytes; not those that `bytes` would make of a number or a list."""
    if type(data) is bytes:
        return data
    try:
        return memoryview(data).tobytes()
    except TypeError:
        raise RequestError(f"a store keeps bytes, not {type(data).__name__}") from None


def unknown(key: str) -> UnknownEntryError:
    """Nothing is there for whoever asks."""
    return UnknownEntryError(f"there is no {key!r}", cause="it was never put, was deleted, or has expired")


def damaged(key: str, cause: str) -> DamagedEntryError:
    """What is there is not what was written."""
    return DamagedEntryError(
        f"{key!r} is damaged in the store", cause=cause, remedy="delete it, or put back a copy that is whole"
    )
