"""Copies of a session's files: for a branch, and for a savepoint to which it may return.

The guest owns every name here, and may still be changing them. Nothing follows a link, nothing opens a FIFO or a
device, holes stay holes, and what has not changed since the last copy is not copied again.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import NamedTuple

from cloche.errors import BranchError
from cloche.host import guest_files
from cloche.host.removal import remove_at
from cloche.session.deadline import time_left
from cloche.session.descriptors import none_left

MAX_DEPTH = 64
MAX_ENTRIES = 16_384
_CHUNK = 1 << 22
_SKIPPED = (stat.S_IFSOCK, stat.S_IFCHR, stat.S_IFBLK)


class _Print(NamedTuple):
    """Enough to see that an entry is the same as when it was last looked at."""

    mode: int
    size: int
    changed: int
    status_changed: int
    inode: int


class TreeCopy:
    """A copy of one folder in another that is kept up to date, and can be put back."""

    def __init__(self) -> None:
        self._originals: dict[str, _Print] = {}

    def take(self, source: int, target: int) -> None:
        """Make `target` like `source`."""
        self._originals = _mirror(source, target, self._originals)

    def put_back(self, source: int, target: int) -> None:
        """Make `source` again what it was when `target` was taken from it; what has not changed stays untouched."""
        now = _prints(source)
        removed = {path for path in now if now[path] != self._originals.get(path)}
        _remove(source, removed, now)
        for path in sorted(self._originals):  # folders come before what is in them
            if path not in now or _went(path, removed):
                _copy_entry(target, source, path, self._originals[path].mode)
        self._originals = _prints(source)


def copy_tree(source: int, target: int) -> None:
    """Copy all of a folder into an empty one."""
    _mirror(source, target, {})


def _mirror(source: int, target: int, known: dict[str, _Print]) -> dict[str, _Print]:
    found = _prints(source)
    stale = {path for path in known if found.get(path) != known[path]}
    _remove(target, stale, known)
    for path in sorted(found):
        if known.get(path) != found[path] or _went(path, stale):
            if time_left(1.0) <= 0:
                raise BranchError(
                    "the session's files could not be copied in time",
                    remedy="remove what is not needed, or give the call more time (timeout_ms=...)",
                )
            _copy_entry(source, target, path, found[path].mode)
    return found


def _went(path: str, removed: set[str]) -> bool:
    """Whether it was removed, or a folder above it."""
    if path in removed:
        return True
    parts = path.split("/")
    return any("/".join(parts[:end]) in removed for end in range(1, len(parts)))


def _prints(root: int) -> dict[str, _Print]:
    """Everything below a folder, by relative path. Other file systems that are mounted in it are left out."""
    walk = guest_files.Walk(
        root, max_entries=MAX_ENTRIES, max_depth=MAX_DEPTH, same_device=True, on_error=_cannot_be_read
    )
    found = {path: _print_of(status) for path, status in walk if stat.S_IFMT(status.st_mode) not in _SKIPPED}
    if not walk.complete:
        raise BranchError(
            f"the session has more than {MAX_ENTRIES} files, or folders deeper than {MAX_DEPTH}",
            remedy="remove some first",
        )
    return found


def _cannot_be_read(folder: str, exc: OSError) -> None:
    if isinstance(exc, FileNotFoundError):
        return  # removed meanwhile
    raise none_left(exc) or BranchError(f"{folder or 'the workspace'} cannot be read", cause=exc.strerror) from None


def _print_of(status: os.stat_result) -> _Print:
    if stat.S_ISDIR(status.st_mode):  # what is in it is looked at by itself
        return _Print(status.st_mode, 0, 0, 0, status.st_ino)
    return _Print(status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def _parent(root: int, path: str) -> tuple[int, str]:
    """(descriptor of the folder that holds it, its name there)."""
    *folders, name = path.split("/")
    return guest_files.descend(os.dup(root), folders), name


def _copy_entry(source: int, target: int, path: str, mode: int) -> None:
    """One folder (empty), file, link or FIFO. What vanished meanwhile is left out."""
    try:
        there, name = _parent(source, path)
    except OSError:
        return
    try:
        here, _ = _parent(target, path)
    except OSError:
        os.close(there)
        return
    try:
        if stat.S_ISDIR(mode):
            with suppress(FileExistsError):
                os.mkdir(name, stat.S_IMODE(mode) & 0o777 | 0o700, dir_fd=here)
        elif stat.S_ISLNK(mode):
            os.symlink(os.readlink(name, dir_fd=there), name, dir_fd=here)
        elif stat.S_ISFIFO(mode):
            os.mkfifo(name, stat.S_IMODE(mode) & 0o777, dir_fd=here)
        else:
            _copy_file(there, here, name, mode)
    except FileNotFoundError:
        return
    except OSError as exc:
        if exc.errno in (errno.ENOSPC, errno.EDQUOT):
            raise BranchError(
                "the session's files do not fit into a copy",
                cause="they hold more than policy.workspace_bytes",
                remedy="remove some, or raise policy.workspace_bytes",
            ) from None
        raise BranchError(f"{path} cannot be copied", cause=os.strerror(exc.errno or 0)) from None
    finally:
        os.close(there)
        os.close(here)


def _copy_file(there: int, here: int, name: str, mode: int) -> None:
    try:
        original = guest_files.open_file(name, there)
    except guest_files.NotPlainFileError:  # meanwhile
        return
    try:
        status = os.fstat(original)
        copy = guest_files.create_file(name, here, mode=stat.S_IMODE(mode) & 0o777 | 0o200)
        try:
            _copy_data(original, copy, status.st_size)
            os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))
            os.fchmod(copy, stat.S_IMODE(mode) & 0o777)
        finally:
            os.close(copy)
    finally:
        os.close(original)


def _copy_data(original: int, copy: int, size: int) -> None:
    """Only what is there: a sparse file of a terabyte costs nothing, and copies as one."""
    at = 0
    while at < size:
        try:
            start = os.lseek(original, at, os.SEEK_DATA)
        except OSError:  # nothing but a hole is left
            break
        end = min(os.lseek(original, start, os.SEEK_HOLE), size)
        os.lseek(copy, start, os.SEEK_SET)
        while start < end:
            sent = os.sendfile(copy, original, start, min(end - start, _CHUNK))
            if not sent:
                return  # it was cut short meanwhile
            start += sent
        at = end
    os.ftruncate(copy, size)


def _remove(root: int, paths: set[str], known: dict[str, _Print]) -> None:
    """Remove these, deepest first; folders with all that is in them."""
    for path in sorted(paths, reverse=True):
        try:
            folder, name = _parent(root, path)
        except OSError:
            continue
        try:
            if stat.S_ISDIR(known[path].mode):
                remove_at(folder, name)
            else:
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=folder)
        finally:
            os.close(folder)
