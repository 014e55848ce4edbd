"""The PID 1 of a seat: idle, out of the guest's reach, and never running its code.

It ends with the host, and everything in its namespace with it. Until then it takes over orphans and tells the host
how those that it knows ended, kills what lives in the seat, makes seats for branches, and decides about the one
system call that needs approval.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import struct

from cloche_guest.jail import branch_seat, messages, syscalls
from cloche_guest.jail.places import PRIVATE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

REMEMBERED = 256
ROUNDS = 500
"""Passes over the process table before a seat that breeds faster than it dies is given up."""
_NOTIFY_RECEIVE, _NOTIFY_ANSWER = 0xC0502100, 0xC0182101
_NOTIFY_SIZE = 80
_CONTINUE = 1
_EPERM = 1
_APPROVED = (syscalls.CLONE_NEWUSER, syscalls.CLONE_NEWNS, syscalls.CLONE_NEWPID)


class PidOne:
    """Serves one seat. `line` leads to the host, which is trusted; `listener` to the kernel, about the guest."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._inner: socket.socket | None = None  # on which a worker sends its listener
        self._listener = -1
        self._users = -1  # the worker's user namespace, below which those of branches are made
        self._processes = syscalls.detached_proc()  # the guest's view of them hides what it may not look into
        self._approvals = 0
        self._branched = False
        self._ends: dict[int, int] = {}  # process -> pipe on which its end is told
        self._ended: dict[int, int] = {}  # those that ended before anybody asked
        self._watch = select.poll()
        self._bell, ring = os.pipe()
        os.set_blocking(self._bell, False)
        os.set_blocking(ring, False)
        signal.set_wakeup_fd(ring, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        for descriptor in (line.fileno(), self._bell):
            self._watch.register(descriptor, select.POLLIN)

    def serve(self) -> None:
        """Never returns."""
        while True:
            for descriptor, events in self._watch.poll():
                if descriptor == self._bell:
                    os.read(self._bell, 4096)
                    self._reap()
                elif descriptor == self._line.fileno():
                    self._hear()
                elif self._inner is not None and descriptor == self._inner.fileno():
                    self._take_listener()
                elif descriptor == self._listener:
                    self._decide(events)

    def _hear(self) -> None:
        message, descriptors = messages.receive(self._line)
        if message is None:
            os._exit(0)
        kind = next(iter(message))
        if kind == "inner":
            self._use_inner(descriptors.pop())
        elif kind == "kill":
            self._clear([pid_of(one) for one in descriptors], message.get("since"))
            messages.send(self._line, {"cleared": True})
        elif kind == "allow":
            self._approvals = message["allow"]
            messages.send(self._line, {"allowed": True})
        elif kind == "track":
            self._track(pid_of(descriptors[0]), descriptors.pop())
        elif kind == "branch":
            self._branch(message, descriptors)
        elif kind == "store":
            self._store(message)
        for descriptor in descriptors:
            os.close(descriptor)

    # -- processes -----------------------------------------------------------------------------

    def _reap(self) -> None:
        """Take what has ended, ours by birth or by adoption, off the list of processes."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
            end = self._ends.pop(pid, None)
            if end is not None:
                _tell(end, code)
            else:
                if len(self._ended) >= REMEMBERED:
                    del self._ended[next(iter(self._ended))]
                self._ended[pid] = code

    def _track(self, pid: int, end: int) -> None:
        """Tell on `end` how this process ends, or has ended."""
        self._reap()
        if pid in self._ended:
            _tell(end, self._ended.pop(pid))
        elif pid <= 0:
            _tell(end, -signal.SIGKILL)
        else:
            self._ends[pid] = end

    def _clear(self, spare: list[int], since: int | None) -> None:
        """End what runs here but `spare`; with `since` (clock ticks since boot) only what is younger.

        Branches live below this namespace and can be seen from it, but they are sessions of their own.
        """
        if not spare and not self._branched and since is None:
            kill(-1)  # all of the namespace but ourselves, at one stroke
            return
        for _ in range(ROUNDS):
            listed = [int(name) for name in os.listdir(self._processes) if name.isdigit() and name != "1"]
            found = [pid for pid in listed if pid not in spare and self._lives_here(pid, since)]
            if not found:
                return
            for pid in found:
                kill(pid)
            self._reap()

    def _lives_here(self, pid: int, since: int | None) -> bool:
        """Whether it runs directly in this namespace, and began after `since`."""
        try:
            status = self._read("%d/status" % pid)
            fields = self._read("%d/stat" % pid).rpartition(")")[2].split()
        except OSError:
            return False
        numbers = status.partition("\nNSpid:")[2].partition("\n")[0].split()
        return len(numbers) == 1 and fields[0] not in "ZX" and (since is None or int(fields[19]) >= since)

    def _read(self, name: str) -> str:
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._processes)
        with open(descriptor, errors="replace") as handle:
            return handle.read()

    # -- branches ------------------------------------------------------------------------------

    def _branch(self, options: dict[str, Any], descriptors: list[int]) -> None:
        """Make the seat of a branch: its PID 1, its namespaces and empty folders go to the host."""
        self._branched = True
        if self._inner is not None:
            self._take_listener()  # a worker that is just coming up
        try:
            handles = branch_seat.make(options, descriptors[0], self._users, serve_seat)
        except OSError as exc:
            messages.send(self._line, {"error": str(exc)})
            return
        handles.append(_open_folder(PRIVATE))
        messages.send(self._line, {"branched": True}, handles)
        for handle in handles:
            os.close(handle)

    def _store(self, options: dict[str, int]) -> None:
        """A place for copies of the session's files that the session cannot reach."""
        try:
            handles = [syscalls.detached_tmpfs(options["bytes"], options["files"]), _open_folder(PRIVATE)]
        except OSError as exc:
            messages.send(self._line, {"error": str(exc)})
            return
        messages.send(self._line, {"stored": True}, handles)
        for handle in handles:
            os.close(handle)

    # -- approval ------------------------------------------------------------------------------

    def _use_inner(self, descriptor: int) -> None:
        if self._inner is not None:
            self._drop_inner()
        self._inner = socket.socket(fileno=descriptor)
        self._watch.register(descriptor, select.POLLIN)

    def _drop_inner(self) -> None:
        if self._inner is not None:
            self._watch.unregister(self._inner.fileno())
            self._inner.close()
            self._inner = None

    def _take_listener(self) -> None:
        """A new worker's filter; the old worker is dead. It comes before any code of the guest's has run."""
        assert self._inner is not None
        message, descriptors = messages.receive(self._inner)
        self._drop_inner()
        if message is not None and len(descriptors) == 2:
            self._drop_listener()
            self._listener, self._users = descriptors
            self._watch.register(self._listener, select.POLLIN)

    def _drop_listener(self) -> None:
        if self._listener >= 0:
            self._watch.unregister(self._listener)
            os.close(self._listener)
            os.close(self._users)
            self._listener = self._users = -1

    def _decide(self, events: int) -> None:
        """`setns` into the three namespaces of a seat, as often as the host allowed, and never otherwise."""
        if not events & select.POLLIN:  # nobody is left under this filter
            self._drop_listener()
            return
        asked = bytearray(_NOTIFY_SIZE)
        try:
            fcntl.ioctl(self._listener, _NOTIFY_RECEIVE, asked)
        except OSError:  # who asked is gone
            return
        number, _, _, call, _, _, _, kind = struct.unpack_from("=QIIiIQQQ", asked)
        # what came with the namespaces is given up before anything else is done
        known = call == syscalls.number_of("capset") or (call == syscalls.number_of("setns") and kind in _APPROVED)
        approved = self._approvals > 0 and known
        if approved:
            self._approvals -= 1
        answer = struct.pack("=QqiI", number, 0, 0 if approved else -_EPERM, _CONTINUE if approved else 0)
        try:
            fcntl.ioctl(self._listener, _NOTIFY_ANSWER, answer)
        except OSError:
            return


def serve_seat(control: int) -> None:
    """Be the PID 1 of a seat whose files are ready; `control` leads to the host. Never returns."""
    os.dup2(control, 3)
    syscalls.close_from(4)
    PidOne(socket.socket(fileno=3)).serve()


def kill(pid: int) -> None:
    """One that has ended already is what was wanted."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _tell(end: int, code: int) -> None:
    try:
        os.write(end, b"%d" % code)
    except OSError:
        pass
    os.close(end)


def _open_folder(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def pid_of(pidfd: int) -> int:
    """The process behind a handle, as numbered in this namespace; -1 when it is gone."""
    with open("/proc/self/fdinfo/%d" % pidfd) as handle:
        for line in handle:
            if line.startswith("Pid:"):
                return int(line.split()[1])
    return -1
