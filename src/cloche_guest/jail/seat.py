"""A seat: the namespaces of one session, held by an idle PID 1 that never runs guest code."""

from __future__ import annotations

import os
import signal
import socket

from cloche_guest.jail import messages, syscalls, view
from cloche_guest.jail.pid_one import serve_seat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NAMESPACES = syscalls.CLONE_NEWNS | syscalls.CLONE_NEWIPC | syscalls.CLONE_NEWUTS


def make_seat(
    options: dict[str, Any], control: int, tree: int, mounts: list[int], own_pid_namespace: int
) -> tuple[int, int]:
    """(pidfd of the seat's PID 1, descriptor of its workspace). `control` is the PID 1's line to the host; `tree` the
    workspace that was prepared, or -1; `mounts` what belongs at the places that the options name."""
    ours, theirs = messages.pair()
    syscalls.unshare(syscalls.CLONE_NEWPID)
    pid = os.fork()
    if pid == 0:
        _become_init(options, control, tree, mounts, theirs)
    syscalls.setns(own_pid_namespace, syscalls.CLONE_NEWPID)
    theirs.close()
    with ours:
        message, descriptors = messages.receive(ours)
    pidfd = syscalls.pidfd_open(pid)
    if message is None or not descriptors:
        syscalls.pidfd_send_signal(pidfd, signal.SIGKILL)
        os.close(pidfd)
        raise OSError(5, (message or {}).get("error", "the seat was not made"))
    return pidfd, descriptors[0]


def _become_init(options: dict[str, Any], control: int, tree: int, mounts: list[int], report: socket.socket) -> None:
    try:
        # Landlock keeps sessions from each other's abstract sockets; where it cannot, each has a network of its own.
        syscalls.unshare(_NAMESPACES | (0 if options["scoped"] else syscalls.CLONE_NEWNET))
        syscalls.mount(None, "/", None, syscalls.MS_REC | syscalls.MS_PRIVATE)
        workspace = view.furnish_seat(options, tree)
        view.attach_mounts(options.get("mounts", []), mounts)
        socket.sethostname("cloche")
        messages.send(report, {"ready": True}, [workspace])
    except BaseException as exc:
        try:
            messages.send(report, {"error": "%s: %s" % (type(exc).__name__, exc)})
        finally:
            os._exit(1)
    serve_seat(control)
