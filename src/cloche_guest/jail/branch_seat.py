"""Making the seat of a branch: namespaces below those of its parent, with empty folders of its own.

A worker without capabilities can enter them all the same: a process has every right over a user namespace whose
parent is its own and whose owner is its user. So the new one is made below the worker's, by a process that goes
there first.
"""

from __future__ import annotations

import errno
import os
import socket

from cloche_guest.jail import messages, syscalls, view

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable


def make(options: dict[str, Any], control: int, users: int, serve: Callable[[int], None]) -> list[int]:
    """Descriptors of the new PID 1 (which runs `serve`), of its user, mount and process namespaces, of its workspace
    and of its private folder. `users` is the worker's user namespace; -1 where it is our
    own: in the seat of a branch."""
    ours, theirs = messages.pair()
    helper = os.fork()
    if helper == 0:
        ours.close()
        _go_below(options, control, users, theirs, serve)
    theirs.close()
    with ours:
        told: dict[str, Any] = {}
        folders: list[int] = []
        while "error" not in told and ("pid" not in told or not folders):  # two speak, in any order
            message, descriptors = messages.receive(ours)
            told.update(message or {"error": "the seat was not made"})
            folders += descriptors
        os.waitpid(helper, 0)
    if "error" in told:
        for descriptor in folders:
            os.close(descriptor)
        raise OSError(errno.EIO, told["error"])
    pid = told["pid"]
    places = ["/proc/%d/ns/%s" % (pid, name) for name in ("user", "mnt", "pid")]
    return [syscalls.pidfd_open(pid), *(os.open(place, os.O_RDONLY | os.O_CLOEXEC) for place in places), *folders]


def _go_below(
    options: dict[str, Any], control: int, users: int, report: socket.socket, serve: Callable[[int], None]
) -> None:
    """In a process between: enter the worker's user namespace, make a new one below, fork the PID 1 into it."""
    try:
        if users >= 0:
            _enter_users(users)
        syscalls.unshare(syscalls.CLONE_NEWUSER | syscalls.CLONE_NEWNS | syscalls.CLONE_NEWPID)
        for name, text in (("setgroups", "deny"), ("uid_map", "1000 1000 1"), ("gid_map", "1000 1000 1")):
            with open("/proc/self/" + name, "w") as handle:
                handle.write(text)
        pid = os.fork()
        if pid:
            messages.send(report, {"pid": pid})
            os._exit(0)
    except BaseException as exc:
        _complain(report, exc)
    try:
        syscalls.mount(None, "/", None, syscalls.MS_REC | syscalls.MS_PRIVATE)
        folders = view.furnish_branch(options)
        messages.send(report, {"ready": True}, folders)
    except BaseException as exc:
        _complain(report, exc)
    serve(control)


def _enter_users(users: int) -> None:
    try:
        syscalls.setns(users, syscalls.CLONE_NEWUSER)
    except OSError as exc:
        if exc.errno != errno.EINVAL:  # we are there already: the worker was put into the seat of a branch
            raise


def _complain(report: socket.socket, exc: BaseException) -> None:
    try:
        messages.send(report, {"error": "%s: %s" % (type(exc).__name__, exc)})
    finally:
        os._exit(1)
