"""Folders of the host that a workbench may look into, and nothing beside them.

The code inside may be able to write there (a root can be its workspace, or mounted). So a path is resolved first and
then walked from the root one component at a time, following nothing: a link that was put there in between fails.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeGuard

from cloche.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST_PATH = 4096
_ANY = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # and never waiting for a pipe
_FOLDER = _ANY | os.O_DIRECTORY


class Roots:
    """Some folders. They may lie in each other, be links, or not be there at all."""

    def __init__(self, folders: Iterable[str]) -> None:
        self.folders = list(dict.fromkeys(os.path.realpath(folder) for folder in folders))

    def resolve(self, path: Any) -> str:
        """The real path of something under a root. A relative one is looked for under each of them."""
        if not is_path(path):
            raise SourceError(
                "this is neither a handle nor a path",
                cause=f"{path!r:.80}",
                remedy="a source is never the text itself: leave it out to search the context",
            )
        tried = [path] if os.path.isabs(path) else [os.path.join(root, path) for root in self.folders]
        for candidate in tried:
            real = os.path.realpath(candidate)
            if self._root_of(real) is not None and os.path.exists(real):
                return real
        where = ", ".join(self.folders) or "none: REPLConfig(roots=[...]) names some"
        raise SourceError(f"there is no {path!r:.200} that may be seen", cause=f"the roots are {where}")

    def open(self, real: str) -> int:
        """A descriptor of what has this real path; OSError when it is not what it was."""
        root = self._root_of(real)
        if root is None:
            raise FileNotFoundError(2, "No such file or directory")
        *folders, last = [root, *(part for part in real[len(root) :].split("/") if part)]
        descriptor: int | None = None
        try:
            for part in folders:
                inner = os.open(part, _FOLDER, dir_fd=descriptor)
                if descriptor is not None:
                    os.close(descriptor)
                descriptor = inner
            return os.open(last, _ANY, dir_fd=descriptor)
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def _root_of(self, real: str) -> str | None:
        return next((root for root in self.folders if real == root or real.startswith(root.rstrip("/") + "/")), None)


def is_path(given: Any) -> TypeGuard[str]:
    """Whether a file could have such a name."""
    if not isinstance(given, str) or "\0" in given or len(given) > LONGEST_PATH:
        return False
    try:
        os.fsencode(given)  # of lone surrogates, only those that stand for a byte
    except UnicodeEncodeError:
        return False
    return True
