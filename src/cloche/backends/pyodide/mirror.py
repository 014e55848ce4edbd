"""The host's copy of a workspace whose files live in the guest's memory: in before a cell, out after it.

The copy is an ordinary folder, so files can be put and read without the guest, and outlive it. What the guest says of
its files is hostile: paths are walked one component at a time, links are stored and never followed, sizes are bounded.
"""

from __future__ import annotations

import binascii
import tempfile
from typing import IO, TYPE_CHECKING, Any

from cloche.errors import ProtocolError, WorkspaceFileError
from cloche.host.guest_paths import components
from cloche.session import replies

if TYPE_CHECKING:
    from cloche.session.workspace import Fingerprint, Workspace

    Errand = tuple[str, dict[str, Any], bytes | None]

MOST_ENTRIES = 20_000
"""Files, links and folders of the copy, those on the way to another included."""
LONGEST_PATH = 4096
NAMES = 4 << 20
"""Characters of all their paths together, and of what links point to."""
CHUNK = 1 << 18
ROOM = 1 << 20
IN_MEMORY = 1 << 22
_FOLDER: Fingerprint = (0, 0, 0, 0)


class Mirror:
    """Knows what the guest has, and what of it the host has."""

    def __init__(self, workspace: Workspace, quota: int, most_entries: int = MOST_ENTRIES) -> None:
        self._workspace = workspace
        self._quota = quota
        self._most_entries = most_entries
        self._theirs: dict[str, Fingerprint] = {}
        """What the guest has, by path, with the mark of our copy."""
        self._sizes: dict[str, int] = {}  # of files that came from the guest
        self._size = 0  # of all of them
        self._names = 0  # characters of all paths, and of what links point to
        self._incoming: tuple[str, IO[bytes]] | None = None
        self._refused: str | None = None  # a file too large for us, of which more is to come

    # -- in ------------------------------------------------------------------------------------

    def errands(self) -> list[Errand]:
        """Requests that make the guest's files those of our copy."""
        files, folders = self._workspace.contents()
        wanted: dict[str, Fingerprint] = {**dict.fromkeys(folders, _FOLDER), **files}
        if wanted == self._theirs:
            return []
        size = sum(mark[2] for mark in files.values())
        if size > self._quota:
            raise WorkspaceFileError(
                f"the workspace holds {size} bytes; this wall copies all of it to the guest, up to {self._quota}",
                remedy="raise policy.workspace_bytes, or give a folder with less in it",
            )
        gone: list[Errand] = [
            ("remove_file", {"path": path}, None) for path in reversed(self._theirs) if path not in wanted
        ]
        fresh = [self._put(path) for path, mark in wanted.items() if self._theirs.get(path) != mark]
        self._theirs = wanted
        self._names = sum(map(len, wanted))
        for path in self._sizes.keys() - wanted.keys():
            self._forget_size(path)
        return gone + fresh

    def _put(self, path: str) -> Errand:
        target = self._workspace.link_target(path)
        if target is not None:
            return "put_file", {"path": path, "link": target}, None
        try:
            data = self._workspace.read(path, self._quota)
        except WorkspaceFileError:  # a folder, a pipe, or gone meanwhile
            return "put_file", {"path": path, "folder": True}, None
        return "put_file", {"path": path}, data

    # -- out -----------------------------------------------------------------------------------

    def take(self, params: Any) -> None:
        """What the guest says of one of its files. What our copy cannot hold is left out, and said to be."""
        path = replies.field(params, "path", str, "")
        if not path or len(path) > LONGEST_PATH:
            raise ProtocolError("the guest spoke of a file without a name")
        try:
            path = "/".join(components(path))  # one name for each file
            if replies.field(params, "gone", bool, False):
                self._take_absence(path)
            elif replies.field(params, "folder", bool, False):
                self._admit(path, 0)
                self._workspace.store_folder(path)
                self._keep(path, _FOLDER)
                self._forget_size(path)
            elif "link" in params:
                self._take_link(path, replies.text(params, "link"))
            else:
                self._take_piece(path, replies.text(params, "data"), more=replies.field(params, "more", bool, False))
        except (WorkspaceFileError, OSError, ValueError):
            self._workspace.incomplete = True

    def _take_absence(self, path: str) -> None:
        if path not in self._theirs:
            return  # our copy does not have it
        self._workspace.discard(path)
        try:
            self._workspace.status(path)  # a folder in which there is something stays, and counts
        except WorkspaceFileError:
            del self._theirs[path]
            self._names -= len(path)
            self._forget_size(path)

    def _take_link(self, path: str, target: str) -> None:
        if len(target) > LONGEST_PATH:
            raise ValueError(target)
        self._admit(path, 0, len(target))
        mark = self._workspace.store_link(path, target)
        self._forget_size(path)
        self._keep(path, mark)
        self._names += len(target)  # never given back: who makes one again and again has made enough

    def _take_piece(self, path: str, text: str, *, more: bool) -> None:
        try:
            piece = binascii.a2b_base64(text, strict_mode=True)
        except binascii.Error:
            raise ProtocolError("the guest sent a file that is not base64") from None
        if self._refused == path:
            self._refused = path if more else None
            return
        if self._incoming is None or self._incoming[0] != path:
            self.close()
            self._incoming = path, tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 - open until the last piece
        spool = self._incoming[1]
        size = spool.tell() + len(piece)
        try:
            self._admit(path, size)
        except ValueError:
            self.close()
            self._refused = path if more else None
            raise
        spool.write(piece)
        if more:
            return
        spool.seek(0)
        try:
            mark = self._workspace.store(path, iter(lambda: spool.read(CHUNK), b""))
            self._forget_size(path)
            self._sizes[path] = size
            self._size += size
            self._keep(path, mark)
        finally:
            self.close()

    # -- how much there is ---------------------------------------------------------------------

    def _admit(self, path: str, size: int, characters: int = 0) -> None:
        """Raise ValueError for what is too much: entries with the folders on the way to them, bytes, names.

        A little more than the quota is taken, so that the host can see that it was passed.
        """
        fresh = [folder for folder in (*_folders_of(path), path) if folder not in self._theirs]
        if (
            self._size - self._sizes.get(path, 0) + size > 2 * self._quota + ROOM
            or len(self._theirs) + len(fresh) > self._most_entries
            or self._names + sum(map(len, fresh)) + characters > NAMES
        ):
            raise ValueError(path)
        for folder in fresh[:-1] if path not in self._theirs else fresh:  # they are made even where the rest fails
            self._keep(folder, _FOLDER)

    def _keep(self, path: str, mark: Fingerprint) -> None:
        """Our copy has it now."""
        if path not in self._theirs:
            self._names += len(path)
        self._theirs[path] = mark

    def _forget_size(self, path: str) -> None:
        self._size -= self._sizes.pop(path, 0)

    def close(self) -> None:
        """Forget half a file."""
        if self._incoming is not None:
            self._incoming[1].close()
            self._incoming = None


def _folders_of(path: str) -> list[str]:
    """The folders on the way to a path, outermost first."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
