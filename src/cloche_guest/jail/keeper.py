"""The keeper of a confined session: what the PID 1 of a seat is where there are no process namespaces.

It never runs guest code. Landlock keeps the guest from reaching it. Everything that the worker starts stays in the
worker's process group (the filter sees to that), in a session of the keeper's own, and becomes the keeper's child when
its own parent ends; so one signal to the group ends all, and the number of the group is not another's while the keeper
has children.
"""

from __future__ import annotations

import _socket
import os
import select
import signal
import socket
import time

from cloche_guest.jail import confinement, messages, syscalls, worker
from cloche_guest.jail.attributes import Attributes
from cloche_guest.jail.task_quota import TaskQuota

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche_guest.jail.prepared import PreparedSession

ROUNDS = 500
"""Passes over the group before one that breeds faster than it dies, while its worker is to live, is given up."""

PAUSE, LONGEST_PAUSE = 9, 0.1
"""After each call of a guest whose CPU time is bounded: so many times what it took, and no more than these seconds."""


class Keeper:
    """Starts the workers of one session, one after the other, and answers for them to the host."""

    def __init__(
        self, session: PreparedSession, host: _socket.socket, zygote: socket.socket, request: dict[str, Any],
        descriptors: list[int], trees: list[str],
    ) -> None:  # fmt: skip
        """`descriptors`: those of the first worker, our line to the host, and by which the worker joins its cgroup."""
        os.setsid()  # nothing of another session can be in a group of this one
        own = len(descriptors) - request.get("groups", 0)
        control = descriptors[own - 1]
        close_all_but([host.fileno(), zygote.fileno(), *descriptors])
        syscalls.adopt_orphans()
        self._session = session
        self._host = host
        self._zygote = zygote
        self._control = socket.socket(fileno=control)
        self._trees = trees
        self._group = 0
        self._end = -1
        self._cpu_bounded = bool(request.get("cpu_bounded"))
        self._tasks = TaskQuota(request["processes"], lambda: _tasks_of(self._group))
        self._attributes = Attributes(request["folders"], self._tasks)
        self._inner: socket.socket | None = None  # on which a worker sends its listener
        self._listener = -1
        self._watch = select.poll()
        for line in (zygote, self._control):
            self._watch.register(line.fileno(), select.POLLIN)
        self._woken = _wake_on_children()
        self._watch.register(self._woken, select.POLLIN)
        self._start(request, descriptors[: own - 1], descriptors[own:])

    def serve(self) -> None:
        """Until the host or the zygote goes away; everything ends with us. Never returns."""
        while True:
            # one at a time, the host's first: what is done for one may close, and open again, the number of another
            descriptor, what = self._watch.poll()[0]
            if descriptor == self._control.fileno():
                self._obey()
            elif descriptor == self._zygote.fileno():
                self._start_again()
            elif descriptor == self._woken:
                os.read(self._woken, 4096)
                self._reap(os.WNOHANG)
            elif descriptor == self._listener and what & select.POLLIN:
                self._answer()
            elif self._inner is not None and descriptor == self._inner.fileno():
                self._take_listener()
            else:
                self._drop_listener()  # all that could ask have ended

    def _answer(self) -> None:
        """Do what the guest asks. Where its CPU time is bounded, ours is no part of that: it waits for the cost."""
        began = time.thread_time()
        self._attributes.answer(self._listener)
        if self._cpu_bounded:
            time.sleep(min(PAUSE * (time.thread_time() - began), LONGEST_PAUSE))

    # -- workers -------------------------------------------------------------------------------

    def _start(self, request: dict[str, Any], descriptors: list[int], groups: list[int]) -> None:
        """Fork a worker over these descriptors (the last is for its end) and tell the host of it, or why not."""
        *lines, end = descriptors
        handles = []
        try:
            handles.append(os.open(request["workspace"], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            pid = self._session.fork()
            if pid == 0:
                _ordinary_signals()
                confinement.run(self._session, request, self._trees, lines, groups)
            try:
                os.setpgid(pid, pid)  # the worker does so too: whoever comes first
            except OSError:
                pass  # it has ended
            self._group, self._end = pid, end
            handles = [syscalls.pidfd_open(pid), syscalls.pidfd_open(os.getpid()), *handles]
            messages.send(self._host, {"session": request["id"]}, handles)
        except OSError as exc:
            messages.send(self._host, {"failed": request["id"], "error": str(exc)})
            if self._end != end:
                os.close(end)
        for descriptor in (*lines, *groups, *handles):
            os.close(descriptor)

    def _start_again(self) -> None:
        """Another worker, after everything of the one before is gone."""
        request, descriptors = messages.receive(self._zygote)
        if request is None:
            self._finish()
            return
        self._end_all()
        self._reap(0)
        self._drop_listener()
        self._tasks.begin_again()
        own = len(descriptors) - request.get("groups", 0)
        self._start(request, descriptors[:own], descriptors[own:])

    def _use_inner(self, descriptor: int) -> None:
        self._drop_inner()
        self._inner = socket.socket(fileno=descriptor)
        self._watch.register(descriptor, select.POLLIN)

    def _take_listener(self) -> None:
        """The worker is behind its wall, and hands over what it is to be asked about."""
        if self._inner is None:
            return
        _, descriptors = messages.receive(self._inner)
        self._drop_inner()
        if descriptors:
            self._drop_listener()
            self._listener = descriptors[0]
            self._watch.register(self._listener, select.POLLIN)

    def _drop_inner(self) -> None:
        if self._inner is not None:
            self._watch.unregister(self._inner.fileno())
            self._inner.close()
            self._inner = None

    def _drop_listener(self) -> None:
        if self._listener >= 0:
            self._watch.unregister(self._listener)
            os.close(self._listener)
            self._listener = -1

    # -- ends ----------------------------------------------------------------------------------

    def _obey(self) -> None:
        message, descriptors = messages.receive(self._control)
        if message is None:
            self._finish()
            return
        try:
            if "inner" in message:
                self._use_inner(descriptors.pop())
            elif "kill" in message:
                if descriptors or "since" in message:
                    self._end_some([pid_of(one) for one in descriptors], message.get("since", 0))
                else:
                    self._end_all()
                messages.send(self._control, {"cleared": True})
            else:
                messages.send(self._control, {"error": "this wall has no %s" % next(iter(message))})
        except OSError:
            self._finish()  # nobody waits for an answer any more
        for descriptor in descriptors:
            os.close(descriptor)

    def _end_all(self) -> None:
        """The whole group at one stroke: a process that is being made is either in it already or not made."""
        if self._group:
            try:
                os.killpg(self._group, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def _end_some(self, spare: list[int], since: int) -> None:
        """Those of the group that began after `since` (clock ticks since boot), but not `spare`."""
        for _ in range(ROUNDS):
            found = [pid for pid in _group_of(self._group, since) if pid not in spare] if self._group else []
            if not found:
                return
            for pid in found:
                kill(pid)
            self._reap(os.WNOHANG)

    def _reap(self, how: int) -> None:
        """Take ended children off the list of processes and tell how the worker ended. `how` 0: wait for all."""
        while True:
            try:
                pid, status = os.waitpid(-1, how)
            except ChildProcessError:
                self._group = 0  # nobody is left: from now on the number may be another's
                return
            if pid == 0:
                return
            if pid == self._group and self._end >= 0:
                try:
                    os.write(self._end, b"%d" % worker.exit_code(status))
                except OSError:
                    pass
                os.close(self._end)
                self._end = -1

    def _finish(self) -> None:
        self._end_all()
        self._drop_listener()  # whoever waits for an answer gets one
        self._reap(0)
        os._exit(0)


def kill(pid: int) -> None:
    """One that has ended already is what was wanted."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def pid_of(pidfd: int) -> int:
    """The process behind a handle, as numbered in this namespace; -1 when it is gone."""
    with open("/proc/self/fdinfo/%d" % pidfd) as handle:
        for line in handle:
            if line.startswith("Pid:"):
                return int(line.split()[1])
    return -1


def process_fields() -> list[tuple[int, list[bytes]]]:
    """Of every process that can be seen: its number, and what ``/proc/<pid>/stat`` says after its name."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name, "rb") as handle:
                    found.append((int(name), handle.read().rpartition(b")")[2].split()))
            except OSError:
                continue  # gone meanwhile
    return found


def _group_of(group: int, since: int) -> list[int]:
    """Members of a process group that are alive and began at `since` or later."""
    return [
        pid
        for pid, fields in process_fields()
        if len(fields) > 19 and int(fields[2]) == group and fields[0] not in b"ZX" and int(fields[19]) >= since
    ]


def _tasks_of(group: int) -> int:
    """Processes and threads of a process group; those that have ended and were not waited for too."""
    return sum(int(fields[17]) for _, fields in process_fields() if len(fields) > 19 and int(fields[2]) == group)


def close_all_but(kept: list[int]) -> None:
    """Close every descriptor above the first three that is not `kept`."""
    first = 3
    for descriptor in sorted(kept):
        os.closerange(first, descriptor)
        first = descriptor + 1
    syscalls.close_from(first)


def _wake_on_children() -> int:
    """A descriptor that becomes readable when a child has ended."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    return reader


def _ordinary_signals() -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
