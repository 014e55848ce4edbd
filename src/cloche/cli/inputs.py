"""What a user hands in: code, context, files. Everything is read and checked before a sandbox starts."""

from __future__ import annotations

import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

from cloche.errors import RequestError
from cloche.host import guest_files
from cloche.host.guest_paths import MAX_DEPTH

STDIN = "-"
_CODE_REMEDY = "name a file of Python; a line of code is run by: cloche run -c CODE"
CODE_LIMIT = 64 * 2**20
MAX_FILES = 1_000_000


@dataclass(frozen=True, slots=True)
class Placement:
    """A file of the host and its place in the workspace."""

    source: Path
    target: str
    folder: Path | None = None
    """Where it was found, if a folder was named: then no link on the way from there is followed."""

    def read(self) -> bytes:
        """The bytes of the file."""
        if self.folder is None:
            return _read(self.source)
        *folders, name = self.source.relative_to(self.folder).parts
        try:
            root = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                with guest_files.inner_folder(root, folders) as inner:
                    return guest_files.read_file(name, inner, limit=sys.maxsize)
            finally:
                os.close(root)
        except OSError as exc:
            raise RequestError(
                f"{self.source} cannot be read", cause=exc.strerror, remedy=f"see who may read it: ls -l {self.source}"
            ) from None


def read_code(source: str | None, code: str | None) -> str:
    """The code to run: given directly, in a file, or on standard input."""
    if code is not None:
        if source is not None:
            raise RequestError(
                f"both -c and {source!r} were given", remedy="one of: cloche run FILE, cloche run -c CODE, cloche run -"
            )
        return code
    if source is None:
        raise RequestError(
            "there is nothing to run",
            remedy="one of: cloche run FILE, cloche run -c CODE, cloche run - (standard input)",
        )
    data = read_stdin(CODE_LIMIT) if source == STDIN else _read(Path(source), CODE_LIMIT, _CODE_REMEDY)
    return _decode_code(data, "standard input" if source == STDIN else source)


def read_context(name: str) -> str:
    """The text of a context: UTF-8, every character as it is."""
    data = read_stdin() if name == STDIN else _read(Path(name))
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise RequestError(
            f"the context {name} is not UTF-8 text",
            cause=f"byte 0x{data[exc.start]:02x} at position {exc.start}",
            remedy=f"convert it, or hand it in as a file: --file {name}",
        ) from None


def parse_placement(item: str) -> list[Placement]:
    """``SRC`` or ``SRC:DEST``."""
    if ":" in item and not Path(item).exists():
        source, _, target = item.rpartition(":")
        return placements(Path(source), target)
    return placements(Path(item), "")


def placements(source: Path, target: str) -> list[Placement]:
    """`source` under its own name or as `target`; a folder stands for every file in it."""
    if not source.exists():
        raise RequestError(f"there is no file or folder {source}", remedy=f"correct the path: ls {source.parent}")
    if not target or target.endswith("/"):
        target += source.resolve().name
    if not source.is_dir():
        return [Placement(source, target)]
    files = _files_in(source)
    if not files:
        raise RequestError(f"the folder {source} has no files in it", remedy=f"correct the path: ls -la {source}")
    return [Placement(path, f"{target}/{path.relative_to(source).as_posix()}", source) for path in files]


def _files_in(folder: Path) -> list[Path]:
    """Plain files. The code of an earlier session may have been able to write there: a link could lead anywhere."""
    found = []
    root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for path, status in guest_files.Walk(root, max_entries=MAX_FILES, max_depth=MAX_DEPTH):
            if stat.S_ISLNK(status.st_mode):
                raise RequestError(
                    f"{folder / path} is a link",
                    cause="in a folder that is handed in whole, links are not followed",
                    remedy=f"hand in what it leads to: --file {os.path.realpath(folder / path)}",
                )
            if stat.S_ISREG(status.st_mode):
                found.append(folder / path)
    finally:
        os.close(root)
    return sorted(found)


def read_stdin(limit: int | None = None) -> bytes:
    """All of standard input."""
    if sys.stdin is None:
        raise RequestError("standard input is closed", remedy="name a file, or feed it: cloche run - < FILE")
    if sys.stdin.isatty():
        sys.stderr.write("reading from the terminal; Ctrl-D ends the input\n")
    return _bounded(
        sys.stdin.buffer.read() if limit is None else sys.stdin.buffer.read(limit + 1), limit, "standard input"
    )


def _read(path: Path, limit: int | None = None, remedy: str = "") -> bytes:
    try:
        with path.open("rb") as handle:
            return _bounded(handle.read() if limit is None else handle.read(limit + 1), limit, str(path))
    except FileNotFoundError:
        raise RequestError(f"there is no file {path}", remedy=remedy or f"correct the path: ls {path.parent}") from None
    except IsADirectoryError:
        raise RequestError(
            f"{path} is a folder, not a file", remedy=remedy or f"name a file in it: ls {path}"
        ) from None
    except (OSError, ValueError) as exc:  # ValueError: a null character in the name
        why = getattr(exc, "strerror", None) or str(exc)
        raise RequestError(f"{path} cannot be read", cause=why, remedy=f"see who may read it: ls -l {path}") from None


def _bounded(data: bytes, limit: int | None, what: str) -> bytes:
    if limit is not None and len(data) > limit:
        raise RequestError(
            f"{what} is longer than {limit} bytes; that is no program", remedy="hand data in with --context or --file"
        )
    return data


def _decode_code(data: bytes, name: str) -> str:
    """Source as Python reads it: UTF-8, or what a coding line says."""
    import io
    import tokenize

    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return data.decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError) as exc:
        raise RequestError(
            f"{name} is not Python text",
            cause=str(exc),
            remedy="save it as UTF-8, or name its encoding in the first line",
        ) from None
