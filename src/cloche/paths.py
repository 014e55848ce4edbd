"""Where Cloche keeps things on this machine: a cache per user, what is to last, and one folder per live session."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from cloche.errors import MachineError

PASSABLE = 0o711
"""Of a folder in which others can see nothing, but through which they can go to what they know by name."""


def cache_dir() -> Path:
    """Compiled guests and what was found out about interpreters. Safe to delete."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return _chosen("CLOCHE_CACHE_DIR", Path(base) / "cloche")


def state_dir() -> Path:
    """What is to last: saved sessions. Not safe to delete."""
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return _chosen("CLOCHE_STATE_DIR", Path(base) / "cloche")


def sessions_dir() -> Path:
    """Folders of live sessions; what a crash left here is removed by ``cloche clean``."""
    owner = os.getuid() if hasattr(os, "getuid") else "user"
    return _chosen("CLOCHE_SESSIONS_DIR", Path(tempfile.gettempdir()) / f"cloche-{owner}")


def outputs_dir() -> Path:
    """Long outputs of workbenches. What a crash left here goes when the next one is stored."""
    owner = os.getuid() if hasattr(os, "getuid") else "user"
    return private_folder(Path(tempfile.gettempdir()) / f"cloche-outputs-{owner}", variable="TMPDIR")


def _chosen(variable: str, usual: Path) -> Path:
    named = os.environ.get(variable)
    return private_folder(Path(named) if named else usual, variable=variable, foreign=bool(named))


def private_folder(path: Path, *, variable: str | None = None, foreign: bool = False, leaf: str = "") -> Path:
    """`path` as a folder whose contents only we can see. One that belongs to somebody else is refused.

    Others may have been let pass through it, to a folder in it that is theirs. A `foreign` one has a name that is not
    ours: where others can enter it and something is in it (``/``, ``/tmp``, a project), it is left as it is and
    refused, since others may need to enter it. `variable` is what names another folder, or a `leaf` in it.
    """
    wanted = "a path in a folder of your own" if leaf else "a folder of your own"
    elsewhere = f"set {variable} to {wanted}" if variable else f"choose {wanted}"
    try:
        status = _status_of(path)
        if not stat.S_ISDIR(status.st_mode) or (hasattr(os, "getuid") and status.st_uid != os.getuid()):
            raise MachineError(
                f"{path} is not a folder of ours",
                cause="somebody else made it first; using it could expose sessions to them",
                remedy=f"remove it, or {elsewhere}",
            )
        if status.st_mode & 0o077 and stat.S_IMODE(status.st_mode) != PASSABLE:
            if foreign and any(path.iterdir()):
                raise MachineError(
                    f"{path} is open to others",
                    cause="what Cloche keeps there is for you alone, and something else is in it",
                    remedy=f"{elsewhere}, such as {path / 'cloche' / leaf}; or chmod 700 {path}",
                )
            path.chmod(0o700)
    except OSError as exc:
        raise MachineError(f"{path} cannot be used", cause=exc.strerror, remedy=elsewhere) from None
    return path


def _status_of(path: Path) -> os.stat_result:
    try:
        return path.lstat()
    except FileNotFoundError:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return path.lstat()
