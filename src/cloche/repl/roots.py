"""Folders of the host that a workbench may look into, and nothing beside them.

The code inside may be able to write there (a root can be its workspace, or mounted). So a path is resolved first and
then walked from the root one component at a time, following nothing: a link that was put there in between fails.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeGuard

from cloche.errors import SourceError
from cloche.host import guest_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LONGEST_PATH = 4096


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
            if self._root_of(real) is not None and self._is_there(real):
                return real
        where = ", ".join(self.folders) or "none: REPLConfig(roots=[...]) names some"
        raise SourceError(f"there is no {path!r:.200} that may be seen", cause=f"the roots are {where}")

    def open(self, real: str) -> int:
        """A descriptor of the plain file that has this real path; OSError when it is not what it was."""
        with self._parent(real) as (folder, name):
            return guest_files.open_file(name, folder)

    def entries(self, real: str, most: int) -> list[tuple[str, os.stat_result]]:
        """The first names in the folder that has this real path."""
        root, names = self._split(real)
        with self._inside(root, names) as folder:
            return list(guest_files.entries(folder, most))

    def status(self, real: str) -> os.stat_result:
        """Of the file or folder that has this real path."""
        with self._parent(real) as (folder, name):
            return guest_files.status(name, folder)

    @contextmanager
    def _parent(self, real: str) -> Iterator[tuple[int, str]]:
        """(descriptor of the folder that holds it, its name there)."""
        root, names = self._split(real)
        *folders, name = names or ["."]
        with self._inside(root, folders) as folder:
            yield folder, name

    def _split(self, real: str) -> tuple[str, list[str]]:
        root = self._root_of(real)
        if root is None:
            raise FileNotFoundError(2, "No such file or directory")
        return root, [part for part in real[len(root) :].split("/") if part]

    @staticmethod
    @contextmanager
    def _inside(root: str, names: list[str]) -> Iterator[int]:
        folder = guest_files.descend(guest_files.open_folder(root), names)
        try:
            yield folder
        finally:
            os.close(folder)

    def _is_there(self, real: str) -> bool:
        try:
            self.status(real)
        except OSError:
            return False
        return True

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
