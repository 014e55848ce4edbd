"""The store that needs no server: rows in SQLite, large values in files beside it.

A save writes the new file, syncs it, and then switches the row in one transaction: whoever is killed in between
leaves the old value, and a file that `collect()` removes. Files are removed only under the lock that writers hold
when they switch, and a writer looks under that lock whether its file is still there.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from cloche.errors import ClocheError, DamagedEntryError, StoreError
from cloche.paths import private_folder
from cloche.stores.blobs import BlobFolder
from cloche.stores.interface import Collected, Condition, Entry, Held, Quota, Store, Stored

T = TypeVar("T")

INLINE_BYTES = 32 << 10
"""Smaller values lie in the row."""

_SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE entries (
    owner TEXT NOT NULL, key TEXT NOT NULL, version TEXT NOT NULL, size INTEGER NOT NULL, sha256 TEXT NOT NULL,
    written REAL NOT NULL, expires REAL, data BLOB, PRIMARY KEY (owner, key)
);
CREATE INDEX by_size ON entries (owner, expires, size);
CREATE INDEX by_content ON entries (owner, sha256) WHERE data IS NULL;
CREATE INDEX by_expiry ON entries (expires) WHERE expires IS NOT NULL;
"""
_COLUMNS = "key, owner, version, size, sha256, written, expires"
_ROWS, _LOCK, _BLOBS = "entries.sqlite", "opening.lock", "blobs"
_ELSEWHERE = "name a folder where you may write: CLOCHE_STATE_DIR, or CLOCHE_STORE=sqlite:///FOLDER"
_MAKE_ROOM = "make room on the disk, or delete entries"
_FULL = (errno.ENOSPC, errno.EDQUOT)
_PATIENCE = 30.0
_ATTEMPTS = 20

_inherited: list[sqlite3.Connection] = []
"""Connections of a parent process. Closing them here would take its locks away."""


class EmbeddedStore(Store):
    """A folder on this machine. Any number of processes may use it at once; not over a network file system."""

    def __init__(
        self, folder: str | os.PathLike[str], *, quota: Quota | None = None, clock: Callable[[], float] | None = None
    ) -> None:
        super().__init__(quota=quota, **({} if clock is None else {"clock": clock}))
        self._folder = _own_folder(Path(folder).absolute())
        self.url = f"sqlite://{self._folder}"
        self._blobs = BlobFolder(self._folder / _BLOBS)
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._process = os.getpid()
        with self._lock, self._translated():
            self._connect()

    def close(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None and self._process == os.getpid():
                connection.close()

    # -- the interface -------------------------------------------------------------------------

    def _put(self, entry: Entry, data: bytes, condition: Condition) -> Entry:
        return self._with_room(lambda: self._write(entry, data, condition))

    def _write(self, entry: Entry, data: bytes, condition: Condition) -> Entry:
        apart = entry.size > INLINE_BYTES
        if apart:  # what would be refused need not be written first
            with self._reading() as rows:
                self._admit(rows, entry, condition)
        for _ in range(_ATTEMPTS):
            if apart:  # also where such a file is there already: it may be damaged
                with self._translated():
                    self._blobs.write(entry.owner, entry.sha256, data)
            with self._writing() as rows:
                before = self._admit(rows, entry, condition)
                if apart and not self._blobs.is_whole(entry.owner, entry.sha256, entry.size):
                    continue  # a collector took it for a leftover
                rows.execute(
                    "INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    (entry.owner, entry.key, entry.version, entry.size, entry.sha256, entry.written, entry.expires,
                     None if apart else data),
                )  # fmt: skip
            self._discard(entry.owner, before)
            return entry
        raise StoreError(f"{self.url} removes files as fast as they are written", remedy="see who else uses the folder")

    def _get(self, key: str, owner: str) -> Stored | None:
        for _ in range(_ATTEMPTS):
            with self._reading() as rows:
                row = rows.execute(
                    f"SELECT {_COLUMNS}, data FROM entries WHERE owner = ? AND key = ?", (owner, key)
                ).fetchone()
            if row is None:
                return None
            entry = Entry(*row[:-1])
            if row[-1] is not None:
                return Stored(entry, bytes(row[-1]))
            with self._translated():
                data = self._blobs.read(owner, entry.sha256, entry.size)
            if data is not None:
                return Stored(entry, data)
            if self._head(key, owner) == entry:  # else it was replaced between the two looks
                raise DamagedEntryError(
                    f"{key!r} is damaged in the store",
                    cause=f"the file {self._blobs.path(owner, entry.sha256)} is missing",
                    remedy="delete it, or put back a copy that is whole",
                )
        raise StoreError(f"{key!r} changes faster than it can be read", remedy="try again")

    def _head(self, key: str, owner: str) -> Entry | None:
        with self._reading() as rows:
            return _one(rows, key, owner)

    def _delete(self, key: str, owner: str, version: str | None, now: float) -> bool:
        return self._with_room(lambda: self._remove(key, owner, version, now))

    def _remove(self, key: str, owner: str, version: str | None, now: float) -> bool:
        with self._writing() as rows:
            before = _one(rows, key, owner)
            alive = before is not None and not before.has_expired(now)
            if version is not None and (before is None or not alive or before.version != version):
                raise Condition(version).conflict(key, before.version if before is not None and alive else None)
            rows.execute("DELETE FROM entries WHERE owner = ? AND key = ?", (owner, key))
        self._discard(owner, before)
        return alive

    def _list(self, owner: str, prefix: str) -> list[Entry]:
        with self._reading() as rows:
            found = rows.execute(
                f"SELECT {_COLUMNS} FROM entries WHERE owner = ? AND substr(key, 1, ?) = ?",
                (owner, len(prefix), prefix),
            ).fetchall()
        return [Entry(*row) for row in found]

    def usage(self, *, owner: str) -> Held:
        with self._reading() as rows:
            return _held(rows, owner, "", self._clock())

    def collect(self) -> Collected:
        expired = self._with_room(self._remove_expired)
        leftovers, freed = self._blobs.sweep()
        freed += sum(size for _, _, size in expired if size <= INLINE_BYTES)
        files = self._remove_unused()
        known = {(self._blobs.folder_of(owner), sha256) for owner, sha256, _ in expired}
        self._checkpoint()
        return Collected(
            len(expired),
            leftovers + sum((folder, sha256) not in known for folder, sha256, _ in files),
            freed + sum(size for _, _, size in files),
        )

    def _remove_expired(self) -> list[tuple[str, str, int]]:
        """(owner, digest, size) of each entry."""
        now = self._clock()
        with self._writing() as rows:
            gone = rows.execute("SELECT owner, sha256, size FROM entries WHERE expires <= ?", (now,)).fetchall()
            rows.execute("DELETE FROM entries WHERE expires <= ?", (now,))
        return gone

    def _remove_unused(self) -> list[tuple[str, str, int]]:
        """Files to which no entry refers: (folder of the owner, digest, size) of each."""
        removed = []
        with self._writing() as rows:
            used = {
                (self._blobs.folder_of(owner), sha256)
                for owner, sha256 in rows.execute("SELECT owner, sha256 FROM entries WHERE data IS NULL")
            }
            for folder, sha256, path in self._blobs.files():
                if (folder, sha256) not in used:
                    removed.append((folder, sha256, path.stat().st_size))
                    path.unlink()
        return removed

    # -- room ----------------------------------------------------------------------------------

    def _with_room(self, action: Callable[[], T]) -> T:
        """Whoever finds the disk full tries again without our leftovers: even a delete needs some room at first."""
        try:
            return action()
        except StoreError as exc:
            if exc.remedy != _MAKE_ROOM:
                raise
        with suppress(ClocheError):
            self._remove_unused()
        with suppress(ClocheError):
            self._checkpoint()
        return action()

    def _checkpoint(self) -> None:
        """Empty the log of changes into the file of rows."""
        with self._reading() as rows:
            rows.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    # -- rows ----------------------------------------------------------------------------------

    def _admit(self, rows: sqlite3.Connection, entry: Entry, condition: Condition) -> Entry | None:
        """What is there now, when the write may happen."""
        before = _one(rows, entry.key, entry.owner)
        alive = before is not None and not before.has_expired(entry.written)
        condition.check(entry, before.version if before is not None and alive else None)
        if self.quota.total_bytes is not None or self.quota.entries is not None:
            self._check_quota(entry, _held(rows, entry.owner, entry.key, entry.written))
        return before

    def _discard(self, owner: str, before: Entry | None) -> None:
        """Remove the file of a value that was replaced, if it was the last to refer to it.

        The change is made and safe by now. Should this fail, on a full disk or by a lock, `collect()` finds the file:
        nobody may be told that the change had failed.
        """
        if before is None or before.size <= INLINE_BYTES:
            return
        with suppress(ClocheError), self._writing() as rows:
            used = rows.execute(
                "SELECT 1 FROM entries WHERE owner = ? AND sha256 = ? AND data IS NULL", (owner, before.sha256)
            ).fetchone()
            if used is None:
                self._blobs.remove(owner, before.sha256)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._translated():
            yield self._connect()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, alone; committed when the block ends well."""
        with self._lock, self._translated():
            connection = self._connect()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    # -- the file ------------------------------------------------------------------------------

    def _connect(self) -> sqlite3.Connection:
        if self._process != os.getpid():
            if self._connection is not None:
                _inherited.append(self._connection)
            self._connection, self._process = None, os.getpid()
        if self._connection is None:
            with _only_one(self._folder / _LOCK):
                self._connection = self._open()
        return self._connection

    def _open(self) -> sqlite3.Connection:
        path = self._folder / _ROWS
        connection = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
        try:
            os.chmod(path, 0o600)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")  # what was acknowledged outlives a loss of power
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version == 0:
                connection.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {_SCHEMA_VERSION}; COMMIT;")
            elif version != _SCHEMA_VERSION:
                raise StoreError(
                    f"{path} was written by another version of Cloche",
                    cause=f"its layout is {version}, this version knows {_SCHEMA_VERSION}",
                    remedy="use the newer version, or another folder",
                )
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Errors of SQLite and of files as ours."""
        try:
            yield
        except sqlite3.OperationalError as exc:
            remedy = _MAKE_ROOM if "full" in str(exc) else "see whether the folder is yours and not locked"
            raise StoreError(f"{self.url} cannot be used", cause=str(exc), remedy=remedy) from None
        except sqlite3.DatabaseError as exc:
            raise DamagedEntryError(
                f"{self._folder / _ROWS} is damaged",
                cause=str(exc),
                remedy="move the folder away; what is whole can be read with: sqlite3 entries.sqlite .recover",
            ) from None
        except OSError as exc:
            full = exc.errno in _FULL
            raise StoreError(
                f"{self.url} cannot be used", cause=str(exc), remedy=_MAKE_ROOM if full else _ELSEWHERE
            ) from None


def _own_folder(folder: Path) -> Path:
    """`folder`, for us alone. One in which there is something else is not made so: it may be anybody's."""
    try:
        foreign = any(folder.iterdir()) and not (folder / _ROWS).exists() and not (folder / _LOCK).exists()
    except FileNotFoundError:
        foreign = False
    except OSError as exc:
        raise StoreError(f"{folder} cannot be used as a store", cause=exc.strerror) from None
    around = next((above.parent for above in (folder, *folder.parents) if _is_blobs(above)), None)
    if around is not None:
        raise StoreError(
            f"{folder} cannot be used as a store",
            cause=f"it lies among the files of the store at {around}, which removes what it does not know",
            remedy="name a folder beside that store",
        )
    if foreign:
        raise StoreError(
            f"{folder} cannot be used as a store",
            cause="there is something else in it",
            remedy=f"name a new folder, such as sqlite://{folder}/cloche-store",
        )
    return private_folder(folder)


def _is_blobs(folder: Path) -> bool:
    return folder.name == _BLOBS and (folder.parent / _ROWS).exists()


def _one(rows: sqlite3.Connection, key: str, owner: str) -> Entry | None:
    row = rows.execute(f"SELECT {_COLUMNS} FROM entries WHERE owner = ? AND key = ?", (owner, key)).fetchone()
    return None if row is None else Entry(*row)


def _held(rows: sqlite3.Connection, owner: str, but: str, now: float) -> Held:
    total, count = rows.execute(
        "SELECT coalesce(sum(size), 0), count(*) FROM entries WHERE owner = ? AND key != ? "
        "AND (expires IS NULL OR expires > ?)",
        (owner, but, now),
    ).fetchone()
    return Held(total, count)


@contextmanager
def _only_one(path: Path) -> Iterator[None]:
    """Of several processes that open a new store at once, one makes it."""
    try:
        import fcntl
    except ImportError:  # a system without it has SQLite's own locks, which suffice but for the very first moment
        yield
        return
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
