"""Folders and files of the host that a policy gives to sessions: what may be given, and where it may lie."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cloche.errors import PolicyError
from cloche_guest.jail.places import MOUNT_BASES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cloche.policy import Mount

MOST = 16
_NOT_FILES = ("/proc", "/sys", "/dev")
"""What lies there speaks for the host's kernel, not for files that somebody would share."""


@dataclass(frozen=True, slots=True)
class Place:
    """Something of the host, by the path that leads to it without links, and by what it is: a link that is put on the
    way after we looked leads to something else, and is noticed."""

    path: str
    device: int
    inode: int

    @classmethod
    def of(cls, path: str) -> Place:
        """Where a path leads now."""
        real = os.path.realpath(path)
        status = os.stat(real)
        return cls(real, status.st_dev, status.st_ino)


def check_mounts(mounts: Iterable[Mount], view: Iterable[str]) -> None:
    """Refuse what cannot be given, before anything is started. `view`: trees that sessions see anyway."""
    mounts, view = tuple(mounts), tuple(view)
    if len(mounts) > MOST:
        raise PolicyError(f"policy.mounts holds {len(mounts)}; at most {MOST} can be given", field="mounts")
    for mount in mounts:
        _check_source(mount)
        _check_target(mount, view)


def _check_source(mount: Mount) -> None:
    try:
        real = os.path.realpath(mount.source)
        kind = os.stat(real).st_mode
    except OSError as exc:
        raise PolicyError(
            f"policy.mounts: {mount.source} cannot be given",
            field="mounts",
            cause=os.strerror(exc.errno or 0),
            remedy=f"mkdir -p {mount.source}, or correct the path",
        ) from None
    if not stat.S_ISDIR(kind) and not stat.S_ISREG(kind):
        raise PolicyError(f"policy.mounts: {mount.source} is neither a folder nor a plain file", field="mounts")
    if real == "/" or any(_lies_in(real, place) for place in _NOT_FILES):
        raise PolicyError(
            f"policy.mounts: {mount.source} is not given to any session",
            field="mounts",
            cause="it holds the host itself",
            remedy="give the folder that is needed",
        )


def _check_target(mount: Mount, view: tuple[str, ...]) -> None:
    base = next((base for base in MOUNT_BASES if _lies_in(mount.target, base)), None)
    if base is None:
        raise PolicyError(
            f"policy.mounts: nothing can be mounted at {mount.target}",
            field="mounts",
            cause="that is a place of the view",
            remedy=f"choose a path at or below {', '.join(MOUNT_BASES)}",
        )
    hidden = next((tree for tree in view if _lies_in(tree, base)), None)
    if hidden is not None:
        raise PolicyError(
            f"policy.mounts: nothing can be mounted at {mount.target}",
            field="mounts",
            cause=f"it would hide {hidden}, which the interpreter needs",
            remedy=f"choose a path below another of {', '.join(MOUNT_BASES)}",
        )


def _lies_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")
