"""Branches of a live session: the worker forks itself, and the copy becomes a session, or waits to become one.

The host sends the descriptors of the copy ahead on a line of their own, then the request on the wire. A copy for a
branch enters a seat with files of its own; one for a savepoint stays where it is and waits until it is wanted.
"""

from __future__ import annotations

import _socket
import _stat as stat
import errno
import posix as os
import sys
from time import sleep

from cloche_guest.capture import flush_quietly
from cloche_guest.codes import CANNOT_BRANCH, RequestFailed
from cloche_guest.jail import messages, syscalls
from cloche_guest.jail.places import PRIVATE, TEMPORARY, WORKSPACE
from cloche_guest.signals import state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NamedTuple

    from cloche_guest.kernel import Kernel, Reply

    class OpenFile(NamedTuple):
        descriptor: int
        path: str
        flags: int
        inherited: int
        offset: int


NO_PROCESS = "no more processes: each branch counts as two of the session that it comes from"
NO_LAYER = (
    "no more layers: the session went on beside living branches as often as the kernel lets it step away from them"
)
_REASONS = {errno.EAGAIN: NO_PROCESS, errno.E2BIG: NO_LAYER}
_WITHOUT_CODE = ("branch", "ping")
"""Methods that run no code of the session's."""
_FROM_START, _CURRENT = 0, 1
_KINDS = (syscalls.CLONE_NEWUSER, syscalls.CLONE_NEWNET, syscalls.CLONE_NEWNS, syscalls.CLONE_NEWPID)
_OURS = (WORKSPACE, PRIVATE, "/proc", "/tmp")
_PIECE = 1 << 20
_ACCESS = 3  # of the flags: reading, writing or both


class Branches:
    """The worker's side. `line` brings descriptors; `out` and `err` are where captured output goes."""

    def __init__(self, kernel: Kernel, line: int) -> None:
        self._kernel = kernel
        self._line = line
        self._files: list[Any] = []
        self._folder = ""
        self._newborn: list[int] = []
        """Branches that we could still look into."""
        kernel.add_methods({"branch": self.branch, "resume": self.resume})

    def begin_again(self, line: int) -> None:
        """In a copy of the session: the same number, another line."""
        os.dup2(line, self._line, inheritable=False)

    def branch(self, params: dict[str, Any], body: bytearray | None) -> Reply:
        """Fork. The caller answers; the copy does not, and serves its own wire from here on."""
        message, descriptors = self._passed()
        waits = bool(params.get("waits"))
        try:
            running = running_threads()
            if running:
                raise RequestFailed(CANNOT_BRANCH, "threads are running: " + ", ".join(running))
            flush_quietly()
            self._folder = _current_folder()
            kept = _random_state() if waits else None
            state.branching = True
            try:
                number = syscalls.fork_away(list(zip(descriptors[4:], _KINDS)), message.get("key", 0))
            except OSError as exc:
                why = _REASONS.get(exc.errno or 0, "the session could not be copied: %s" % exc)
                raise RequestFailed(CANNOT_BRANCH, why) from None
            finally:
                state.branching = False
            if number:
                if not waits:
                    self._newborn.append(number)
                    self._kernel.before = self._stand_apart
                return {}, None
            self._settle(descriptors, waits, kept)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        return None, None

    def resume(self, params: dict[str, Any], body: bytearray | None) -> Reply:
        """In a copy that has waited: the host has put the files back to what they were."""
        message, descriptors = self._heard()
        for descriptor in descriptors:
            os.close(descriptor)
        if message is not None and "branched" in message:  # after we were made
            try:
                syscalls.stand_apart()
            except OSError as exc:
                why = _REASONS.get(exc.errno or 0, "the session cannot stand apart from its branches: %s" % exc)
                raise RequestFailed(CANNOT_BRANCH, why) from None
        _go_to(self._folder)
        reopen(self._files)
        return {}, None

    def _stand_apart(self, method: str) -> None:
        """Before code of the session's runs again: what branches have started since is none of its business.

        Not after each fork: there can be 15 such steps in the life of a process, and as many forks as one likes between
        two cells. Branches that have ended need none.
        """
        if method in _WITHOUT_CODE:
            return
        self._kernel.before = None
        newborn, self._newborn = self._newborn, []
        if any(_lives(number) for number in newborn):
            syscalls.stand_apart()

    def _heard(self) -> tuple[dict[str, Any] | None, list[int]]:
        """What the host has sent on our line, if it has."""
        line = _socket.socket(fileno=os.dup(self._line))
        line.setblocking(False)
        try:
            return messages.receive(line)
        except OSError:
            return None, []
        finally:
            line.close()

    def _passed(self) -> tuple[dict[str, Any], list[int]]:
        message, descriptors = self._heard()
        if message is None or len(descriptors) < 4:
            raise RequestFailed(CANNOT_BRANCH, "the descriptors of the copy did not come")
        return message, descriptors

    def _settle(self, descriptors: list[int], waits: bool, random_state: Any) -> None:
        """In the copy: speak on our own wire, and be where our own files are."""
        wire, out, err, line = descriptors[:4]
        try:
            for group in descriptors[4 + len(_KINDS) :]:
                os.write(group, b"0")
        except OSError:  # the host looks whether we are in it, and puts us there else, which takes longer
            pass
        self._kernel.link.begin_again(wire)
        self._kernel.capture.begin_again(out, err)
        self.begin_again(line)
        if waits:
            self._files = open_files()
            _restore_random_state(random_state)
        else:
            self._newborn, self._kernel.before = [], None  # they are not below us
            _go_to(self._folder)
            leave_behind(reopen(open_files()))
            reseed_numpy()
        self._kernel.runner.leave_parent_loop()
        # whose message this is, is told to the host by the system, not by us
        line_out = _socket.socket(fileno=os.dup(self._line))
        messages.send(line_out, {"here": True})
        line_out.close()


def running_threads() -> list[str]:
    """Names of threads that a copy would lose."""
    threading = sys.modules.get("threading")
    names = []
    if threading is not None:
        names = [repr(one.name) for one in threading.enumerate() if one is not threading.main_thread()]
    count = len(os.listdir("/proc/self/task")) - 1
    for _ in range(50):
        if count <= len(names):
            break
        sleep(0.0005)  # one that has ended is listed until the system has cleared it away
        count = len(os.listdir("/proc/self/task")) - 1
    if count > len(names):
        names.append("%d of native libraries" % (count - len(names)))
    return names


def open_files() -> list[OpenFile]:
    """Files of the session and all folders that are open, with what it takes to open them again.

    All folders: from any that lies in another's view, its files can be reached. And files of ``/proc``, which are views
    of a process.
    """
    import fcntl

    found: list[Any] = []
    for name in os.listdir("/proc/self/fd"):
        descriptor = int(name)
        try:
            path = os.readlink("/proc/self/fd/" + name)
            kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
            if kind != stat.S_IFDIR and not (kind == stat.S_IFREG and path.startswith(_OURS)):
                continue
            offset = os.lseek(descriptor, 0, _CURRENT) if kind == stat.S_IFREG else 0
            flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
            inherited = 0 if fcntl.fcntl(descriptor, fcntl.F_GETFD) & fcntl.FD_CLOEXEC else 1
        except OSError:  # the descriptor of this very listing, or one that has no name any more
            continue
        found.append((descriptor, path, flags, inherited, offset))
    return found


def reopen(files: list[OpenFile]) -> list[OpenFile]:
    """The same descriptors on the files that have these names now: else we would write into another's copies. Returns
    those that have no such name."""
    nameless: list[OpenFile] = []
    for file in files:
        descriptor, path, flags, inherited, offset = file
        try:
            fresh = os.open(path, flags & ~(os.O_CREAT | os.O_EXCL | os.O_TRUNC) | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            nameless.append(file)
            continue
        if offset:
            os.lseek(fresh, offset, _FROM_START)
        os.dup2(fresh, descriptor, inheritable=bool(inherited))
        os.close(fresh)
    return nameless


def leave_behind(files: list[OpenFile]) -> None:
    """In a branch: what has no name here is its parent's. A file is copied, anything else becomes nothing."""
    for descriptor, _, flags, inherited, offset in files:
        try:
            fresh = _copy_of(descriptor)
            os.lseek(fresh, offset, _FROM_START)
        except OSError:  # a folder, not readable, or too large for this branch
            fresh = os.open("/dev/null", flags & _ACCESS | os.O_CLOEXEC)
        os.dup2(fresh, descriptor, inheritable=bool(inherited))
        os.close(fresh)


def _copy_of(descriptor: int) -> int:
    """A file without a name that has the same content."""
    fresh = os.open(TEMPORARY, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        done = 0
        while done < size:
            piece = os.pread(descriptor, _PIECE, done)
            if not piece:
                break
            done += os.pwrite(fresh, piece, done)
    except OSError:
        os.close(fresh)
        raise
    return fresh


def _lives(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


def _current_folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # removed
        return WORKSPACE


def _go_to(folder: str) -> None:
    try:
        os.chdir(folder)
    except OSError:
        os.chdir(WORKSPACE)


def _random_state() -> Any:
    """`random` reseeds itself at a fork; a state to which somebody returns must not have changed by that."""
    module = sys.modules.get("random")
    return None if module is None else module.getstate()


def _restore_random_state(kept: Any) -> None:
    module = sys.modules.get("random")
    if module is not None and kept is not None:
        module.setstate(kept)


def reseed_numpy() -> None:
    """Copies of one process must not share random numbers. `random` reseeds itself at a fork; numpy does not."""
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(int.from_bytes(os.urandom(4), "little"))
