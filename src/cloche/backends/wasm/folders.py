"""Folders that a guest is given, opened by descriptor: no name that a guest can write decides what the host opens.

A path is resolved once, before the first guest of its sandbox runs. From then on it is walked from the root of the
file system, one component at a time and through no link, whenever a guest is started again.
"""

from __future__ import annotations

import errno
import os
from contextlib import ExitStack
from dataclasses import dataclass

from cloche.errors import StartError
from cloche.host.guest_files import open_without_links


@dataclass(frozen=True, slots=True)
class GuestFolder:
    """One folder of the host, and what the guest knows it as."""

    path: str
    """Where it is, without a link on the way; what became one since is refused."""
    name: str
    writable: bool

    def open(self) -> int:
        """A descriptor of the folder. Raises `StartError` where the path leads through a link, or to no folder."""
        try:
            return open_without_links(self.path)
        except OSError as exc:
            if exc.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES):
                raise  # nothing that the path could be blamed for
            raise StartError(
                f"{self.path} cannot be the guest's {self.name}",
                cause="links are not followed" if exc.errno in (errno.ENOTDIR, errno.ELOOP) else os.strerror(exc.errno),
                remedy="make it a folder again, or start another session",
            ) from None


def open_all(folders: tuple[GuestFolder, ...], stack: ExitStack) -> list[int]:
    """Descriptors of all of them, which `stack` closes."""
    found = []
    for folder in folders:
        found.append(folder.open())
        stack.callback(os.close, found[-1])
    return found


def resolve(path: str, workspace: str) -> str:
    """Where a path that the user named leads. Below the workspace every name is a guest's, and none is resolved."""
    root = os.stat(workspace)
    head, inner = path, ""
    while True:
        try:
            if os.path.samestat(os.stat(head), root):
                return os.path.join(os.path.realpath(head), inner)
        except OSError:
            pass  # nothing there, or a link to nothing: no workspace
        above, name = os.path.split(head)
        if above == head:
            return os.path.realpath(path)
        head, inner = above, os.path.join(name, inner)
