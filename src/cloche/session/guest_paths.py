"""Paths in a folder in which every name is the guest's: checked as text, then walked one component at a time.

Each step goes from the descriptor of the last, so that a name which becomes a link meanwhile leads nowhere.
"""

from __future__ import annotations

import errno
import os
from pathlib import PurePath
from typing import TYPE_CHECKING

from cloche.errors import WorkspaceFileError

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_DEPTH = 64
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def path_text(path: str | os.PathLike[str]) -> str:
    """A path of the workspace as the guest would write it."""
    text = path.as_posix() if isinstance(path, PurePath) else path
    if not isinstance(text, str):
        raise WorkspaceFileError(
            f"a path of the workspace must be text, not {type(path).__name__}",
            remedy="use a relative path such as data/in.csv",
        )
    return text


def components(path: str) -> list[str]:
    """The names on the way to a file of the workspace. Raises for what leads out of it."""
    path = path.removeprefix("/app/")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if path.startswith("/") or ".." in parts or not parts or not _is_name(path) or len(parts) > MAX_DEPTH:
        raise WorkspaceFileError(
            f"{path!r} is not a path inside the workspace", remedy="use a relative path such as data/in.csv"
        )
    return parts


def _is_name(path: str) -> bool:
    """Whether a file system could have such a name at all."""
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:  # a surrogate that stands for no byte
        return False


def descend(folder: int, names: Iterable[str], *, create: bool = False) -> int:
    """The folder that these names lead to. Closes the descriptor that it is given, also when it fails (`OSError`)."""
    for name in names:
        try:
            try:
                inner = os.open(name, FOLDER, dir_fd=folder)
            except FileNotFoundError:
                if not create:
                    raise
                os.mkdir(name, 0o755, dir_fd=folder)
                inner = os.open(name, FOLDER, dir_fd=folder)
        finally:
            os.close(folder)
        folder = inner
    return folder


def refusal(path: str, exc: OSError) -> WorkspaceFileError:
    """What the system said of a path, for whoever gave it."""
    if exc.errno == errno.ENOENT:
        return WorkspaceFileError(f"{path} does not exist")
    if exc.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENXIO):
        return WorkspaceFileError(f"{path} is not a plain file", cause="links are not followed")
    return WorkspaceFileError(f"{path}: {os.strerror(exc.errno or 0)}")
