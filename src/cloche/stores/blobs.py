"""Large values as files named by what is in them: written beside, synced, then renamed into place."""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_BEING_WRITTEN = ".new-"
_ABANDONED = 3600.0
"""Seconds after which a file that is still being written belongs to nobody."""


class BlobFolder:
    """A folder of files by owner and digest. Owners share no file: what one keeps cannot be told by another."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def path(self, owner: str, sha256: str) -> Path:
        """Where the content of that digest is, or would be."""
        return self._root / hashlib.sha256(owner.encode()).hexdigest()[:24] / sha256[:2] / sha256

    def write(self, owner: str, sha256: str, data: bytes) -> None:
        """Have the content in place, safe from a loss of power, when this returns."""
        target = self.path(owner, sha256)
        _make_folder(target.parent)
        temporary = target.parent / f"{_BEING_WRITTEN}{secrets.token_hex(8)}"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(descriptor, view) :]
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.replace(temporary, target)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
        _sync_folder(target.parent)

    def is_whole(self, owner: str, sha256: str, size: int) -> bool:
        """Whether a file of that digest and size is there, and so need not be written again."""
        try:
            return self.path(owner, sha256).stat().st_size == size
        except OSError:
            return False

    def read(self, owner: str, sha256: str, limit: int) -> bytes | None:
        """The content, at most one byte more than `limit`; None when there is no file."""
        try:
            with self.path(owner, sha256).open("rb") as handle:
                return handle.read(limit + 1)
        except FileNotFoundError:
            return None

    def remove(self, owner: str, sha256: str) -> None:
        """Remove a file that nobody refers to."""
        with suppress(FileNotFoundError):
            self.path(owner, sha256).unlink()

    def files(self) -> Iterator[tuple[str, str, Path]]:
        """(folder of the owner, digest, path) of each finished file."""
        for path in self._root.glob("*/*/*"):
            if not path.name.startswith(_BEING_WRITTEN):
                yield path.parent.parent.name, path.name, path

    def folder_of(self, owner: str) -> str:
        """Name of the owner's folder, as `files` gives it."""
        return self.path(owner, "00").parent.parent.name

    def sweep(self) -> tuple[int, int]:
        """Remove files that were being written by somebody who is gone: (how many, bytes)."""
        count = freed = 0
        for path in self._root.glob(f"*/*/{_BEING_WRITTEN}*"):
            with suppress(OSError):
                status = path.stat()
                if time.time() - status.st_mtime > _ABANDONED:
                    path.unlink()
                    count, freed = count + 1, freed + status.st_size
        return count, freed


def _make_folder(folder: Path, levels: int = 3) -> None:
    """A folder of ours and, where they are missing, those above it: blobs, owner, first digits."""
    if folder.is_dir() or not levels:
        return
    _make_folder(folder.parent, levels - 1)
    folder.mkdir(mode=0o700, exist_ok=True)
    _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    """A new name is only safe when its folder is."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
