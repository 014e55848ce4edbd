"""The register: sessions of a process that have no folder on this machine, so that ``cloche ps`` can list them.

One file for each host, with a line for each thing that happened: cheaper than a folder for each session, whose files
live elsewhere. It carries the name of its host and is locked by it (see `hosts`), so what a dead one left is known.
"""

from __future__ import annotations

import json
import os
import stat
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cloche.errors import MachineError
from cloche.paths import sessions_dir
from cloche.session.folder import FoundSession, given_folder
from cloche.session.hosts import Host, hold
from cloche.session.processes import process_start
from cloche.session.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_SIZE = 1 << 20
COMPACT_AT = 1 << 16
"""Bytes after which the lines of sessions that ended are thrown out."""


class Register:
    """The register of this process. Opened by its first session; what cannot be written is left unlisted."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._host: Host | None = None
        self._path = ""
        self._file = -1
        self._named: str | None = None
        self._live: dict[str, dict[str, Any]] = {}
        self.groups: tuple[str, ...] = ()
        """Folders of this process's cgroups: they may be where no other process would look."""
        os.register_at_fork(after_in_child=self._leave)

    @property
    def path(self) -> str:
        """Where it is, or will be."""
        with self._lock:
            return self._locate()

    def note(self, entry: dict[str, Any]) -> None:
        """Write down a session, or what is new about it."""
        with self._lock, suppress(OSError, MachineError):
            self._locate()
            self._live[entry["id"]] = entry
            self._write(entry)

    def strike(self, session: str) -> None:
        """A session has ended."""
        with self._lock, suppress(OSError):
            if self._live.pop(session, None) is not None and self._file >= 0:
                if self._live:
                    self._write({"id": session, "ended": True})
                else:
                    self._remove()

    def close(self) -> None:
        """Remove it, until something is to be written down again."""
        with self._lock:
            self._remove()

    def _locate(self) -> str:
        named = os.environ.get("CLOCHE_SESSIONS_DIR")
        if self._host is None or named != self._named:
            self._remove()
            self._live.clear()
            self._host, self._named = Host.here(), named
            self._path = os.path.join(sessions_dir(), str(self._host))
        return self._path

    def _write(self, line: dict[str, Any]) -> None:
        if self._file < 0:
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.open(self._path, flags, 0o600)
            hold(self._file)
        size = os.lseek(self._file, 0, os.SEEK_END)
        if 0 < size < COMPACT_AT:
            os.write(self._file, _line(line))
        else:
            os.ftruncate(self._file, 0)
            os.write(self._file, b"".join(map(_line, [{"groups": self.groups}, *self._live.values()])))

    def _remove(self) -> None:
        if self._file >= 0:
            with suppress(OSError):
                os.unlink(self._path)
        self._let_go()

    def _let_go(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    def _leave(self) -> None:
        """In a forked child: the sessions in it are the parent's."""
        self._lock = threading.Lock()
        self._live, self._host = {}, None
        self._let_go()


register = Register()


class _Elsewhere(Workspace):
    """Files that live with the guest: there is nothing here to make or to empty, and a name that leads nowhere."""

    def __init__(self) -> None:
        super().__init__(Path("/app"), private=True, location=os.devnull + "/.")

    def ensure(self) -> None:
        """Nothing to do."""

    def empty(self) -> None:
        """Nothing to do."""


class RegisteredSession:
    """What `SessionFolder` is to sessions that have one: an identity, and where the guest's files are."""

    def __init__(self, backend: str, given: str | os.PathLike[str] | None) -> None:
        self.id = os.urandom(6).hex()
        self.workspace = _Elsewhere() if given is None else Workspace(given_folder(given), private=False)
        self._owner = os.getpid()
        self._entry = {
            "id": self.id,
            "backend": backend,
            "workspace": None if given is None else str(self.workspace.root),
            "created": time.time(),
            "guest_pid": None,
        }

    def record(self, guest_pid: int | None) -> None:
        """List it, with the process that is its guest where that is known."""
        self._entry["guest_pid"] = guest_pid
        register.note(dict(self._entry))

    def remove(self) -> None:
        """Strike it off. A forked child leaves its parent's session alone."""
        if self._owner == os.getpid():
            register.strike(self.id)


def registered_sessions(path: Path) -> list[FoundSession]:
    """Sessions of the register at `path`. One that a dead host left is a leftover, even where none is in it."""
    host = Host.parse(path.name)
    if host is None:
        return []
    left = host.has_left(str(path))
    entries, _ = read_register(path)
    if left and not entries:
        entries = [{"id": host.token, "backend": "?"}]
    return [_found(entry, path, host, left) for entry in entries]


def _found(entry: dict[str, Any], path: Path, host: Host, left: bool) -> FoundSession:
    pid, created = entry.get("guest_pid"), entry.get("created")
    guest = pid if type(pid) is int and pid > 1 else None
    return FoundSession(
        id=entry["id"],
        path=path,
        backend=str(entry.get("backend")),
        host_pid=host.pid,
        guest_pid=guest,
        workspace=str(entry.get("workspace") or ""),
        created=created if isinstance(created, float) else 0.0,
        host_alive=not left,
        # what runs behind a wall of this kind ends with its host: a number that is still in use is another's
        guest_alive=not left and host.is_near and guest is not None and process_start(guest) is not None,
    )


def read_register(path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """(sessions that have not ended, folders of cgroups). Whatever is in the file, nothing here waits, follows or
    believes."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            data = os.read(handle, MAX_SIZE) if stat.S_ISREG(os.fstat(handle).st_mode) else b""
        finally:
            os.close(handle)
    except OSError:
        data = b""
    found: dict[str, dict[str, Any]] = {}
    groups: list[str] = []
    for line in data.splitlines():
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue  # being written this moment
        if not isinstance(entry, dict):
            continue
        if type(entry.get("groups")) is list:
            groups = [folder for folder in entry["groups"] if type(folder) is str]
        elif type(entry.get("id")) is str:
            found[entry["id"]] = entry
    return [entry for entry in found.values() if not entry.get("ended")], groups


def _line(entry: Mapping[str, Any]) -> bytes:
    return json.dumps(entry).encode() + b"\n"
