"""Which files of a folder a request has made or changed."""

from __future__ import annotations

import posix as _os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST_ENTRIES = 20_000
MOST_NAMED = 1000
PASSED_OVER = ("__pycache__",)


class Folder:
    """Plain files below a folder, links not followed, as far as `MOST_ENTRIES`."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._known: dict[str, tuple[int, ...]] = {}

    def look(self) -> None:
        """Remember how things are."""
        self._known = self._scan()

    def changes(self) -> list[str]:
        """Paths of what was made or changed since the last look, relative, sorted."""
        found = self._scan()
        names = sorted(path for path, mark in found.items() if self._known.get(path) != mark)
        self._known = found
        return names[:MOST_NAMED]

    def _scan(self) -> dict[str, tuple[int, ...]]:
        found: dict[str, tuple[int, ...]] = {}
        pending, seen = [""], 0
        while pending:
            folder = pending.pop()
            try:
                entries: Any = _os.scandir(self._path + "/" + folder)
                with entries:
                    for entry in entries:
                        seen += 1
                        if seen > MOST_ENTRIES:
                            return found
                        if entry.is_dir(follow_symlinks=False):
                            if entry.name not in PASSED_OVER:
                                pending.append(folder + entry.name + "/")
                        elif entry.is_file(follow_symlinks=False):
                            status = entry.stat(follow_symlinks=False)
                            found[folder + entry.name] = (
                                status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
                            )  # fmt: skip
            except OSError:  # it has gone, or may not be read: then there is nothing to be told of it
                continue
        return found
