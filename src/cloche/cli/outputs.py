"""What comes out of a sandbox: rich displays and files, saved where the user asked for them.

The names are the guest's, and with a folder of the user's as its workspace the guest may be at work beside us. So a
destination is opened before the code runs, lies outside of what the code can write, and files are made in it by
descriptor: nothing is overwritten that the user did not name, no link is followed, and no saved file is executable.
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from cloche.errors import ClocheError, RequestError, WorkspaceFileError
from cloche.host import guest_files
from cloche.host.guest_paths import components

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cloche.result import SandboxResult
    from cloche.sandbox import SessionSandbox

PICTURES = {"image/png": "png", "image/jpeg": "jpg", "image/svg+xml": "svg"}
DOCUMENTS = {"text/html": "html", "text/markdown": "md", "text/latex": "tex"}
_MODE = 0o666  # less what the user's mask takes away


class Fetch:
    """A file of the workspace and its place on the host, which is open from now on."""

    def __init__(self, path: str, target: Path) -> None:
        self.path = path
        self.target = target
        self._stream: int | None = None
        try:
            if _is_special(target):  # a terminal, a pipe: written to, not replaced
                self._stream = os.open(target, os.O_WRONLY | os.O_CLOEXEC)
            self._place = Path(os.path.realpath(target))
            self._folder = os.open(self._place.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as exc:
            raise self._unwritable(exc) from None

    def refuse_guests(self, sandbox: SessionSandbox) -> None:
        """Raise if the code could put something else in the place of the destination."""
        writable = None if self._stream is not None else _writable_by_guest(sandbox, self._place.parent)
        if writable is not None:
            raise RequestError(
                f"{self.target} is no place for a copy",
                cause=f"the code can write to {writable}, and could put a link there",
                remedy=f"name a place outside of it: --get {self.path}:DEST; the workspace has the file already",
            )

    def write(self, data: bytes) -> Path:
        """Put it there, whole or not at all."""
        try:
            if self._stream is not None:
                guest_files.write_all(self._stream, data)
            else:
                guest_files.write_file(self._place.name, self._folder, (data,), mode=_MODE)
        except OSError as exc:
            raise self._unwritable(exc) from None
        return self.target

    def _unwritable(self, exc: OSError) -> ClocheError:
        return ClocheError(
            f"{self.target} cannot be written",
            cause=exc.strerror,
            remedy=f"name another place: --get {self.path}:DEST",
        )


class ResultsFolder:
    """A new or empty folder for files whose names the guest chooses, open from before the code runs."""

    def __init__(self, path: Path) -> None:
        self._is_new = True
        try:
            try:
                path.mkdir(parents=True)
            except FileExistsError:
                self._is_new = False
            self._folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            occupied = bool(os.listdir(self._folder))
        except OSError as exc:
            raise RequestError(
                f"--out {path} cannot be used", cause=exc.strerror, remedy="name a new folder where you may write"
            ) from None
        if occupied:
            raise RequestError(
                f"--out {path} is not empty",
                cause="the code that runs chooses the names of its files, and nothing of yours may be overwritten",
                remedy="name a new folder, or use --get PATH for single files",
            )
        self.path = path

    def refuse_guests(self, sandbox: SessionSandbox) -> None:
        """Raise if the code could put links into it."""
        writable = _writable_by_guest(sandbox, Path(os.path.realpath(self.path)))
        if writable is not None:
            if self._is_new:  # a refusal leaves nothing behind; no code has run yet
                self.path.rmdir()
            raise RequestError(
                f"--out {self.path} is no place for copies",
                cause=f"the code can write to {writable}, and could put links there",
                remedy="name a folder outside of it; what the code makes in its workspace is there already",
            )

    def save(self, path: str, data: bytes) -> Path:
        """A new file. Raises `WorkspaceFileError` for a path that is none, `FileExistsError` for one that is taken."""
        *folders, name = components(path)
        with guest_files.inner_folder(self._folder, folders, create=True, mode=0o777) as folder:
            descriptor = guest_files.create_file(name, folder, mode=_MODE)
            try:
                guest_files.write_all(descriptor, data)
            finally:
                os.close(descriptor)
        return self.path / path


def parse_fetch(item: str) -> Fetch:
    """``PATH`` or ``PATH:DEST``."""
    path, _, place = item.rpartition(":") if ":" in item else (item, "", "")
    return fetch_to(path, place)


def fetch_to(path: str, place: str) -> Fetch:
    """`path` of the workspace under its own name here, or as `place`; a folder keeps the file's name."""
    parts = path.split("/")
    name = parts[-1]
    if name in ("", ".") or ".." in parts:
        raise RequestError(
            f"{path!r} is not a path inside the workspace", remedy="use a relative path such as out/data.csv"
        )
    target = Path(place or name)
    if target.is_dir():
        target = target / name
    if not target.parent.is_dir():
        raise RequestError(f"there is no folder {target.parent}", remedy=f"mkdir -p {target.parent}")
    return Fetch(path, target)


def fetch(sandbox: SessionSandbox, wanted: Fetch) -> Path:
    """Copy one file out."""
    return wanted.write(sandbox.get_file(wanted.path))


def save_files(sandbox: SessionSandbox, paths: tuple[str, ...], folder: ResultsFolder) -> list[Path]:
    """Copy files of the workspace into `folder`, under their own paths."""
    saved = []
    for path in paths:
        try:
            data = sandbox.get_file(path)
            saved.append(folder.save(path, data))
        except WorkspaceFileError:
            continue  # a link or a pipe; or gone meanwhile
        except OSError as exc:
            raise ClocheError(
                f"{path} could not be saved in {folder.path}", cause=exc.strerror, remedy=f"df -h {folder.path}"
            ) from None
    return saved


def save_displays(result: SandboxResult, folder: ResultsFolder | None) -> list[Path]:
    """Save what cannot be printed: pictures always, documents too when a folder was named. Nothing is overwritten."""
    kinds = PICTURES if folder is None else {**PICTURES, **DOCUMENTS}
    saved = []
    for number, display in enumerate(result.displays, 1):
        chosen = _best(display.data, kinds)
        if chosen is None:
            continue
        if folder is None:
            folder = ResultsFolder(Path(tempfile.mkdtemp(prefix="cloche-displays-")))
        content = display.data[chosen]
        data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        saved.append(_save_under_free_name(folder, f"display-{number}", kinds[chosen], data))
    return saved


def printable_displays(result: SandboxResult) -> list[str]:
    """The text of displays that are no pictures, but for one that is the value and is printed as such."""
    texts = []
    for display in result.displays:
        text = display.data.get("text/plain")
        if isinstance(text, str) and text != result.value and _best(display.data, PICTURES) is None:
            texts.append(text)
    return texts


def _best(data: Mapping[str, str | bytes], kinds: Mapping[str, str]) -> str | None:
    return next((mime for mime in kinds if mime in data), None)


def _save_under_free_name(folder: ResultsFolder, stem: str, suffix: str, data: bytes) -> Path:
    name, extra = f"{stem}.{suffix}", 1
    while True:
        try:
            return folder.save(name, data)
        except FileExistsError:  # a file of the guest's
            extra += 1
            name = f"{stem}-{extra}.{suffix}"


def _is_special(target: Path) -> bool:
    try:
        return not stat.S_ISREG(target.stat().st_mode)
    except OSError:
        return False


def _writable_by_guest(sandbox: SessionSandbox, place: Path) -> str | None:
    """The folder that was given to the guest in which this place lies."""
    given = [mount.source for mount in sandbox.policy.mounts if mount.writable]
    if sandbox.workspace is not None:
        given.insert(0, os.fspath(sandbox.workspace))
    return next((folder for folder in given if place.is_relative_to(os.path.realpath(folder))), None)
