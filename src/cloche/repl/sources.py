"""Texts that can be looked at: the context, stored outputs, and files under the roots. Named by handle or by path."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

from cloche.errors import SourceError, WorkspaceFileError
from cloche.repl.searching import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cloche.session.workspace import Workspace

CONTEXT = "context"
GUEST_WORKSPACE = "/app"
HANDLE = re.compile(r"out:(\d{1,9})")
MOST_OF_A_FILE = 1 << 30
KEPT = 8
"""Files whose text is kept while they do not change."""


class Source:
    """One text."""

    def __init__(self, label: str, text: str) -> None:
        self.label = label
        self.text = text
        self._searchable: Text | None = None

    @property
    def searchable(self) -> Text:
        """As bytes, made once."""
        if self._searchable is None:
            self._searchable = Text(self.text)
        return self._searchable

    def lines(self, first: int, last: int) -> str:
        """Lines by number, from 1, both ends included."""
        return self.searchable.lines(max(first, 1), last)


class Sources:
    """What one workbench may look at."""

    def __init__(self, roots: Iterable[str], stored: Callable[[int], str | None]) -> None:
        """`stored` gives a stored output by its number."""
        self.roots = [os.path.realpath(root) for root in roots]
        self.workspace: Callable[[], Workspace] | None = None
        """The files of the session, which belong to the code inside: nothing there is opened by its path."""
        self._stored = stored
        self._context: Source | None = None
        self._files: dict[str, tuple[tuple[int, int], Source]] = {}

    def set_context(self, context: Any) -> None:
        """The text that is meant when none is named."""
        self._context = None if context is None else Source(CONTEXT, as_text(context))

    @property
    def context(self) -> Source:
        """The context as text."""
        if self._context is None:
            raise SourceError("there is no context", remedy="name a source, such as 'out:1' or a path under a root")
        return self._context

    def find(self, name: Any) -> Source:
        """The text with this handle or path."""
        if name is None:
            return self.context
        if not isinstance(name, str):
            raise SourceError(
                f"a source is a handle or a path, not {type(name).__name__}",
                remedy="leave it out for the context, or name 'out:N' or a path under a root",
            )
        if name == CONTEXT:
            return self.context
        handle = HANDLE.fullmatch(name)
        if handle:
            return self._output(name, int(handle[1]))
        inside = self.in_workspace(name)
        return self._file(name) if inside is None else Source(name, inside.decode("utf-8", "replace"))

    def knows(self, name: Any) -> bool:
        """Whether this is the name of a text."""
        if not isinstance(name, str):
            return False
        if name == CONTEXT or HANDLE.fullmatch(name):
            return True
        try:
            if self.in_workspace(name) is not None:
                return True
            return os.path.isfile(self.resolve(name))
        except SourceError:
            return False

    def is_file(self, name: str) -> bool:
        """Whether this names a file, and not the context or a stored output."""
        return name != CONTEXT and HANDLE.fullmatch(name) is None and self.knows(name)

    def resolve(self, path: Any) -> str:
        """The real path of something under a root."""
        if not isinstance(path, str | os.PathLike) or "\0" in os.fspath(path) or len(os.fspath(path)) > 4096:
            raise SourceError(
                "this is neither a handle nor a path",
                cause=f"{path!r:.80}",
                remedy="a source is never the text itself: leave it out to search the context",
            )
        given = os.fspath(path)
        tried = [given] if os.path.isabs(given) else [os.path.join(root, given) for root in self.roots]
        for candidate in tried:
            real = os.path.realpath(candidate)
            if any(real == root or real.startswith(root.rstrip("/") + "/") for root in self.roots):
                if os.path.exists(real):
                    return real
                continue
        where = ", ".join(self.roots) or "none: REPLConfig(roots=[...]) names some"
        raise SourceError(f"there is no {given!r:.200} that may be seen", cause=f"the roots are {where}")

    def in_workspace(self, path: Any) -> bytes | None:
        """A file of the session, by the path that the code inside gives it; None when there is none."""
        relative = self.workspace_path(path)
        if relative is None or self.workspace is None:
            return None
        try:
            return self.workspace().read(relative, MOST_OF_A_FILE)
        except WorkspaceFileError:
            return None

    def workspace_path(self, path: Any) -> str | None:
        """A path relative to the workspace; None when it leads elsewhere."""
        if self.workspace is None or not isinstance(path, str) or "\0" in path or len(path) > 4096:
            return None
        for base in (GUEST_WORKSPACE, str(self.workspace().root)):
            if path == base or path.startswith(base + "/"):
                return path[len(base) + 1 :]
        return None if path.startswith("/") else path

    def _output(self, name: str, number: int) -> Source:
        text = self._stored(number)
        if text is None:
            raise SourceError(f"there is no stored output {name}", cause="it was never made, or had to give way")
        return Source(name, text)

    def _file(self, name: str) -> Source:
        path = self.resolve(name)
        try:
            with open(path, "rb", opener=_open_plain) as handle:
                status = os.fstat(handle.fileno())
                if status.st_size > MOST_OF_A_FILE:
                    raise SourceError(f"{name} has {status.st_size} bytes; {MOST_OF_A_FILE} can be looked at")
                mark = (status.st_mtime_ns, status.st_size)
                kept = self._files.get(path)
                if kept is not None and kept[0] == mark:
                    return kept[1]
                source = Source(name, handle.read().decode("utf-8", "replace"))
        except OSError as exc:
            raise SourceError(f"{name} cannot be read", cause=exc.strerror) from None
        self._files[path] = (mark, source)
        while len(self._files) > KEPT:
            del self._files[next(iter(self._files))]
        return source


def as_text(context: Any) -> str:
    """A context of any kind as it is looked at."""
    if isinstance(context, str):
        return context
    if isinstance(context, bytes | bytearray):
        return bytes(context).decode("utf-8", "replace")
    if isinstance(context, list | tuple) and all(isinstance(item, str) for item in context):
        return "\n".join(context)
    try:
        return json.dumps(context, ensure_ascii=False, indent=1, default=str)
    except (TypeError, ValueError, RecursionError):
        return str(context)


def _open_plain(path: str, flags: int) -> int:
    """Not through a link that was put there meanwhile, and never waiting for a pipe."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
