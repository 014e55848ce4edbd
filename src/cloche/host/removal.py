"""Removing what a guest left behind, however it arranged it: very deep, unreadable, full of links and pipes."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_BATCH = 1000


def remove_tree(path: Path) -> None:
    """Remove a file, a link (not what it points to) or a folder, however long that takes. What cannot go is left."""
    for _ in removing(path):
        pass


def remove_at(parent: int, name: str) -> None:
    """Remove a folder inside one that is open. What cannot go is left."""
    with suppress(OSError):
        top = _open_folder(name, parent)
        try:
            for _ in _emptying(top):
                pass
        finally:
            os.close(top)
        os.rmdir(name, dir_fd=parent)


def removing(path: Path) -> Iterator[None]:
    """Remove a tree as `remove_tree` does, one entry a step.

    A tree deeper than any path or stack may be is taken apart level by level: folders inside a folder are first
    moved up, next to it. Nothing is recursive, two descriptors are open at a time beside the top's, and names are read
    by the thousand, however many there are.
    """
    with suppress(OSError):
        if not stat.S_ISDIR(path.lstat().st_mode):
            path.unlink()
            return
        top = _open_folder(str(path), None)
        try:
            yield from _emptying(top)
        finally:
            os.close(top)
        path.rmdir()


def _emptying(top: int) -> Iterator[None]:
    moved = 0
    for name in _names_until_gone(top):
        try:
            folder = _open_folder(name, top)
        except OSError:  # not a folder
            with suppress(OSError):
                os.unlink(name, dir_fd=top)
            yield
            continue
        try:
            for inner in _names_until_gone(folder):
                with suppress(OSError):
                    if _is_folder(inner, folder):
                        moved += 1
                        os.rename(inner, f".removed-{os.getpid()}-{moved}", src_dir_fd=folder, dst_dir_fd=top)
                    else:
                        os.unlink(inner, dir_fd=folder)
                yield
        finally:
            os.close(folder)
        with suppress(OSError):
            os.rmdir(name, dir_fd=top)
        yield


def _names_until_gone(folder: int) -> Iterator[str]:
    """The names in a folder while they are being removed, each once; those that come meanwhile too."""
    stayed: set[str] = set()
    while True:
        with os.scandir(folder) as listing:
            names = list(islice((entry.name for entry in listing if entry.name not in stayed), _BATCH))
        if not names:
            return
        yield from names
        stayed.update(name for name in names if _is_there(name, folder))


def _is_there(name: str, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True


def _is_folder(name: str, parent: int) -> bool:
    """Also makes it one that can be moved: that needs the right to write to it."""
    try:
        os.close(_open_folder(name, parent))
    except OSError:
        return False
    return True


def _open_folder(name: str, parent: int | None) -> int:
    """A descriptor of a folder, never through a link, also where its permissions were taken away."""
    handle = os.open(name, getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    try:
        if stat.S_IMODE(os.fstat(handle).st_mode) & 0o700 != 0o700:
            # By descriptor: between a look at a name and a change to it, the guest could put a link there.
            os.chmod(f"/proc/self/fd/{handle}", 0o700)
    finally:
        os.close(handle)
    return os.open(name, _FOLDER, dir_fd=parent)
