"""Whose is it? Names for what a process keeps outside of itself, so that the dead's can be told from the living's.

A process number alone proves nothing: numbers are used again, and in another container the same number is somebody
else. So a name also carries when the process began, the namespace in which the number counts, and a token (a process
that replaces itself by another program keeps its number). Beside the name there is a lock, which the kernel lets go
of when its holder ends, however it ends: whoever holds it lives, wherever it lives.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
import weakref
from contextlib import suppress
from dataclasses import dataclass

from cloche.session.processes import process_start

JUST_MADE = 10.0
"""Seconds in which something that is not locked may be about to be, by a process that we cannot look at."""
_NAME = re.compile(r"cloche-([0-9]{1,20})-([0-9]{1,20})-([0-9]{1,20})-([0-9a-f]{8})")


@dataclass(frozen=True, slots=True)
class Host:
    """A process that has sessions."""

    pid: int
    started: int
    space: int
    token: str

    @classmethod
    def here(cls) -> Host:
        """This process, under a new token."""
        pid = os.getpid()
        return cls(pid, process_start(pid) or 0, _space(), os.urandom(4).hex())

    @classmethod
    def parse(cls, name: str) -> Host | None:
        """Whose name this is; None when it is nobody's."""
        found = _NAME.fullmatch(name)
        return None if found is None else cls(int(found[1]), int(found[2]), int(found[3]), found[4])

    def __str__(self) -> str:
        return f"cloche-{self.pid}-{self.started}-{self.space}-{self.token}"

    @property
    def is_near(self) -> bool:
        """Whether its numbers of processes are those that we see: not from another container."""
        return self.space == _space()

    @property
    def alive(self) -> bool | None:
        """Whether the process that made the name lives; None when its number means nothing here.

        Our own number under another token is what this process was before it replaced itself.
        """
        if not self.is_near or not self.started:
            return None
        return self.pid != os.getpid() and process_start(self.pid) == self.started

    def has_left(self, path: str) -> bool:
        """Whether `path`, which carries this name, is a leftover: nobody holds it, and nobody is about to."""
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            alive = self.alive
            return time.time() - os.fstat(handle).st_mtime > JUST_MADE if alive is None else not alive
        except OSError:  # locked
            return False
        finally:
            os.close(handle)


class FolderLock:
    """Says "its owner lives" of a folder, from any container that sees it, until it is closed or this process ends."""

    def __init__(self, path: str) -> None:
        self._handle = -1
        with suppress(OSError):  # where nothing more can be opened, the name must do
            self._handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            hold(self._handle)
            _held.add(self)

    def close(self) -> None:
        """Let go of it. Idempotent."""
        handle, self._handle = self._handle, -1
        _held.discard(self)
        if handle >= 0:
            os.close(handle)

    def __del__(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)


_held: weakref.WeakSet[FolderLock] = weakref.WeakSet()


def _let_go_of_all() -> None:
    """In a forked child: a lock would outlive its owner."""
    for lock in list(_held):
        lock.close()


os.register_at_fork(after_in_child=_let_go_of_all)


def is_locked(path: str) -> bool:
    """Whether the owner of a file or folder lives, by its lock alone."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def hold(handle: int) -> None:
    """Let an open file or folder say "its owner lives" for as long as it is open."""
    for _ in range(5):  # somebody may be looking this very moment; where there are no locks, the name must do
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return
        time.sleep(0.001)


def _space() -> int:
    """The namespace in which process numbers count."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0
