"""Folders of the host for sessions that have no file system of their own: where the confined ones work and live.

One folder for each process that has such sessions, named and held as all that it keeps outside of itself (see
`cloche.session.hosts`), with a folder in it for each session. A reaper removes it when the process is killed.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

from cloche.backends.jail.upkeep import upkeep
from cloche.errors import StartError
from cloche.host.late_removal import late_removals
from cloche.host.removal import remove_tree
from cloche.paths import PASSABLE, sessions_dir
from cloche.session.hosts import Host, hold
from cloche.session.workspace import Workspace


class Ground:
    """The folders of one session: its workspace, unless one was given, a home, a place for temporary files."""

    def __init__(self, path: Path, given: Workspace, user: tuple[int, int]) -> None:
        self._path = path
        self._owner = os.getpid()
        home = path / "home"
        (home / "tmp").mkdir(parents=True, mode=0o700)
        root = given.root
        if given.private:
            root = path / "work"
            root.mkdir(mode=0o700)
        self.workspace = Workspace(root, private=given.private, home=home)
        if os.getuid() == 0:
            self._lend(user)

    def _lend(self, user: tuple[int, int]) -> None:
        """We are root: let the guest's user reach these folders, and own those that are for it alone."""
        if not self.workspace.private:
            raise StartError(
                f"the workspace {self.workspace.root} cannot be given to the jail",
                cause="as root and without user namespaces the guest is a user who owns nothing",
                remedy="run as an ordinary user, or leave workspace out and use put_file and get_file",
            )
        for folder in (self._path.parents[1], self._path.parent, self._path):
            folder.chmod(PASSABLE)
        for folder in (self.workspace.root, self._path / "home", self._path / "home" / "tmp"):
            try:
                os.chown(folder, *user, follow_symlinks=False)
            except OSError as exc:
                raise StartError(
                    "the session's folders cannot be given to the guest's user",
                    cause=f"this root may not give files to others ({exc.strerror}): its user namespace knows no"
                    " other user, or it lacks CAP_CHOWN",
                    remedy="run as an ordinary user, or map more users into the namespace; or backend='native', which"
                    " is no boundary",
                ) from None

    @property
    def folders(self) -> list[str]:
        """What the guest may do as it likes with."""
        return [str(self.workspace.root), str(self._path / "home")]

    def remove(self) -> None:
        """With everything in it, but not a workspace that was given. A forked child leaves its parent's alone."""
        if self._owner == os.getpid():
            base = self._path.parent
            late_removals.remove(self._path, lambda: grounds.close_if_empty(base))


class Grounds:
    """All of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._base: Path | None = None
        self._handle = -1
        os.register_at_fork(after_in_child=self._leave)

    def make(self, given: Workspace, user: tuple[int, int]) -> Ground:
        """Folders for a session with this workspace, whose guest is this user."""
        with self._lock:
            path = self._open() / os.urandom(6).hex()
            path.mkdir(mode=0o700)
        try:
            return Ground(path, given, user)
        except BaseException:
            remove_tree(path)
            raise

    def _open(self) -> Path:
        place = sessions_dir()
        if self._base is None or self._base.parent != place or not self._base.is_dir():  # cleared away: anew
            self._close()
            base = place / str(Host.here())
            upkeep.tell(str(base))
            base.mkdir(mode=0o700)
            self._base, self._handle = base, os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            hold(self._handle)
        return self._base

    def close_if_empty(self, base: Path) -> None:
        """The last session has gone."""
        with self._lock, suppress(OSError):
            base.rmdir()
            if base == self._base:
                self._close()

    def close(self) -> None:
        """Remove everything. The next session begins anew."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._base is not None:
            late_removals.remove(self._base)
            os.close(self._handle)
            self._base, self._handle = None, -1

    def _leave(self) -> None:
        """In a forked child: it is all the parent's."""
        self._lock = threading.Lock()
        if self._handle >= 0:
            with suppress(OSError):
                os.close(self._handle)
        self._base, self._handle = None, -1


grounds = Grounds()


def running_tasks(uid: int) -> int:
    """Processes and threads of this user. The limit on them counts all of a user's, not those of one session."""
    tasks = 0
    with os.scandir("/proc") as entries:
        for entry in entries:
            if not entry.name.isdigit():
                continue
            try:
                if entry.stat().st_uid == uid:
                    with open(f"/proc/{entry.name}/stat", "rb") as handle:
                        tasks += int(handle.read().rpartition(b")")[2].split()[17])
            except (OSError, ValueError, IndexError):
                continue  # ended meanwhile
    return tasks
