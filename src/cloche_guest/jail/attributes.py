"""What a confined guest asks of its keeper: rights and times of files in its own folders, and leave to start processes.

Landlock does not look at `chmod` and `utimensat`, and a guest that shares its user with the host could change every
file of that user by them. So the guest's calls are handed to its keeper (a seccomp notification), which opens what is
meant, looks where that really lies, and makes the change itself by descriptor: nothing can be swapped in between.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import time

from cloche_guest.jail.confined_filter import CHMOD, FCHMOD, FCHMODAT, FCHMODAT2, STARTING, UTIMENSAT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche_guest.jail.task_quota import TaskQuota

_RECEIVE, _ANSWER, _STILL_VALID = 0xC0502100, 0xC0182101, 0x40082102
_NOTICE = struct.Struct("=QIIiIQ6Q")
_ANSWER_FORM = struct.Struct("=QqiI")
_HERE = -100
_NO_FOLLOW, _EMPTY_PATH = 0x100, 0x1000
_NOW, _LEAVE = 0x3FFFFFFF, 0x3FFFFFFE
_LONGEST_PATH = 4096
_SET_ID_BITS = 0o6000
_CONTINUE = 1


class Attributes:
    """Answers for one guest and what it started. `folders` are its own."""

    def __init__(self, folders: list[str], tasks: TaskQuota) -> None:
        self._folders = [os.path.realpath(folder) for folder in folders]
        self._tasks = tasks

    def answer(self, listener: int) -> None:
        """Take one call off `listener` and carry it out, or refuse it."""
        notice = bytearray(_NOTICE.size)
        try:
            fcntl.ioctl(listener, _RECEIVE, notice)
        except OSError:
            return  # the caller was interrupted, and will ask again
        number, pid, _, call, _, _, *arguments = _NOTICE.unpack(notice)
        failure = flags = 0
        try:
            if call in STARTING:
                failure, flags = (0, _CONTINUE) if self._tasks.allows() else (errno.EAGAIN, 0)
            else:
                self._carry_out(listener, number, pid, call, arguments)
        except OSError as exc:
            failure = exc.errno or errno.EIO
        except (OverflowError, ValueError, struct.error):  # a number or a name that cannot be one
            failure = errno.EINVAL
        try:
            fcntl.ioctl(listener, _ANSWER, _ANSWER_FORM.pack(number, 0, -failure, flags))
        except OSError:
            pass  # gone meanwhile

    def _carry_out(self, listener: int, number: int, pid: int, call: int, arguments: list[int]) -> None:
        if call == UTIMENSAT:
            folder, name, times, flags = _signed(arguments[0]), arguments[1], arguments[2], arguments[3]
        elif call == FCHMOD:
            folder, name, flags = _signed(arguments[0]), 0, 0
        elif call == CHMOD:
            folder, name, flags = _HERE, arguments[0], 0
        elif call in (FCHMODAT, FCHMODAT2):
            folder, name = _signed(arguments[0]), arguments[1]
            flags = arguments[3] if call == FCHMODAT2 else 0
        else:
            raise OSError(errno.EPERM, "not a call that is asked about")
        wanted = _times(pid, times) if call == UTIMENSAT else None
        mode = arguments[1 if call in (CHMOD, FCHMOD) else 2] & 0o7777
        target = self._open(pid, folder, name, flags)
        try:
            # while the caller waits its number is its own: what was opened through it is what it meant
            fcntl.ioctl(listener, _STILL_VALID, struct.pack("=Q", number))
            self._refuse_elsewhere(target)
            if wanted is not None:
                _set_times(target, wanted)
            elif mode & _SET_ID_BITS:
                raise OSError(errno.EPERM, "no file may run as another")
            else:
                os.chmod("/proc/self/fd/%d" % target, mode)
        finally:
            os.close(target)

    @staticmethod
    def _open(pid: int, folder: int, name: int, flags: int) -> int:
        """What the call means, as a descriptor that gives no rights."""
        how = os.O_PATH | os.O_CLOEXEC
        place = "/proc/%d/cwd" % pid if folder == _HERE else "/proc/%d/fd/%d" % (pid, folder)
        if not name:
            return os.open(place, how)
        path = _text(pid, name)
        if not path:
            if not flags & _EMPTY_PATH:
                raise OSError(errno.ENOENT, "an empty name")
            return os.open(place, how)
        if flags & _NO_FOLLOW:
            how |= os.O_NOFOLLOW
        return os.open(path if path.startswith(b"/") else os.fsencode(place) + b"/" + path, how)

    def _refuse_elsewhere(self, target: int) -> None:
        """Only what lies in the guest's folders. It cannot move anything into them: Landlock keeps it from that."""
        place = os.readlink("/proc/self/fd/%d" % target)
        if not any(place == folder or place.startswith(folder + "/") for folder in self._folders):
            raise OSError(errno.EPERM, "not a file of the session")


def _signed(word: int) -> int:
    """A descriptor: the lower half of the register, with its sign."""
    number: int = struct.unpack("=i", struct.pack("=I", word & 0xFFFFFFFF))[0]
    return number


def _read(pid: int, address: int, size: int) -> bytes:
    memory = os.open("/proc/%d/mem" % pid, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(memory, size, address)
    except OSError:
        raise OSError(errno.EFAULT, "no such address") from None
    finally:
        os.close(memory)


def _text(pid: int, address: int) -> bytes:
    """A name in the caller's memory."""
    found, end, _ = _read(pid, address, _LONGEST_PATH).partition(b"\0")
    if not end:
        raise OSError(errno.ENAMETOOLONG, "a name without an end")
    return found


def _times(pid: int, address: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """(seconds, nanoseconds) of the last access and of the last change."""
    if not address:
        return (0, _NOW), (0, _NOW)
    first, second, third, fourth = struct.unpack("=qqqq", _read(pid, address, 32))
    return (first, second), (third, fourth)


def _set_times(target: int, wanted: tuple[tuple[int, int], tuple[int, int]]) -> None:
    status: Any = os.fstat(target)
    chosen = []
    for (seconds, rest), present in zip(wanted, (status.st_atime_ns, status.st_mtime_ns)):
        if rest == _NOW:
            chosen.append(time.time_ns())
        elif rest == _LEAVE:
            chosen.append(present)
        elif 0 <= rest < 1_000_000_000:
            chosen.append(seconds * 1_000_000_000 + rest)
        else:
            raise OSError(errno.EINVAL, "no such time")
    os.utime("/proc/self/fd/%d" % target, ns=(chosen[0], chosen[1]))
