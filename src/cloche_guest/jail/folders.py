"""Folders of the host that are given to a jail: prepared outside of its view, where they still exist.

Where root starts the jail, the guest's user owns nothing on the host. Such a folder is mounted with its owner mapped
to that user: inside, the files are the guest's; on disk, what it makes belongs to the folder's owner.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import stat

from cloche_guest.jail import messages, syscalls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable


def serve_folders(line: socket.socket, child: int, bind: Callable[[dict[str, Any]], int]) -> None:
    """Until the jail's own process ends or the host goes away. Never returns."""
    watch = select.poll()
    end = syscalls.pidfd_open(child)
    watch.register(end, select.POLLIN)
    watch.register(line.fileno(), select.POLLIN)
    while True:
        if any(descriptor == end for descriptor, _ in watch.poll()):
            _, status = os.waitpid(child, 0)
            os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 1)
        message, _ = messages.receive(line)
        if message is None:
            watch.unregister(line.fileno())
            continue
        try:
            tree = bind(message)
        except OSError as exc:
            messages.send(line, {"error": str(exc)})
        else:
            messages.send(line, {"ready": True}, [tree])
            os.close(tree)


def bind_folder(request: dict[str, Any]) -> int:
    """A detached mount of the folder, as it is: it belongs to whoever the guest is outside."""
    folder = _open(request)
    try:
        tree = syscalls.clone_tree(folder, recursive=True)
    finally:
        os.close(folder)
    try:
        syscalls.set_mount_attributes(tree, _attributes(request), recursive=True)
    except OSError:
        os.close(tree)
        raise
    return tree


def bind_for_user(request: dict[str, Any], uid: int, gid: int) -> int:
    """A detached mount of the folder, its owner mapped to the guest's user."""
    folder = _open(request)
    try:
        status = os.fstat(folder)
        tree = syscalls.clone_tree(folder, recursive=False)
    finally:
        os.close(folder)
    users = _user_namespace("%d %d 1" % (status.st_uid, uid), "%d %d 1" % (status.st_gid, gid))
    try:
        attributes = _attributes(request) | syscalls.ATTR_IDMAP
        syscalls.set_mount_attributes(tree, attributes, recursive=False, users=users)
    except OSError:
        os.close(tree)
        raise
    finally:
        os.close(users)
    return tree


def _open(request: dict[str, Any]) -> int:
    """The folder (or plain file) that the host has looked at: on the way to it a link may have been put since."""
    place = os.open(request["folder"], os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    status = os.fstat(place)
    if (status.st_dev, status.st_ino) != (request["device"], request["inode"]):
        os.close(place)
        raise OSError(errno.ESTALE, "it was replaced meanwhile")
    if not stat.S_ISDIR(status.st_mode) and not stat.S_ISREG(status.st_mode):
        os.close(place)
        raise OSError(errno.EINVAL, "neither a folder nor a plain file")
    return place


def _attributes(request: dict[str, Any]) -> int:
    plain = syscalls.ATTR_NOSUID | syscalls.ATTR_NODEV
    return plain | syscalls.ATTR_RDONLY if request.get("read_only") else plain


def _user_namespace(uid_map: str, gid_map: str) -> int:
    """A namespace that exists for its maps alone."""
    ready_read, ready_write = os.pipe()
    done_read, done_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(done_write)
            syscalls.unshare(syscalls.CLONE_NEWUSER)
            os.write(ready_write, b"u")
            os.read(done_read, 1)
        finally:
            os._exit(0)
    os.close(done_read)
    os.close(ready_write)
    try:
        if not os.read(ready_read, 1):
            raise OSError(1, "no user namespace for the folder")
        for name, text in (("uid_map", uid_map), ("gid_map", gid_map)):
            with open("/proc/%d/%s" % (pid, name), "w") as handle:
                handle.write(text)
        return os.open("/proc/%d/ns/user" % pid, os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(ready_read)
        os.close(done_write)
        os.waitpid(pid, 0)
