"""Removing what a guest left behind, however it arranged it: very deep, unreadable, full of links and pipes."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(path: Path) -> None:
    """Remove a file, a link (not what it points to) or a folder. What cannot go is left.

    A tree deeper than any path or stack may be is taken apart level by level: folders inside a folder are first
    moved up, next to it. Nothing is recursive, and one descriptor is open at a time beside the top's.
    """
    with suppress(OSError):
        if not stat.S_ISDIR(path.lstat().st_mode):
            path.unlink()
            return
        top = _open_folder(str(path), None)
        try:
            _empty(top)
        finally:
            os.close(top)
        path.rmdir()


def remove_at(parent: int, name: str) -> None:
    """Remove a folder inside one that is open. What cannot go is left."""
    with suppress(OSError):
        top = _open_folder(name, parent)
        try:
            _empty(top)
        finally:
            os.close(top)
        os.rmdir(name, dir_fd=parent)


def _empty(top: int) -> None:
    pending = os.listdir(top)
    moved = 0
    while pending:
        name = pending.pop()
        try:
            folder = _open_folder(name, top)
        except OSError:  # not a folder
            with suppress(OSError):
                os.unlink(name, dir_fd=top)
            continue
        try:
            for inner in os.listdir(folder):
                if _is_folder(inner, folder):
                    moved += 1
                    higher = f".removed-{os.getpid()}-{moved}"
                    with suppress(OSError):
                        os.rename(inner, higher, src_dir_fd=folder, dst_dir_fd=top)
                        pending.append(higher)
                else:
                    with suppress(OSError):
                        os.unlink(inner, dir_fd=folder)
        finally:
            os.close(folder)
        with suppress(OSError):
            os.rmdir(name, dir_fd=top)


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
