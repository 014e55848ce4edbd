"""Sessions that were set aside: their variables and files, on disk, where only this user can look."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from cloche.snapshot import Snapshot

if TYPE_CHECKING:
    from cloche.aio import AsyncSandbox

MOST_FILES = 1000


@dataclass(frozen=True, slots=True)
class KeptSession:
    """Where a session was put."""

    folder: Path
    size: int
    files: tuple[str, ...]


class Shelf:
    """A private folder for as long as the pool lives, with a bound on what lies in it."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._used = 0
        self._root: Path | None = None

    async def take(self, sandbox: AsyncSandbox, name: str) -> KeptSession | None:
        """Save a session whole. None when that cannot be: something of it would be lost, or there is no room."""
        snapshot = await sandbox.snapshot()
        if snapshot.skipped:
            return None
        listed = await sandbox.list_files()
        size = snapshot.size + sum(file.size for file in listed)
        if len(listed) > MOST_FILES or self._used + size > self._most:
            return None
        contents = [snapshot.to_bytes(), *[await sandbox.get_file(file.path) for file in listed]]
        folder = self._folder() / name
        await anyio.to_thread.run_sync(_write, folder, contents)
        self._used += size
        return KeptSession(folder, size, tuple(file.path for file in listed))

    async def give_back(self, kept: KeptSession, sandbox: AsyncSandbox) -> None:
        """Fill a fresh sandbox with what was saved."""
        contents = await anyio.to_thread.run_sync(_read, kept.folder, len(kept.files) + 1)
        for path, data in zip(kept.files, contents[1:], strict=True):
            await sandbox.put_file(path, data)
        await sandbox.restore(Snapshot.from_bytes(contents[0]))
        self.drop(kept)

    def drop(self, kept: KeptSession) -> None:
        """It is not needed any more."""
        self._used -= kept.size
        shutil.rmtree(kept.folder, ignore_errors=True)

    def clear(self) -> None:
        """The pool is closed."""
        root, self._root = self._root, None
        if root is not None:
            shutil.rmtree(root, ignore_errors=True)

    def _folder(self) -> Path:
        if self._root is None:
            self._root = Path(tempfile.mkdtemp(prefix="cloche-pool-"))  # for its owner alone
        return self._root


def _write(folder: Path, contents: list[bytes]) -> None:
    fresh = folder.with_suffix(".new")
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        fresh.mkdir(mode=0o700)
        for number, data in enumerate(contents):
            descriptor = os.open(fresh / str(number), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with open(descriptor, "wb") as handle:
                handle.write(data)
        fresh.rename(folder)
    except OSError:
        shutil.rmtree(fresh, ignore_errors=True)  # the disk is full, and half of a session is of no use
        raise


def _read(folder: Path, count: int) -> list[bytes]:
    return [(folder / str(number)).read_bytes() for number in range(count)]
