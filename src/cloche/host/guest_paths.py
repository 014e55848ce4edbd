"""Paths of a workspace as text: which may be asked for, and what to say of those that the system refused.

`guest_files` then walks them, one component at a time.
"""

from __future__ import annotations

import errno
import os
from pathlib import PurePath

from cloche.errors import WorkspaceFileError
from cloche.host.guest_files import FileTooLargeError, NotPlainFileError

MAX_DEPTH = 64


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


def refusal(path: str, exc: OSError) -> WorkspaceFileError:
    """What the system said of a path, for the caller who gave it."""
    if isinstance(exc, FileTooLargeError):
        if exc.size > exc.limit:
            return WorkspaceFileError(f"{path} has {exc.size} bytes; the limit is {exc.limit}")
        return WorkspaceFileError(f"{path} grew over the limit of {exc.limit} bytes while it was read")
    if isinstance(exc, NotPlainFileError):
        return WorkspaceFileError(f"{path} is not a plain file")
    if exc.errno == errno.ENOENT:
        return WorkspaceFileError(f"{path} does not exist")
    if exc.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENXIO):
        return WorkspaceFileError(f"{path} is not a plain file", cause="links are not followed")
    return WorkspaceFileError(f"{path}: {os.strerror(exc.errno or 0)}")
