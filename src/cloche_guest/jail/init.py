"""The init of a jail: makes the namespaces and the view, starts the zygote, and makes seats. Ends with its host."""

from __future__ import annotations

import os
import select
import signal
import socket

from cloche_guest.jail import confined, messages, syscalls, view
from cloche_guest.jail.folders import bind_folder, bind_for_user, serve_folders
from cloche_guest.jail.seat import make_seat
from cloche_guest.jail.zygote import Zygote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NAMESPACES = (
    syscalls.CLONE_NEWUSER
    | syscalls.CLONE_NEWNS
    | syscalls.CLONE_NEWPID
    | syscalls.CLONE_NEWNET
    | syscalls.CLONE_NEWIPC
    | syscalls.CLONE_NEWUTS
)
INSIDE = 1000  # our user and group, as seen from within


def main(argv: list[str]) -> None:
    """``--control FD,FD``: the line to the host, on which the configuration comes first; the line for folders."""
    host, folders = (socket.socket(fileno=int(number)) for number in argv[2].split(","))
    syscalls.close_from(max(host.fileno(), folders.fileno()) + 1)  # what others meant for their own children
    options, _ = messages.receive(host)
    if options is None:
        os._exit(0)
    if options["mode"] == "confined":
        folders.close()
        confined.main(host, options)
    try:
        syscalls.check_filters()
        trees = _split_off(options, host, folders)
        under_tmp = [path for path, _ in trees if path.startswith("/tmp/")]
        view.build(trees)
        folders.close()
    except OSError as exc:
        messages.send(host, {"error": str(exc), "errno": exc.errno})
        os._exit(1)
    messages.send(host, {"standing": True})
    line, theirs = messages.pair()
    if os.fork() == 0:
        line.close()
        Zygote(theirs, host, options["zygote"]).serve()
    theirs.close()
    _serve(host, line, under_tmp)


def _split_off(options: dict[str, Any], host: socket.socket, folders: socket.socket) -> list[tuple[str, int]]:
    """Enter new namespaces as PID 1, with the trees of the view opened on the way.

    The process that we leave outside of the view gives folders of the host to the jail, with the rights that it has.
    """
    if os.getuid() == options["uid"]:
        syscalls.unshare(_NAMESPACES)
        _write_maps("self", options)
        child = os.fork()
        if child:
            host.close()  # its end must mean that the init has ended
            serve_folders(folders, child, bind_folder)
        syscalls.unshare(syscalls.CLONE_NEWNS)
        return view.open_trees(options["trees"])
    return _leave_root(options, host, folders)


def _leave_root(options: dict[str, Any], host: socket.socket, folders: socket.socket) -> list[tuple[str, int]]:
    """As root: become somebody else, keeping the rights over the namespaces, but only after the trees are open: an
    interpreter may lie below a folder that nobody else can enter."""
    ready_read, ready_write = os.pipe()
    mapped_read, mapped_write = os.pipe()
    pid = os.fork()
    if pid:
        host.close()
        os.close(ready_write)
        os.close(mapped_read)
        if os.read(ready_read, 1):
            _write_maps(str(pid), options)
            os.write(mapped_write, b"m")
        os.close(mapped_write)
        serve_folders(folders, pid, lambda request: bind_for_user(request, options["uid"], options["gid"]))
    os.close(ready_read)
    os.close(mapped_write)
    os.setgroups([])  # inside they could not be given up any more
    syscalls.unshare(_NAMESPACES)
    os.write(ready_write, b"u")
    if not os.read(mapped_read, 1):
        raise OSError(1, "the user map could not be written")
    trees = view.open_trees(options["trees"])
    syscalls.keep_capabilities()
    os.setresgid(INSIDE, INSIDE, INSIDE)
    os.setresuid(INSIDE, INSIDE, INSIDE)
    syscalls.restore_effective_capabilities()
    syscalls.set_dumpable(True)  # else our own /proc files would belong to root
    child = os.fork()
    if child:
        host.close()
        folders.close()
        os.waitpid(child, 0)
        os._exit(0)
    return trees


def _write_maps(process: str, options: dict[str, Any]) -> None:
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", "%d %d 1" % (INSIDE, options["uid"])),
        ("gid_map", "%d %d 1" % (INSIDE, options["gid"])),
    ):
        with open("/proc/%s/%s" % (process, name), "w") as handle:
            handle.write(text)


def _serve(host: socket.socket, zygote: socket.socket, under_tmp: list[str]) -> None:
    """Make a seat for each session that the host asks for, and pass it on to the zygote."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    namespace = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    watch = select.poll()
    for line in (host, zygote):
        watch.register(line.fileno(), select.POLLIN)
    while True:
        if any(descriptor == zygote.fileno() for descriptor, _ in watch.poll()):
            os._exit(1)  # it never speaks to us: it is gone
        message, descriptors = messages.receive(host)
        if message is None:
            os._exit(0)
        if message.get("again"):  # another worker in a seat that is still there
            messages.send(zygote, message, descriptors)
        else:
            message["under_tmp"] = under_tmp
            _seat_session(host, zygote, message, descriptors, namespace)
        for descriptor in descriptors:
            os.close(descriptor)


def _seat_session(
    host: socket.socket, zygote: socket.socket, message: dict[str, Any], descriptors: list[int], namespace: int
) -> None:
    """Make the seat and hand everything to the zygote.

    The last descriptors (``groups`` of them) are the worker's: by writing to them it joins the session's cgroup.
    """
    own = len(descriptors) - message.get("groups", 0)
    *lines, control = descriptors[:7]
    given = descriptors[7:own]
    tree = given.pop(0) if "workspace" in message else -1
    try:
        seat, workspace = make_seat(message, control, tree, given, namespace)
    except OSError as exc:
        messages.send(host, {"failed": message["id"], "error": str(exc)})
        return
    messages.send(zygote, message, [*lines, seat, workspace, *descriptors[own:]])
    os.close(seat)
    os.close(workspace)
