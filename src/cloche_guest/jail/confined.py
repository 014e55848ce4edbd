"""The jail where namespaces cannot be had: Landlock and seccomp carry everything, and refuse to start without it.

There is no view: the guest sees the host's names and may open what is on a list. There are no process namespaces: each
session has a keeper (see `keeper`) that reaps and ends what its worker started. The zygote asks for nothing else of
the kernel than what every process may ask.
"""

from __future__ import annotations

import os
import select
import signal
import socket

from cloche_guest.jail import messages, syscalls
from cloche_guest.jail.confinement import prove
from cloche_guest.jail.keeper import Keeper, pid_of, process_fields
from cloche_guest.jail.zygote import Zygote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def main(argv: list[str]) -> None:
    """``--control FD,FD``: the line to the host, on which the configuration comes first; one for folders, which are
    given to jails with a view only. Be the zygote of a confined jail. Never returns."""
    host, folders = (socket.socket(fileno=int(number)) for number in argv[2].split(","))
    syscalls.close_from(max(host.fileno(), folders.fileno()) + 1)  # what others meant for their own children
    folders.close()
    options, _ = messages.receive(host)
    if options is None:
        os._exit(0)
    try:
        become_guest_user(options)
        syscalls.no_new_privileges()
        syscalls.adopt_orphans()
        prove()
    except OSError as exc:
        messages.send(host, {"error": str(exc), "errno": exc.errno})
        os._exit(1)
    messages.send(host, {"standing": True})
    ConfinedZygote(host, options).serve()


def become_guest_user(options: dict[str, Any]) -> None:
    """As root: become somebody without rights, who must be able to read the interpreter. A guest is never root."""
    if os.getuid() != 0 and os.geteuid() != 0:
        return
    readable = [path for path in options["zygote"]["path"] if os.path.exists(path)]
    os.setgroups([])
    os.setresgid(options["gid"], options["gid"], options["gid"])
    os.setresuid(options["uid"], options["uid"], options["uid"])
    syscalls.set_dumpable(True)  # else our own /proc files would belong to root
    hidden = [path for path in readable if not os.access(path, os.R_OK)]
    if hidden:
        raise OSError(13, "the user without rights that the guest becomes cannot read the interpreter", hidden[0])


class ConfinedZygote(Zygote):
    """Forks a keeper for each session; the keeper forks the workers."""

    def __init__(self, host: socket.socket, options: dict[str, Any]) -> None:
        super().__init__(host, host, options["zygote"])
        self._trees = options["trees"]
        self._scratch = options["scratch"]
        self._lines: dict[int, socket.socket] = {}  # by the keeper's number

    def imports(self) -> dict[str, str]:
        """Libraries want a home and a place for temporary files while they are imported; neither is there later."""
        import shutil

        place = os.path.join(self._scratch, "cloche-imports-" + os.urandom(8).hex())
        os.mkdir(place, 0o700)
        kept = dict(os.environ)
        os.environ.update({"HOME": place, "TMPDIR": place, "MPLCONFIGDIR": place})
        try:
            return super().imports()
        finally:
            shutil.rmtree(place, ignore_errors=True)
            os.environ.clear()
            os.environ.update(kept)

    def _fork(self, request: dict[str, Any], descriptors: list[int]) -> None:
        try:
            if request.get("again"):
                self._pass_on(request, descriptors)
            else:
                self._seat(request, descriptors)
        except OSError as exc:  # what one request lacks must not end the others
            messages.send(self._host, {"failed": request["id"], "error": str(exc)})
        for descriptor in descriptors:
            os.close(descriptor)

    def _seat(self, request: dict[str, Any], descriptors: list[int]) -> None:
        ours, theirs = messages.pair()
        pid = self._session.fork()
        if pid == 0:
            Keeper(self._session, self._host, theirs, request, descriptors, self._trees).serve()
        theirs.close()
        self._lines[pid] = ours
        pidfd = syscalls.pidfd_open(pid)
        self._workers[pidfd] = (pid, -1)
        self._watch.register(pidfd, select.POLLIN)

    def _pass_on(self, request: dict[str, Any], descriptors: list[int]) -> None:
        """Another worker for a keeper that is there; it comes with the keeper's handle."""
        own = len(descriptors) - request.get("groups", 0)
        seat = own - 2  # its keeper's handle, then that of its workspace
        line = self._lines.get(pid_of(descriptors[seat]))
        if line is None:
            raise OSError(3, "the session's keeper is gone")
        messages.send(line, request, descriptors[:seat] + descriptors[own:])

    def _reap(self, pidfd: int) -> None:
        """A keeper has ended. One that was killed leaves its worker's group to us."""
        pid, _ = self._workers.pop(pidfd)
        self._watch.unregister(pidfd)
        os.close(pidfd)
        self._lines.pop(pid).close()
        _, status = os.waitpid(pid, 0)
        if status:
            self._end_orphans()

    def _end_orphans(self) -> None:
        """Our children that are no keepers, each with its whole group, until none is left."""
        keepers = {pid for pid, _ in self._workers.values()}
        while True:
            orphans = [pid for pid in _children() if pid not in keepers]
            if not orphans:
                return
            for pid in orphans:
                try:
                    group = os.getpgid(pid)
                    if group != os.getpgrp():
                        os.killpg(group, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                os.waitpid(pid, 0)


def _children() -> list[int]:
    """All of our children, by asking each process for its parent."""
    return [pid for pid, fields in process_fields() if len(fields) > 1 and int(fields[1]) == os.getpid()]
