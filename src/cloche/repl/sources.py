"""Texts that can be looked at: the context, stored outputs, and files under the roots. Named by handle or by path."""

from __future__ import annotations

import codecs
import json
import os
import re
import stat
import threading
import time
from typing import TYPE_CHECKING, Any, TypeAlias

from cloche.errors import SourceError, WorkspaceFileError
from cloche.host import guest_files
from cloche.repl.redaction import Place, cut_out, find_private_keys, mask
from cloche.repl.roots import Roots, is_path
from cloche.repl.searching import Text
from cloche.repl.secret_kinds import PRIVATE_KEY
from cloche.repl.text import CutOut, slice_text
from cloche_guest.values import RemoteObject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cloche.session.workspace import Workspace

CONTEXT = "context"
GUEST_WORKSPACE = "/app"
HANDLE = re.compile(r"out:(\d{1,9})")
MOST_OF_A_FILE = 1 << 30
CLOCK_GRAIN = 50_000_000  # ns; coarser than any file system's clock here
KEPT, KEPT_BYTES = 8, 1 << 28
"""Files whose text is kept while they do not change, and how much of it at most."""
Mark: TypeAlias = tuple[int, int, int, int]


class Source:
    """One text. `masked`: a part of a secret, which nobody could know for what it is, is not given out."""

    def __init__(self, label: str, text: str, *, masked: bool = True) -> None:
        self.label = label
        self.text = text
        self._masked = masked
        self._searchable: Text | None = None
        self._keys: list[Place] | None = None if masked else []
        self._making = threading.Lock()

    @property
    def searchable(self) -> Text:
        """As bytes, made once: eight searches at a time are not to make eight copies of a hundred megabytes."""
        with self._making:
            if self._searchable is None:
                self._searchable = Text(self.text)
            return self._searchable

    def piece(self, start: int, stop: int) -> str:
        """Characters from `start` up to `stop`."""
        for key in self._private_keys:
            if key.start < start < key.end:
                return mask(key.kind) + self.cut_out(self.text, key.end, max(key.end, stop)) if start < stop else ""
        return self.cut_out(self.text, start, stop)

    @property
    def cut_out(self) -> CutOut:
        """How a part is taken out of a line."""
        return cut_out if self._masked else slice_text

    def lines(self, first: int, last: int) -> str:
        """Lines by number, from 1, both ends included."""
        text = self.searchable
        last = min(last, text.line_count)
        for begin, end, hidden in self.hidden_lines():
            if begin < first <= min(end, last):
                rest = self.lines(end + 1, last) if end < last else ""
                return f"{hidden}\n{rest}" if rest else hidden
        return text.lines(max(first, 1), last).replace("\r\n", "\n")

    def hidden_lines(self) -> list[tuple[int, int, str]]:
        """(first, last, what is shown in their place): the lines of private keys."""
        text = self.searchable
        keys = [(text.byte_at(key.start), text.byte_at(key.end - 1)) for key in self._private_keys]
        return [(text.line_at(start), text.line_at(end), mask(PRIVATE_KEY.name)) for start, end in keys]

    @property
    def _private_keys(self) -> list[Place]:
        if self._keys is None:
            self._keys = find_private_keys(self.text)
        return self._keys


class Sources:
    """What one workbench may look at."""

    def __init__(
        self,
        roots: Iterable[str],
        stored: Callable[[int], str | None],
        number_of: Callable[[str], int | None] = lambda _: None,
        *,
        masked: bool = True,
    ) -> None:
        """`stored` gives a stored output by its number, `number_of` the number of one by the path of its file."""
        self.roots = Roots(roots)
        self.workspace: Callable[[], Workspace] | None = None
        """The files of the session, which belong to the code inside: nothing there is opened by its path."""
        self.context_is_text = False
        """The code inside has the very same text."""
        self._stored = stored
        self._masked = masked
        self._number_of = number_of
        self._lock = threading.Lock()  # for what is kept
        self._context: Source | None = None
        self._files: dict[str, tuple[Mark, Source]] = {}

    def set_context(self, context: Any) -> None:
        """The text that is meant when none is named."""
        self.context_is_text = isinstance(context, str)
        self._context = None if context is None else self._source(CONTEXT, as_text(context))

    @property
    def context(self) -> Source:
        """The context as text."""
        if self._context is None:
            raise SourceError("there is no context", remedy="name a source, such as 'out:1' or a path under a root")
        return self._context

    @property
    def has_text(self) -> bool:
        """Whether there is a context, and something in it."""
        return self._context is not None and self._context.text != ""

    def find(self, name: Any) -> Source:
        """The text with this handle or path."""
        if name is None:
            return self.context
        if not isinstance(name, str):
            kind = name.type if isinstance(name, RemoteObject) else type(name).__name__
            raise SourceError(
                f"a source is a handle or a path, not {kind}",
                remedy="leave it out for the context, or name 'out:N' or a path under a root",
            )
        if name == CONTEXT:
            return self.context
        number = self._output_number(name)
        if number is not None:
            return self._output(name, number)
        status = self.workspace_status(name)
        if status is None or not stat.S_ISREG(status.st_mode):
            return self._file(name, also_there=status is not None)
        return self._workspace_file(name, status)

    def knows(self, name: Any) -> bool:
        """Whether this is the name of a text."""
        if not isinstance(name, str):
            return False
        if self.is_handle(name):
            return True
        try:
            status = self.workspace_status(name)
            if status is not None and stat.S_ISREG(status.st_mode):
                return True
            return stat.S_ISREG(self.roots.status(self.roots.resolve(name)).st_mode)
        except (SourceError, OSError):
            return False

    def is_handle(self, name: str) -> bool:
        """Whether this names the context or a stored output, which no code can change, and no file can be named."""
        return name == CONTEXT or self._output_number(name) is not None

    def _output_number(self, name: str) -> int | None:
        """Of a stored output, by its handle or by the path of its file."""
        handle = HANDLE.fullmatch(name)
        return int(handle[1]) if handle else self._number_of(name)

    def workspace_status(self, path: Any) -> os.stat_result | None:
        """Of something in the session, by the path that the code inside gives it; None when there is none."""
        relative = self.workspace_path(path)
        if relative is None or self.workspace is None:
            return None
        try:
            return self.workspace().status(relative)
        except WorkspaceFileError:
            return None

    def workspace_path(self, path: Any) -> str | None:
        """A path relative to the workspace, "." for itself; None when it leads elsewhere."""
        if self.workspace is None or not is_path(path):
            return None
        relative = None if path.startswith("/") else path
        for base in (GUEST_WORKSPACE, str(self.workspace().root)):
            if path == base or path.startswith(base + "/"):
                relative = path[len(base) + 1 :]
        if relative is None:
            return None
        relative = os.path.normpath(relative or ".")  # no link is followed there, so that this is what it says
        return None if relative.split("/")[0] == ".." else relative

    def _workspace_file(self, name: str, status: os.stat_result) -> Source:
        assert self.workspace is not None
        relative, mark = self.workspace_path(name) or "", _mark(status)
        # A name that no file under a root has.
        key = f"workspace:{relative}"
        kept = self._kept(key, mark)
        if kept is not None:
            return kept
        try:
            data = self.workspace().read(relative, MOST_OF_A_FILE)
        except WorkspaceFileError as exc:
            raise SourceError(f"{name!r:.200} cannot be read", cause=str(exc)[:200]) from None
        source = self._source(name, text_of(data))
        after = self.workspace_status(name)
        if after is not None and _mark(after) == mark:
            self._keep(key, mark, source)
        return source

    def _output(self, name: str, number: int) -> Source:
        text = self._stored(number)
        if text is None:
            raise SourceError(f"there is no stored output {name}", cause="it was never made, or had to give way")
        return self._source(name, text)

    def _source(self, name: str, text: str) -> Source:
        return Source(name, text, masked=self._masked)

    def _file(self, name: str, *, also_there: bool) -> Source:
        try:
            path = self.roots.resolve(name)
        except SourceError:
            if also_there:
                raise SourceError(f"{name!r:.200} is not a plain file", remedy="list_dir(path) shows folders") from None
            raise
        try:
            descriptor = self.roots.open(path)
        except guest_files.NotPlainFileError:
            raise SourceError(f"{name!r:.200} is not a plain file") from None
        except OSError as exc:
            raise SourceError(f"{name!r:.200} cannot be read", cause=exc.strerror) from None
        try:
            status = os.fstat(descriptor)
            mark = _mark(status)
            kept = self._kept(path, mark)
            if kept is not None:
                return kept
            data = guest_files.read_open_file(descriptor, MOST_OF_A_FILE)
            whole = status.st_size == len(data) and _mark(os.fstat(descriptor)) == mark
        except guest_files.FileTooLargeError:
            raise SourceError(f"{name!r:.200} has more than the {MOST_OF_A_FILE} bytes that can be looked at") from None
        except OSError as exc:
            raise SourceError(f"{name!r:.200} cannot be read", cause=exc.strerror) from None
        finally:
            os.close(descriptor)
        source = self._source(name, text_of(data))
        if whole:  # what changed while it was read is read again the next time
            self._keep(path, mark, source)
        return source

    def _kept(self, path: str, mark: Mark) -> Source | None:
        with self._lock:
            kept = self._files.get(path)
        return kept[1] if kept is not None and kept[0] == mark else None

    def _keep(self, path: str, mark: Mark, source: Source) -> None:
        if time.time_ns() - max(mark[:2]) < CLOCK_GRAIN:
            return  # a second change may carry the same time
        with self._lock:
            self._files.pop(path, None)
            self._files[path] = (mark, source)
            while len(self._files) > KEPT or sum(mark[2] for mark, _ in self._files.values()) > KEPT_BYTES:
                del self._files[next(iter(self._files))]


def _mark(status: os.stat_result) -> Mark:
    """Changes with a file."""
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


def text_of(data: bytes) -> str:
    """The text of a file: UTF-8, unless it begins with the mark of another encoding, which is no part of it."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace")
    return data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace")


def as_text(context: Any) -> str:
    """A context of any kind as it is looked at."""
    if isinstance(context, str):
        return context
    if isinstance(context, bytes | bytearray):
        return text_of(bytes(context))
    if isinstance(context, list | tuple) and all(isinstance(item, str) for item in context):
        return "\n".join(context)
    try:
        return json.dumps(context, ensure_ascii=False, indent=1, default=str)
    except (TypeError, ValueError, RecursionError):
        return str(context)
