"""A session's folder on the host: what changed in it, and safe reading and writing of guest-controlled paths.

The guest owns every name in here. So nothing follows a link, nothing blocks on a FIFO or a device, nothing reads
more than its limit, and paths are walked as `guest_paths` says.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from cloche.errors import WorkspaceFileError
from cloche.session.guest_paths import FOLDER, MAX_DEPTH, components, descend, refusal
from cloche.session.removal import remove_tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_ENTRIES = 20_000
_CHUNK = 1 << 20
_CLOCK_GRAIN = 50_000_000  # ns; coarser than any file system's clock here

Fingerprint = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Delta:
    """What a cell did to the files, by relative path."""

    created: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    complete: bool = True
    total_bytes: int = 0


NOTHING = Delta()


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One file of a workspace."""

    path: str
    size: int


class Workspace:
    """A folder that is the guest's working directory."""

    def __init__(self, root: Path, *, private: bool, home: Path | None = None, location: str | None = None) -> None:
        """`location`: where the host reaches the folder, when that is not the path it goes by."""
        self.root = root
        self.private = private
        self._home = home
        self._known: dict[str, Fingerprint] = {}
        self._complete = True
        self._root_text = location or str(root)
        self._empty_since = 0  # modification time of the folder when it was seen empty
        self.incomplete = False
        """Something that the cell did is not here: for a wall whose guest has files of its own."""

    def places(self) -> dict[str, str]:
        """Environment variables that keep configuration and temporary files out of the workspace."""
        if self._home is None:
            return {}
        return {"HOME": str(self._home), "TMPDIR": str(self._home / "tmp"), "PWD": str(self.root)}

    @contextmanager
    def acting(self) -> Iterator[None]:
        """As whom files are touched; ourselves, unless a wall has something better."""
        yield

    # -- what changed --------------------------------------------------------------------------

    def look(self) -> None:
        """Take what is there as known: the next cell is not told of it."""
        self._known, self._complete, _ = self._scan()

    def before_cell(self) -> None:
        """Note the state. A private folder has no other writer, so what the last look found still holds."""
        if not self.private:
            self.look()

    def after_cell(self) -> Delta:
        """Compare with the state before."""
        partial, self.incomplete = self.incomplete, False
        if self._still_empty() and not partial:
            return NOTHING
        found, complete, total = self._scan()
        complete = complete and not partial
        known, self._known = self._known, found
        complete, self._complete = complete and self._complete, complete
        if known == found:
            return Delta(complete=complete, total_bytes=total)
        return Delta(
            created=tuple(sorted(found.keys() - known.keys())),
            modified=tuple(sorted(path for path in found.keys() & known.keys() if found[path] != known[path])),
            deleted=tuple(sorted(known.keys() - found.keys())) if complete else (),
            complete=complete,
            total_bytes=total,
        )

    def _still_empty(self) -> bool:
        """Most cells touch no file: an empty folder whose own time has not moved is still empty.

        A time that is only just past proves nothing, since a second change may carry the same one.
        """
        if self._known or not self._empty_since:
            return False
        try:
            return os.stat(self._root_text).st_mtime_ns == self._empty_since
        except OSError:
            return False

    def _scan(self) -> tuple[dict[str, Fingerprint], bool, int]:
        """Fingerprints of all files, whether all were seen, and their size on disk."""
        self._empty_since = 0
        changed = 0
        if self.private:
            try:
                status = os.lstat(self._root_text)
            except OSError:  # removed by the guest
                return {}, True, 0
            if not stat.S_ISDIR(status.st_mode):  # a link to somewhere else, in its place
                return {}, True, 0
            changed = status.st_mtime_ns
        found, complete, total, folders = self._walk()
        if self.private and not found and not folders and time.time_ns() - changed > _CLOCK_GRAIN:
            self._empty_since = changed
        return found, complete, total

    def _walk(self) -> tuple[dict[str, Fingerprint], bool, int, list[str]]:
        found: dict[str, Fingerprint] = {}
        folders: list[str] = []
        total, entries = 0, 0
        pending = [("", 0)]
        while pending:
            folder, depth = pending.pop()
            with suppress(OSError), self._entries(folder) as listing:  # removed, replaced or forbidden meanwhile
                for entry in listing:
                    entries += 1
                    if entries > MAX_ENTRIES:
                        return found, False, total, folders
                    path = f"{folder}/{entry.name}" if folder else entry.name
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue
                    if stat.S_ISDIR(status.st_mode):
                        folders.append(path)
                        if depth < MAX_DEPTH:
                            pending.append((path, depth + 1))
                        continue
                    total += status.st_blocks * 512
                    found[path] = _fingerprint(status)
        return found, True, total, folders

    @contextmanager
    def _entries(self, folder: str) -> Iterator[Iterator[os.DirEntry[str]]]:
        """What is in a folder. The guest may have put a link there since we saw it: then this fails."""
        if not folder:
            with os.scandir(self._root_text) as listing:
                yield listing
            return
        descriptor = descend(os.open(self._root_text, FOLDER), folder.split("/"))
        try:
            with os.scandir(descriptor) as listing:
                yield listing
        finally:
            os.close(descriptor)

    # -- single files --------------------------------------------------------------------------

    def read(self, path: str, limit: int) -> bytes:
        """The bytes of a plain file, at most `limit`."""
        with self._parent(path) as (folder, name):
            descriptor = self._open(folder, name, path)
        try:
            size = os.fstat(descriptor).st_size
            if size > limit:
                raise WorkspaceFileError(f"{path} has {size} bytes; the limit is {limit}")
            parts = []
            left = limit + 1
            while left and (part := os.read(descriptor, min(left, _CHUNK))):
                parts.append(part)
                left -= len(part)
        finally:
            os.close(descriptor)
        if not left:
            raise WorkspaceFileError(f"{path} grew over the limit of {limit} bytes while it was read")
        return b"".join(parts)

    def status(self, path: str) -> os.stat_result:
        """Of a file, a folder or a link, which is not followed."""
        with self._parent(path) as (folder, name):
            try:
                return os.stat(name, dir_fd=folder, follow_symlinks=False)
            except OSError as exc:
                raise refusal(path, exc) from None

    @staticmethod
    def _open(folder: int, name: str, path: str) -> int:
        try:
            # O_NONBLOCK: opening a FIFO returns at once, and is then refused
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        except OSError as exc:
            raise refusal(path, exc) from None
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise WorkspaceFileError(f"{path} is not a plain file")
        return descriptor

    def write(self, path: str, data: bytes) -> None:
        """Put a file there, whole or not at all, replacing what has that name (a link is replaced, not followed)."""
        # our own doing is not the next cell's
        self._known[str(Path(path))] = self.store(path, (data,))

    def store(self, path: str, pieces: Iterable[bytes]) -> Fingerprint:
        """As `write`, on behalf of the cell: for a wall whose guest has files of its own, of which this is a copy."""
        with self._parent(path, create=True) as (folder, name):
            temporary = f".put-{os.urandom(8).hex()}"
            try:
                descriptor = os.open(
                    temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=folder
                )
                try:
                    for piece in pieces:
                        view = memoryview(piece)
                        while view:
                            view = view[os.write(descriptor, view) :]
                finally:
                    os.close(descriptor)
                os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError as exc:
                try:
                    os.unlink(temporary, dir_fd=folder)
                except OSError:
                    exc.add_note("the temporary file could not be removed")
                raise refusal(path, exc) from None
            return _fingerprint(os.stat(name, dir_fd=folder, follow_symlinks=False))

    def store_link(self, path: str, target: str) -> Fingerprint:
        """A link, as the guest has one; it is never followed here."""
        with self._parent(path, create=True) as (folder, name):
            try:
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=folder)
                os.symlink(target, name, dir_fd=folder)
            except OSError as exc:
                raise refusal(path, exc) from None
            return _fingerprint(os.stat(name, dir_fd=folder, follow_symlinks=False))

    def store_folder(self, path: str) -> None:
        """A folder, as the guest has one."""
        with self._parent(f"{path}/_", create=True):
            pass  # which makes all but the last

    def discard(self, path: str) -> None:
        """The guest has removed a file, a link, or a folder; a folder in which there is something stays."""
        with self._parent(path) as (folder, name):
            try:
                os.unlink(name, dir_fd=folder)
            except FileNotFoundError:
                return
            except OSError:
                with suppress(OSError):
                    os.rmdir(name, dir_fd=folder)

    def contents(self) -> tuple[dict[str, Fingerprint], tuple[str, ...]]:
        """(files and links, each with a mark that changes with it; folders, each before those in it)."""
        if self._still_empty():
            return {}, ()
        found, _, _, folders = self._walk()
        return found, tuple(folders)

    def link_target(self, path: str) -> str | None:
        """Where a link points; None for what is no link."""
        with self._parent(path) as (folder, name):
            try:
                return os.readlink(name, dir_fd=folder)
            except OSError:
                return None

    def list(self) -> list[FileInfo]:
        """All files, sorted; links, pipes and folders are not files."""
        files = []
        for path in sorted(self._scan()[0]):
            try:
                status = os.lstat(f"{self._root_text}/{path}")
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode):
                files.append(FileInfo(path, status.st_size))
        return files

    def entries(self, folder: str) -> tuple[tuple[str, os.stat_result], ...]:
        """Names in a folder ("" for the workspace itself), each with what is known of it. OSError for no folder."""
        found = []
        with self._entries(folder) as listing:
            for entry in islice(listing, MAX_ENTRIES):
                with suppress(OSError):  # gone meanwhile
                    found.append((entry.name, entry.stat(follow_symlinks=False)))
        return tuple(found)

    def empty(self) -> None:
        """Remove all contents of a private folder; a folder that was given is the user's and is left alone."""
        if self.private:
            remove_tree(self.root)
            self.ensure()
            self._known = {}

    def ensure(self) -> None:
        """A guest may have removed the private folder, or put something else in its place."""
        for folder in (self.root, self._home, self._home and self._home / "tmp") if self.private else ():
            if folder is not None and (folder.is_symlink() or not folder.is_dir()):
                remove_tree(folder)
                folder.mkdir(parents=True)

    @contextmanager
    def _parent(self, path: str, *, create: bool = False) -> Iterator[tuple[int, str]]:
        """(descriptor of the folder that holds `path`, last component)."""
        *parts, name = components(path)
        try:
            folder = os.open(self._root_text, FOLDER)
        except OSError as exc:
            raise WorkspaceFileError(
                "the workspace is no longer a folder", cause=os.strerror(exc.errno or 0), remedy="reset() makes it anew"
            ) from None
        with self.acting():
            try:
                folder = descend(folder, parts, create=create)
            except OSError as exc:
                raise refusal(path, exc) from None
            try:
                yield folder, name
            finally:
                os.close(folder)


def _fingerprint(status: os.stat_result) -> Fingerprint:
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


def file_content(path: str, data: bytes | str) -> bytes:
    """What is to be written, as bytes. A number is none: `bytes(3)` would be three zeros."""
    try:
        return data.encode() if isinstance(data, str) else bytes(memoryview(data))
    except TypeError:
        raise WorkspaceFileError(
            f"{path}: a file is text or bytes, not {type(data).__name__}", remedy="json.dumps(), or set_variable()"
        ) from None
    except UnicodeEncodeError as exc:
        raise WorkspaceFileError(
            f"{path}: the text cannot be written as UTF-8", cause=exc.reason, remedy="encode it, and pass bytes"
        ) from None
