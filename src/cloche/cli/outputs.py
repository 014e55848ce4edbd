"""What comes out of a sandbox: rich displays and files, saved where the user asked for them.

The names are the guest's. So results go into a new or empty folder, nothing is overwritten that the user did not
name, and no saved file is executable.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cloche.errors import ClocheError, RequestError, WorkspaceFileError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cloche.result import SandboxResult
    from cloche.sandbox import SessionSandbox

PICTURES = {"image/png": "png", "image/jpeg": "jpg", "image/svg+xml": "svg"}
DOCUMENTS = {"text/html": "html", "text/markdown": "md", "text/latex": "tex"}


@dataclass(frozen=True, slots=True)
class Fetch:
    """A file of the workspace and its place on the host."""

    path: str
    target: Path


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
    data = sandbox.get_file(wanted.path)
    try:
        wanted.target.write_bytes(data)
    except OSError as exc:
        raise ClocheError(
            f"{wanted.target} cannot be written",
            cause=exc.strerror,
            remedy=f"name another place: --get {wanted.path}:DEST",
        ) from None
    return wanted.target


def results_folder(folder: Path) -> Path:
    """`folder`, made if need be; one with something in it is refused, since the guest chooses the names."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        occupied = any(folder.iterdir())
    except OSError as exc:
        raise RequestError(
            f"--out {folder} cannot be used", cause=exc.strerror, remedy="name a new folder where you may write"
        ) from None
    if occupied:
        raise RequestError(
            f"--out {folder} is not empty",
            cause="the code that runs chooses the names of its files, and nothing of yours may be overwritten",
            remedy="name a new folder, or use --get PATH for single files",
        )
    return folder


def save_files(sandbox: SessionSandbox, paths: tuple[str, ...], folder: Path) -> list[Path]:
    """Copy files of the workspace into `folder`, under their own paths."""
    saved = []
    for path in paths:
        try:
            data = sandbox.get_file(path)
        except WorkspaceFileError:
            continue  # a link or a pipe; or gone meanwhile
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        saved.append(target)
    return saved


def save_displays(result: SandboxResult, folder: Path | None) -> list[Path]:
    """Save what cannot be printed: pictures always, documents too when a folder was named. Nothing is overwritten."""
    kinds = PICTURES if folder is None else {**PICTURES, **DOCUMENTS}
    saved = []
    for number, display in enumerate(result.displays, 1):
        chosen = _best(display.data, kinds)
        if chosen is None:
            continue
        if folder is None:
            folder = Path(tempfile.mkdtemp(prefix="cloche-displays-"))
        target = _free_name(folder, f"display-{number}", kinds[chosen])
        content = display.data[chosen]
        target.write_bytes(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content)
        saved.append(target)
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


def _free_name(folder: Path, stem: str, suffix: str) -> Path:
    target = folder / f"{stem}.{suffix}"
    extra = 1
    while target.exists():
        extra += 1
        target = folder / f"{stem}-{extra}.{suffix}"
    return target
