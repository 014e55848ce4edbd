"""Who a guest is outside of its user namespace: as root, a user of its own for each session.

The kernel counts much by user and not by process or namespace: descriptors on their way through sockets, watches of
epoll, pages of pipes. Sessions with one user between them take from each other, and from the host where that user is
the host's. So a host that is root keeps a block of user numbers to itself, as long as it lives, and gives one to each
session. An ordinary user has only itself to give: see `cloche_guest.jail.shared_user` for what its guests go without.
"""

from __future__ import annotations

import fcntl
import os
import threading
from typing import TYPE_CHECKING, NamedTuple

from cloche.errors import StartError

if TYPE_CHECKING:
    from collections.abc import Iterator

LOCK_FOLDER = "/run/cloche/uids"
"""Of root's. One file for each block; a lock on it ends with the process that holds it, however that ends."""
_RANGES = (
    # Above what directory services (sssd, winbind: up to 2,000,200,000) and containers give away, and below the end of
    # what systemd leaves unused: see its UIDS-GIDS.md.
    (2_000_224_256, 2_147_352_575, 65_536),
    # In a container with 65,536 users: below systemd's own (from 60,001 on), above what people are given.
    (30_000, 59_999, 1_000),
)
"""(first, last, size of a block)."""
_LAST_RESORT = 65_533
"""A root that has no block to itself has all its guests be this user."""
_TRIES = 64


class _Block(NamedTuple):
    """Consecutive user numbers: the jail's own processes have the first, sessions have the others."""

    first: int
    size: int
    handle: int
    """Holds the lock; -1: nothing is locked."""


class OutsideUsers:
    """The user numbers of this process's guests."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._block: _Block | None = None
        self._taken: set[int] = set()
        self._next = 0
        os.register_at_fork(after_in_child=self._leave)

    @property
    def jail(self) -> tuple[int, int]:
        """User and group of a jail's own processes: init, zygotes, PID 1s. The group is every session's too."""
        if os.getuid() != 0:
            return os.getuid(), os.getgid()
        first = self._own().first
        return first, first

    @property
    def count(self) -> int:
        """How many numbers there are, from that one on. 1: all guests are that user."""
        return 1 if os.getuid() != 0 else self._own().size

    def take(self) -> int:
        """The number of a session's user, counted from the jail's; 0, the jail's own, where there is no other."""
        count = self.count
        if count == 1:
            return 0
        with self._lock:
            for _ in range(count - 1):
                self._next = self._next % (count - 1) + 1  # round and round: what has just ended may linger on
                if self._next not in self._taken:
                    self._taken.add(self._next)
                    return self._next
        raise StartError(
            f"all {count - 1} user numbers of this process are in use",
            cause="each session has one of its own",
            remedy="end some sessions, or start another process",
        )

    def give_back(self, offset: int) -> None:
        """The session of this number has ended."""
        with self._lock:
            self._taken.discard(offset)

    def _own(self) -> _Block:
        with self._lock:
            if self._block is None:
                self._block = _claim_block() or _Block(_LAST_RESORT, 1, -1)
            return self._block

    def _leave(self) -> None:
        """In a forked child: the block is the parent's, and ours would hold the lock when the parent is gone."""
        if self._block is not None and self._block.handle >= 0:
            os.close(self._block.handle)
        self._block, self._taken, self._lock = None, set(), threading.Lock()


def _claim_block() -> _Block | None:
    """A block that no account, no container and no other host has; None where there is none."""
    try:
        folder = _open_lock_folder()
    except OSError:  # a container whose /run is read-only
        return None
    try:
        used = [*_accounts(), *_subordinates()]
        for first, size in _candidates():
            if any(low < first + size and first <= high for low, high in used) or _is_known(first):
                continue
            handle = _lock_block(folder, first)
            if handle is not None:
                return _Block(first, size, handle)
    finally:
        os.close(folder)
    return None


def _candidates() -> Iterator[tuple[int, int]]:
    """(first, size) of blocks that exist in our user namespace, from a random place on: a host in another container
    may have another folder of locks."""
    for first, last, size in _RANGES:
        blocks = (last + 1 - first) // size
        start = int.from_bytes(os.urandom(4), "little")
        mapped = [first + (start + index) % blocks * size for index in range(min(blocks, _TRIES))]
        yield from ((block, size) for block in mapped if _is_mapped(block, size))


def _is_mapped(first: int, size: int) -> bool:
    for name in ("uid_map", "gid_map"):
        with open(f"/proc/self/{name}") as lines:
            extents = [[int(number) for number in line.split()] for line in lines]
        if not any(inside <= first and first + size <= inside + count for inside, _, count in extents):
            return False
    return True


def _accounts() -> Iterator[tuple[int, int]]:
    """User numbers that have a name here, as ranges."""
    for line in _lines("/etc/passwd"):
        fields = line.split(":")
        if len(fields) > 2 and fields[2].isdigit():
            yield int(fields[2]), int(fields[2])


def _subordinates() -> Iterator[tuple[int, int]]:
    """Ranges that are given to users for containers of theirs."""
    for path in ("/etc/subuid", "/etc/subgid"):
        for line in _lines(path):
            fields = line.strip().split(":")
            if len(fields) == 3 and fields[1].isdigit() and fields[2].isdigit():
                yield int(fields[1]), int(fields[1]) + int(fields[2]) - 1


def _lines(path: str) -> list[str]:
    try:
        with open(path, errors="replace") as lines:
            return list(lines)
    except OSError:
        return []


def _is_known(uid: int) -> bool:
    """Whether a directory service has it."""
    import pwd

    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def _open_lock_folder() -> int:
    """Of ours alone: a lock that others could take would be no proof."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    os.makedirs(LOCK_FOLDER, mode=0o700, exist_ok=True)
    for path in (os.path.dirname(LOCK_FOLDER), LOCK_FOLDER):
        status = os.lstat(path)
        if status.st_uid != 0 or status.st_mode & 0o022:
            raise PermissionError(f"{path} is not root's alone")
    return os.open(LOCK_FOLDER, flags)


def _lock_block(folder: int, first: int) -> int | None:
    """A descriptor that holds the lock; None: another host has it."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(str(first), flags, 0o600, dir_fd=folder)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


outside_users = OutsideUsers()
