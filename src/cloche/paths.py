"""Where Cloche keeps things on this machine: a cache per user, what is to last, and one folder per live session."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from cloche.errors import MachineError

PASSABLE = 0o711
"""Of a folder in which others can see nothing, but through which they can go to what they know by name."""

_VARIABLES = "CLOCHE_SESSIONS_DIR / CLOCHE_CACHE_DIR / CLOCHE_STATE_DIR"


def cache_dir() -> Path:
    """Compiled guests and what was found out about interpreters. Safe to delete."""
    named = os.environ.get("CLOCHE_CACHE_DIR")
    if named:
        return private_folder(Path(named))
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return private_folder(Path(base) / "cloche")


def state_dir() -> Path:
    """What is to last: saved sessions. Not safe to delete."""
    named = os.environ.get("CLOCHE_STATE_DIR")
    if named:
        return private_folder(Path(named))
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return private_folder(Path(base) / "cloche")


def sessions_dir() -> Path:
    """Folders of live sessions; what a crash left here is removed by ``cloche clean``."""
    named = os.environ.get("CLOCHE_SESSIONS_DIR")
    if named:
        return private_folder(Path(named))
    owner = os.getuid() if hasattr(os, "getuid") else "user"
    return private_folder(Path(tempfile.gettempdir()) / f"cloche-{owner}")


def outputs_dir() -> Path:
    """Long outputs of workbenches. What a crash left here goes when the next one is stored."""
    owner = os.getuid() if hasattr(os, "getuid") else "user"
    return private_folder(Path(tempfile.gettempdir()) / f"cloche-outputs-{owner}")


def private_folder(path: Path) -> Path:
    """`path` as a folder whose contents only we can see. One that belongs to somebody else is refused.

    Others may have been let pass through it, to a folder in it that is theirs.
    """
    try:
        status = path.lstat()
    except FileNotFoundError:
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as exc:
            raise MachineError(
                f"{path} cannot be made",
                cause=exc.strerror,
                remedy=f"set {_VARIABLES} to a folder of your own",
            ) from None
        status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or (hasattr(os, "getuid") and status.st_uid != os.getuid()):
        raise MachineError(
            f"{path} is not a folder of ours",
            cause="somebody else made it first; using it could expose sessions to them",
            remedy=f"remove it, or set {_VARIABLES} to a folder of your own",
        )
    if status.st_mode & 0o077 and stat.S_IMODE(status.st_mode) != PASSABLE:
        path.chmod(0o700)
    return path
