"""Opens what a guest can have named: by descriptor, from a folder that the host holds, through no link.

Every name below a workspace is the guest's, and may become a link, a pipe or another folder between two looks at it.
So each step goes from the descriptor of the last (`openat` with ``O_NOFOLLOW``), one component at a time: for names
without ``..`` that is what `openat2` gives with ``RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS``, on every kernel and without
a foreign function. Files are plain ones, opened without waiting, and read up to a limit.

No other module opens, looks at or makes files below a path that a guest can write; `tests/test_host_paths.py` holds
them to that. All functions raise `OSError`.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PLACE = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_FRESH = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 1 << 20


class FileTooLargeError(OSError):
    """A file holds more than was to be read. `size` is what it held when it was opened."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(errno.EFBIG, os.strerror(errno.EFBIG))
        self.size = size
        self.limit = limit


class NotPlainFileError(OSError):
    """A folder, a pipe, a socket or a device, where a file was to be read."""

    def __init__(self) -> None:
        super().__init__(errno.EISDIR, "Not a plain file")


# -- folders -------------------------------------------------------------------------------------


def open_folder(path: str | os.PathLike[str], *, parent: int | None = None) -> int:
    """A descriptor of a folder. The last name of `path` is no link; names before it must be out of a guest's reach."""
    return os.open(path, FOLDER, dir_fd=parent)


def descend(folder: int, names: Iterable[str], *, create: bool = False, mode: int = 0o755) -> int:
    """The folder that these names lead to. Closes the descriptor that it is given, also when it fails."""
    for name in names:
        try:
            try:
                inner = os.open(name, FOLDER, dir_fd=folder)
            except FileNotFoundError:
                if not create:
                    raise
                with suppress(FileExistsError):
                    os.mkdir(name, mode, dir_fd=folder)
                inner = os.open(name, FOLDER, dir_fd=folder)
        finally:
            os.close(folder)
        folder = inner
    return folder


def open_without_links(path: str) -> int:
    """A descriptor of a folder by its whole path, on which no name is a link; enough to go on from, not to list it."""
    place = os.open("/", _PLACE)
    for name in path.split("/"):
        if name:
            try:
                inner = os.open(name, _PLACE, dir_fd=place)
            finally:
                os.close(place)
            place = inner
    return place


@contextmanager
def inner_folder(root: int, names: Iterable[str], *, create: bool = False, mode: int = 0o755) -> Iterator[int]:
    """The folder to which these names lead from `root`, which stays open."""
    folder = descend(os.dup(root), names, create=create, mode=mode)
    try:
        yield folder
    finally:
        os.close(folder)


def is_folder(path: str | os.PathLike[str]) -> bool:
    """Whether `path` is a folder itself, not a link to one."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def status(name: str, folder: int) -> os.stat_result:
    """Of what has this name in an open folder. A link is not followed."""
    return os.stat(name, dir_fd=folder, follow_symlinks=False)


def link_target(name: str, folder: int) -> str | None:
    """Where a link points; None for what is no link."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError:
        return None


# -- files ---------------------------------------------------------------------------------------


def open_file(name: str | os.PathLike[str], folder: int | None = None) -> int:
    """A descriptor of a plain file, for reading. Never waits for the other end of a pipe."""
    descriptor = os.open(name, _FILE, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotPlainFileError
    return descriptor


def read_file(name: str | os.PathLike[str], folder: int | None = None, *, limit: int) -> bytes:
    """The bytes of a plain file, `FileTooLargeError` for more than `limit`, also where it grows meanwhile."""
    descriptor = open_file(name, folder)
    try:
        return read_open_file(descriptor, limit)
    finally:
        os.close(descriptor)


def read_open_file(descriptor: int, limit: int) -> bytes:
    """As `read_file`, from where the descriptor stands."""
    size = os.fstat(descriptor).st_size
    if size > limit:
        raise FileTooLargeError(size, limit)
    parts = []
    left = limit + 1
    while left and (part := os.read(descriptor, min(left, _CHUNK))):
        parts.append(part)
        left -= len(part)
    if not left:
        raise FileTooLargeError(size, limit)
    return b"".join(parts)


def create_file(name: str, folder: int | None = None, *, mode: int = 0o600) -> int:
    """A descriptor of a new file, for writing. Fails where something has that name, a link to nowhere included."""
    return os.open(name, _FRESH, mode, dir_fd=folder)


def write_file(name: str, folder: int, pieces: Iterable[bytes], *, mode: int = 0o644) -> None:
    """Put a file there, whole or not at all. A link of that name is replaced, not followed."""
    temporary = f".put-{os.urandom(8).hex()}"
    descriptor = create_file(temporary, folder, mode=mode)
    try:
        try:
            for piece in pieces:
                write_all(descriptor, piece)
        finally:
            os.close(descriptor)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException as exc:
        try:
            os.unlink(temporary, dir_fd=folder)
        except OSError:
            exc.add_note("the temporary file could not be removed")
        raise


def write_all(descriptor: int, data: bytes) -> None:
    """All of it, also where the system takes less at a time."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def make_link(name: str, folder: int, target: str) -> None:
    """A link, in place of what has that name."""
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
    os.symlink(target, name, dir_fd=folder)


def remove_entry(name: str, folder: int) -> None:
    """Remove a file, a link or an empty folder. What cannot go is left."""
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return
    except OSError:
        with suppress(OSError):
            os.rmdir(name, dir_fd=folder)


# -- trees ---------------------------------------------------------------------------------------


class Walk:
    """Everything below an open folder: (relative path, status), each folder before what is in it.

    Every status comes from a descriptor of the folder that holds the entry, and every folder is reached from `root`
    by `descend`: whatever is renamed or linked meanwhile, nothing outside is looked at. One descriptor is open at a
    time beside the root's, however many folders there are.
    """

    def __init__(
        self, root: int, *, max_entries: int, max_depth: int, same_device: bool = False,
        on_error: Callable[[str, OSError], None] | None = None,
    ) -> None:  # fmt: skip
        """`same_device` leaves out other file systems that are mounted below. `on_error` is told of folders that
        cannot be read, which are left out otherwise: the guest may have removed them meanwhile."""
        self._root = root
        self._max_entries = max_entries
        self._max_depth = max_depth
        self._device = os.fstat(root).st_dev if same_device else None
        self._on_error = on_error
        self.complete = True
        """False once something was left out because there is too much."""

    def __iter__(self) -> Iterator[tuple[str, os.stat_result]]:
        seen = 0
        pending: list[tuple[str, int]] = [("", 0)]
        while pending:
            path, depth = pending.pop()
            try:
                with inner_folder(self._root, path.split("/") if path else ()) as folder:
                    for name, found in entries(folder, self._max_entries - seen + 1):
                        seen += 1
                        if seen > self._max_entries:
                            self.complete = False
                            return
                        if self._device is not None and found.st_dev != self._device:
                            continue
                        inner = f"{path}/{name}" if path else name
                        if stat.S_ISDIR(found.st_mode):
                            if depth < self._max_depth:
                                pending.append((inner, depth + 1))
                            else:
                                self.complete = False
                        yield inner, found
            except OSError as exc:
                if self._on_error is not None:
                    self._on_error(path, exc)


def entries(folder: int, most: int) -> Iterator[tuple[str, os.stat_result]]:
    """The first `most` names in an open folder, each with its status; those that vanish meanwhile are left out."""
    with os.scandir(folder) as listing:
        for entry in islice(listing, most):
            try:
                found = entry.stat(follow_symlinks=False)  # of the name in this descriptor
            except OSError:
                continue
            yield entry.name, found
