"""The view: the files that exist for everything behind the jail. Read-only, by descriptor, and nothing else."""

from __future__ import annotations

import os
import stat

from cloche_guest.jail import syscalls
from cloche_guest.jail.places import HOME, MOUNT_BASES, PRIVATE, TEMPORARY, WORKSPACE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

STAGE = "/tmp"  # any folder that exists everywhere: what is mounted on it is seen in our mount namespace only

_READ_ONLY = syscalls.ATTR_RDONLY | syscalls.ATTR_NOSUID | syscalls.ATTR_NODEV
SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin", "/etc/alternatives", "/etc/fonts")
SYSTEM_FILES = ("/etc/ld.so.cache", "/etc/localtime")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_MADE_UP = {
    "/etc/passwd": "user:x:1000:1000:user:/app:/bin/sh\n",
    "/etc/group": "user:x:1000:\n",
    "/etc/hosts": "127.0.0.1 localhost\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}


def open_trees(paths: list[str]) -> list[tuple[str, int]]:
    """(path, descriptor) of every tree of the view. Opened while we still are who can read them."""
    opened = []
    for path in (*SYSTEM, *SYSTEM_FILES, *paths):
        if os.path.islink(path) and path in SYSTEM:
            continue  # made again as a link
        try:
            opened.append((path, os.open(path, os.O_PATH | os.O_CLOEXEC)))
        except FileNotFoundError:
            continue
    return without_nested(opened)


def without_nested(opened: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Trees that lie in others are part of them already."""
    kept: list[tuple[str, int]] = []
    for path, descriptor in sorted(opened):
        if any(path == other or path.startswith(other + "/") for other, _ in kept):
            os.close(descriptor)
        else:
            kept.append((path, descriptor))
    return kept


def build(trees: list[tuple[str, int]]) -> None:
    """Make the view and move into it. We are alone in a new mount namespace, with all rights over it."""
    syscalls.mount(None, "/", None, syscalls.MS_REC | syscalls.MS_PRIVATE)
    devices = [(path, os.open(path, os.O_PATH | os.O_CLOEXEC)) for path in DEVICES]
    links = [(path, os.readlink(path)) for path in SYSTEM if os.path.islink(path)]
    syscalls.mount("tmpfs", STAGE, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "size=4m,mode=755")
    for path, descriptor in trees:
        _place(path, descriptor, _READ_ONLY, recursive=True)
    for path, descriptor in devices:
        _place(path, descriptor, syscalls.ATTR_NOSUID | syscalls.ATTR_NOEXEC, recursive=False)
    for path, target in links:
        if not os.path.lexists(STAGE + path):
            os.symlink(target, STAGE + path)
    for path in ("/etc", "/proc", "/dev", WORKSPACE, PRIVATE, *MOUNT_BASES):
        os.makedirs(STAGE + path, 0o755, exist_ok=True)
    for path, text in _MADE_UP.items():
        with open(STAGE + path, "wb") as handle:  # bytes: a codec might have to be read from where we cannot any more
            handle.write(text.encode())
    os.symlink("/proc/self/fd", STAGE + "/dev/fd")
    os.symlink(TEMPORARY, STAGE + "/dev/shm")
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        os.symlink("/proc/self/fd/%d" % number, STAGE + "/dev/" + name)
    syscalls.mount("proc", STAGE + "/proc", "proc", syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC)
    if not os.path.lexists(STAGE + "/tmp"):  # an interpreter may lie there
        os.symlink(TEMPORARY, STAGE + "/tmp")
    _furnish_private("size=64m,mode=700", STAGE)  # for the zygote's imports; a seat has its own over it
    flags = syscalls.MS_BIND | syscalls.MS_REMOUNT | syscalls.MS_RDONLY | syscalls.MS_NOSUID | syscalls.MS_NODEV
    syscalls.mount(None, STAGE, None, flags)
    syscalls.pivot_root(STAGE)


def attach_mounts(targets: list[str], trees: list[int]) -> None:
    """In a seat's own mount namespace: folders and files of the host, each at its place. Where they need folders to
    lie in, those are made in memory, and cannot be changed afterwards."""
    made = []
    for target, tree in zip(targets, trees):
        base = "/" + target.split("/")[1]
        if target != base and base not in made:
            syscalls.mount("tmpfs", base, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "size=1m,mode=755")
            made.append(base)
        _make_mount_point(target, tree)
        syscalls.attach_tree(tree, target)
    for base in made:
        flags = syscalls.MS_BIND | syscalls.MS_REMOUNT | syscalls.MS_RDONLY | syscalls.MS_NOSUID | syscalls.MS_NODEV
        syscalls.mount(None, base, None, flags)


def _make_mount_point(target: str, place: int) -> None:
    """Something to mount on: a folder, or an empty file."""
    if stat.S_ISDIR(os.fstat(place).st_mode):
        os.makedirs(target, 0o755, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), 0o755, exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))


def _place(path: str, descriptor: int, attributes: int, *, recursive: bool) -> None:
    target = STAGE + path
    _make_mount_point(target, descriptor)
    tree = syscalls.clone_tree(descriptor, recursive=recursive)
    syscalls.set_mount_attributes(tree, attributes, recursive=recursive)
    syscalls.attach_tree(tree, target)
    os.close(tree)
    os.close(descriptor)


def _furnish_private(quota: str, below: str) -> None:
    syscalls.mount("tmpfs", below + PRIVATE, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, quota)
    os.mkdir(below + HOME, 0o700)
    os.mkdir(below + TEMPORARY, 0o700)


def _cover_tmp(quota: str, trees: list[str]) -> None:
    """Where parts of the view lie in /tmp: make it writable all the same, with those parts put back on top."""
    opened = [(path, os.open(path, os.O_PATH | os.O_CLOEXEC)) for path in trees]
    syscalls.mount("tmpfs", "/tmp", "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, quota)
    for path, descriptor in opened:
        os.makedirs(path, 0o755)
        tree = syscalls.clone_tree(descriptor, recursive=True)
        syscalls.attach_tree(tree, path)
        os.close(tree)
        os.close(descriptor)


def furnish_branch(options: dict[str, Any]) -> list[int]:
    """In a branch's own mount namespace: folders of its own over those of its parent, and its processes. Descriptors
    of its workspace and of its private folder."""
    plain = syscalls.MS_NOSUID | syscalls.MS_NODEV
    quota = "size=%d,nr_inodes=%d,mode=700" % (options["workspace_bytes"], options["workspace_files"])
    syscalls.mount("tmpfs", WORKSPACE, "tmpfs", plain, quota)
    syscalls.mount("tmpfs", PRIVATE, "tmpfs", plain, quota)
    if not os.path.islink("/tmp"):
        _cover_tmp(quota, options.get("under_tmp", []))
    syscalls.mount("proc", "/proc", "proc", plain | syscalls.MS_NOEXEC, "subset=pid,hidepid=ptraceable")
    return [os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) for path in (WORKSPACE, PRIVATE)]


def furnish_seat(options: dict[str, Any], tree: int) -> int:
    """In a seat's own mount namespace: its workspace (`tree`, when it was prepared), its temporary files, its
    processes. Returns the workspace's descriptor."""
    plain = syscalls.MS_NOSUID | syscalls.MS_NODEV
    quota = "size=%d,nr_inodes=%d,mode=700" % (options["workspace_bytes"], options["workspace_files"])
    if tree >= 0:
        syscalls.attach_tree(tree, WORKSPACE)
        os.close(tree)
    else:
        syscalls.mount("tmpfs", WORKSPACE, "tmpfs", plain, quota)
    _furnish_private(quota, "")
    if not os.path.islink("/tmp"):
        _cover_tmp(quota, options.get("under_tmp", []))
    # without those it may not look into: the command line of our PID 1 names places of the host
    syscalls.mount("proc", "/proc", "proc", plain | syscalls.MS_NOEXEC, "subset=pid,hidepid=ptraceable")
    return os.open(WORKSPACE, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
