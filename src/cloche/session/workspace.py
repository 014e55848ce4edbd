"""A session's folder on the host: what changed in it, and safe reading and writing of guest-controlled paths.

The guest owns every name in here. So everything is opened by `cloche.host.guest_files`: nothing follows a link, nothing
blocks on a FIFO or a device, nothing reads more than its limit.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from cloche.errors import WorkspaceFileError
from cloche.host import guest_files
from cloche.host.guest_paths import MAX_DEPTH, components, refusal
from cloche.host.late_removal import late_removals
from cloche.host.removal import remove_tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_ENTRIES = 20_000
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
        self.protected: tuple[str, ...] = ()
        """Places of a client that no guest may write, beside those of this process (`protected_places`)."""
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
            return os.lstat(self._root_text).st_mtime_ns == self._empty_since
        except OSError:
            return False

    def _scan(self) -> tuple[dict[str, Fingerprint], bool, int]:
        """Fingerprints of all files, whether all were seen, and their size on disk."""
        self._empty_since = 0
        tree = self._walk()
        if self.private and not tree.files and not tree.folders and time.time_ns() - tree.changed > _CLOCK_GRAIN:
            self._empty_since = tree.changed
        files = {path: _fingerprint(status) for path, status in tree.files.items()}
        return files, tree.complete, sum(status.st_blocks for status in tree.files.values()) * 512

    def _walk(self) -> _Tree:
        """All that is there; nothing where the guest has removed the folder, or put a link in its place."""
        tree = _Tree()
        try:
            root = guest_files.open_folder(self._root_text)
        except OSError:
            return tree
        try:
            tree.changed = os.fstat(root).st_mtime_ns
            walk = guest_files.Walk(root, max_entries=MAX_ENTRIES, max_depth=MAX_DEPTH)
            for path, status in walk:
                if stat.S_ISDIR(status.st_mode):
                    tree.folders.append(path)
                else:
                    tree.files[path] = status
            tree.complete = walk.complete
        finally:
            os.close(root)
        return tree

    # -- single files --------------------------------------------------------------------------

    def read(self, path: str, limit: int) -> bytes:
        """The bytes of a plain file, at most `limit`."""
        with self._parent(path) as (folder, name):
            return guest_files.read_file(name, folder, limit=limit)

    def status(self, path: str) -> os.stat_result:
        """Of a file, a folder or a link, which is not followed."""
        with self._parent(path) as (folder, name):
            return guest_files.status(name, folder)

    def write(self, path: str, data: bytes) -> None:
        """Put a file there, whole or not at all, replacing what has that name (a link is replaced, not followed)."""
        # our own doing is not the next cell's
        self._known[str(Path(path))] = self.store(path, (data,))

    def store(self, path: str, pieces: Iterable[bytes]) -> Fingerprint:
        """As `write`, on behalf of the cell: for a wall whose guest has files of its own, of which this is a copy."""
        with self._parent(path, create=True) as (folder, name):
            guest_files.write_file(name, folder, pieces)
            return _fingerprint(guest_files.status(name, folder))

    def store_link(self, path: str, target: str) -> Fingerprint:
        """A link, as the guest has one; it is never followed here."""
        with self._parent(path, create=True) as (folder, name):
            guest_files.make_link(name, folder, target)
            return _fingerprint(guest_files.status(name, folder))

    def store_folder(self, path: str) -> None:
        """A folder, as the guest has one."""
        with self._parent(f"{path}/_", create=True):
            pass  # which makes all but the last

    def discard(self, path: str) -> None:
        """The guest has removed a file, a link, or a folder; a folder in which there is something stays."""
        with self._parent(path) as (folder, name):
            guest_files.remove_entry(name, folder)

    def contents(self) -> tuple[dict[str, Fingerprint], tuple[str, ...]]:
        """(files and links, each with a mark that changes with it; folders, each before those in it)."""
        if self._still_empty():
            return {}, ()
        tree = self._walk()
        return {path: _fingerprint(status) for path, status in tree.files.items()}, tuple(tree.folders)

    def link_target(self, path: str) -> str | None:
        """Where a link points; None for what is no link."""
        with self._parent(path) as (folder, name):
            return guest_files.link_target(name, folder)

    def list(self) -> list[FileInfo]:
        """All files, sorted; links, pipes and folders are not files."""
        files = self._walk().files
        return [FileInfo(path, files[path].st_size) for path in sorted(files) if stat.S_ISREG(files[path].st_mode)]

    def entries(self, folder: str) -> tuple[tuple[str, os.stat_result], ...]:
        """Names in a folder ("" for the workspace itself), each with what is known of it. OSError for no folder."""
        names = folder.split("/") if folder else ()
        descriptor = guest_files.descend(guest_files.open_folder(self._root_text), names)
        try:
            return tuple(guest_files.entries(descriptor, MAX_ENTRIES))
        finally:
            os.close(descriptor)

    def empty(self) -> None:
        """Remove all contents of a private folder; a folder that was given is the user's and is left alone."""
        if self.private:
            # Aside first: a guest can leave more than a call may wait for.
            aside = self.root.with_name(f".{self.root.name}-{os.urandom(6).hex()}")
            try:
                self.root.rename(aside)
            except OSError:  # the guest has removed it; or it cannot be moved, and what can go does
                late_removals.remove(self.root)
            else:
                late_removals.remove(aside)
            self.ensure()
            self._known = {}

    def ensure(self) -> None:
        """A guest may have removed the private folder, or put something else in its place."""
        for folder in (self.root, self._home, self._home and self._home / "tmp") if self.private else ():
            if folder is not None and not guest_files.is_folder(folder):
                remove_tree(folder)
                folder.mkdir(parents=True)

    @contextmanager
    def _parent(self, path: str, *, create: bool = False) -> Iterator[tuple[int, str]]:
        """(descriptor of the folder that holds `path`, last component)."""
        *parts, name = components(path)
        try:
            root = guest_files.open_folder(self._root_text)
        except OSError as exc:
            raise WorkspaceFileError(
                "the workspace is no longer a folder", cause=os.strerror(exc.errno or 0), remedy="reset() makes it anew"
            ) from None
        try:
            with self.acting(), guest_files.inner_folder(root, parts, create=create) as folder:
                yield folder, name
        except OSError as exc:
            raise refusal(path, exc) from None
        finally:
            os.close(root)


@dataclass(slots=True)
class _Tree:
    """What one walk found, by relative path."""

    files: dict[str, os.stat_result] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)
    complete: bool = True
    changed: int = 0
    """Modification time of the folder itself, from before the walk."""


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
