"""A session's place on disk, and the record by which ``cloche ps`` and ``cloche clean`` find it after a crash."""

from __future__ import annotations

import functools
import json
import os
import re
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cloche.errors import WorkspaceFileError
from cloche.host.late_removal import late_removals
from cloche.host.removal import remove_tree
from cloche.paths import sessions_dir
from cloche.session.hosts import JUST_MADE, FolderLock, Host, is_locked
from cloche.session.processes import process_start
from cloche.session.workspace import Workspace

RECORD = "session.json"
_MAX_RECORD = 65536
_ID = re.compile(r"[0-9a-f]{12}")


class SessionFolder:
    """``<sessions>/<id>``: a private workspace (unless one was given), a home, a place for temporary files."""

    def __init__(self, backend: str, given: str | os.PathLike[str] | None) -> None:
        root = None if given is None else given_folder(given)
        self.id = os.urandom(6).hex()
        self.path = sessions_dir() / self.id
        self._place = str(self.path)  # paths as plain text: this is a good part of what a quick session takes
        os.mkdir(self._place, 0o700)
        os.mkdir(f"{self._place}/home")
        os.mkdir(f"{self._place}/home/tmp")
        if root is None:
            root = self.path / "work"
            os.mkdir(f"{self._place}/work")
        self.workspace = Workspace(root, private=given is None, home=self.path / "home")
        self._backend = backend
        self._owner = os.getpid()
        self._lock = FolderLock(self._place)
        self.record(None)  # a session that has no guest yet is nobody's leftover

    def record(self, guest_pid: int | None) -> None:
        """Note who owns this session and which process is its guest."""
        data = {
            "id": self.id,
            "backend": self._backend,
            "host": str(this_host(os.getpid())),
            "guest_pid": guest_pid,
            "guest_started": process_start(guest_pid) if guest_pid else None,
            "workspace": str(self.workspace.root),
            "created": time.time(),
        }
        # A new file, then switched: the guest can reach this folder, and could have put a pipe in the record's place.
        fresh = f"{self._place}/.{RECORD}.{os.urandom(4).hex()}"
        with suppress(OSError):  # a session that cannot be listed still works
            file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                os.write(file, json.dumps(data).encode())
            finally:
                os.close(file)
            os.replace(fresh, f"{self._place}/{RECORD}")

    def remove(self) -> None:
        """Remove everything but a workspace that was given. A forked child leaves its parent's session alone."""
        if self._owner == os.getpid():
            late_removals.remove(self.path)
            self._lock.close()


def given_folder(path: str | os.PathLike[str]) -> Path:
    """A folder of the user's that is to be a workspace."""
    root = Path(path).absolute()
    if not root.is_dir():
        raise WorkspaceFileError(
            f"the workspace {root} is not a folder",
            remedy=f"{'name another' if root.exists() else f'mkdir -p {root}'}, or leave workspace out",
        )
    return root


@dataclass(frozen=True, slots=True)
class FoundSession:
    """A session on this machine, and where its record is."""

    id: str
    path: Path
    backend: str
    host_pid: int
    guest_pid: int | None
    workspace: str
    created: float
    host_alive: bool
    guest_alive: bool

    @property
    def stale(self) -> bool:
        """Its host is gone."""
        return not self.host_alive

    def clean(self) -> None:
        """End a guest that outlived its host and remove the record, with the folder where there is one."""
        if self.guest_alive and self.guest_pid:
            import signal

            for end in (os.killpg, os.kill):
                with suppress(OSError):
                    end(self.guest_pid, signal.SIGKILL)
        remove_tree(self.path)


def find_sessions() -> list[FoundSession]:
    """All sessions of this user, oldest first. A folder without a readable record belongs to no host."""
    found = []
    for path in sessions_dir().iterdir():
        if not _ID.fullmatch(path.name):
            # else not ours: the folder may have been named by mistake, and what is found here may be removed
            if path.name.startswith("cloche-"):
                from cloche.session.register import registered_sessions  # it builds on this module

                found += registered_sessions(path)
            continue
        data = _read_record(path / RECORD)
        if not data and time.time() - _mtime(path) < JUST_MADE:
            continue  # being made this very moment
        host, guest = Host.parse(str(data.get("host"))), _number(data.get("guest_pid"))
        created = data.get("created")
        found.append(
            FoundSession(
                id=path.name,
                path=path,
                backend=str(data.get("backend", "?")),
                host_pid=0 if host is None else host.pid,
                guest_pid=guest or None,
                workspace=str(data.get("workspace", "")),
                created=created if isinstance(created, float) else _mtime(path),
                host_alive=_has_host(path, host),
                guest_alive=host is not None and host.is_near and _is_same(guest, data.get("guest_started")),
            )
        )
    return sorted(found, key=lambda session: session.created)


@functools.cache
def this_host(pid: int) -> Host:  # noqa: ARG001 - the key of the cache
    """This process; a forked child has another number."""
    return Host.here()


def _read_record(path: Path) -> dict[str, object]:
    """What a record says. A guest may have put anything in its place: nothing here waits, follows or believes."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            data = json.loads(os.read(handle, _MAX_RECORD))
        finally:
            os.close(handle)
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _number(value: object) -> int:
    """A process number. Zero and below mean whole groups of processes to `kill`, and 1 is not ours."""
    return value if type(value) is int and value > 1 else 0


def _is_same(pid: int, started: object) -> bool:
    return bool(pid) and type(started) is int and process_start(pid) == started


def _has_host(path: Path, host: Host | None) -> bool:
    """Whether the process that has the session lives, in this container or in another."""
    if host is None:
        return is_locked(str(path))
    return host == this_host(os.getpid()) or not host.has_left(str(path))


def _mtime(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
