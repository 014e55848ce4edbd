"""A zip file that may come from anybody: written whole or not at all, and read within bounds.

Nothing is ever extracted by the names in it. Sizes are checked before and while something is unpacked, one by one and
all together, so that a file that claims little and gives much is stopped: large parts are never compressed, and all
compressed ones together may give 64 MiB, or eight times their packed size more. A central directory that would itself
fill the memory is refused before it is read.
"""

from __future__ import annotations

import io
import os
import secrets
import struct
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path
from typing import IO

from cloche.errors import SessionFileError

MOST_BYTES = (1 << 31) - (1 << 20)
"""Of a file: below the sizes for which zip files need another layout."""
MOST_MEMBERS = 12_000

MAX_PACKED_PART = 1 << 20
"""Bytes of a part that is compressed; larger ones are stored as they are."""
MAX_UNPACKED = 1 << 26
MAX_RATIO = 8
"""All compressed parts together may have `MAX_UNPACKED` bytes, and `MAX_RATIO` more for each byte that they take in the
file. So a file never gives much more than its own size."""

_DIRECTORY_BYTES = MOST_MEMBERS * 128
_END = struct.Struct("<4s4H2LH")
_END_MARK = b"PK\x05\x06"
_STAMP = (1980, 1, 1, 0, 0, 0)


def pack(members: dict[str, bytes]) -> bytes:
    """The members as one file; the same members give the same bytes."""
    total = sum(map(len, members.values()))
    if total > MOST_BYTES or len(members) > MOST_MEMBERS:
        raise SessionFileError(
            f"the session has {total} bytes in {len(members)} parts; a session file may have {MOST_BYTES} in "
            f"{MOST_MEMBERS}",
            remedy="remove large variables or files from the session, and save it again",
        )
    target = io.BytesIO()
    unpacked = packed = 0
    with zipfile.ZipFile(target, "w") as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name, _STAMP)
            small = len(data) <= MAX_PACKED_PART and unpacked + len(data) <= _most_unpacked(packed)
            archive.writestr(info, data, zipfile.ZIP_DEFLATED if small else zipfile.ZIP_STORED, 6)
            if small:
                unpacked += len(data)
                packed += info.compress_size
    return target.getvalue()


def _most_unpacked(packed: int) -> int:
    """Bytes that compressed parts may give which take `packed` bytes in the file."""
    return MAX_UNPACKED + MAX_RATIO * packed


def write_whole(path: Path, data: bytes) -> None:
    """Put `data` at `path`, safe from a crash: what was there before stays until all of it is written."""
    temporary = path.parent / f".{path.name}.{secrets.token_hex(4)}"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with open(descriptor, "wb") as handle:
                handle.write(data)
                handle.flush()
                os.fsync(handle.fileno())
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as exc:
        raise SessionFileError(
            f"{path} cannot be written", cause=exc.strerror, remedy="name a file in a folder where you may write"
        ) from None


class Container:
    """A file that is read within bounds. `name` is what errors call it."""

    def __init__(self, source: IO[bytes], name: str) -> None:
        self._name = name
        try:
            size = _check_end(source)
            self._archive = zipfile.ZipFile(source)
        except (zipfile.BadZipFile, OSError, ValueError, struct.error) as exc:
            raise self.damaged(f"not a whole zip file: {exc}") from None
        self._members: dict[str, zipfile.ZipInfo] = {}
        for info in self._archive.infolist():
            if info.filename in self._members:
                raise self.damaged(f"it has two parts {info.filename[:60]!r}")
            if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise self.damaged("a part is encrypted, or packed in a way that session files are not")
            self._members[info.filename] = info
        if sum(info.compress_size for info in self._members.values()) > size:
            raise self.damaged("its parts overlap")
        self._check_total()

    def _check_total(self) -> None:
        """One total for all parts, by what they claim; `read` makes sure that none gives more."""
        members = self._members.values()
        packed = [info for info in members if info.compress_type == zipfile.ZIP_DEFLATED]
        self._check_size(sum(info.file_size for info in members), MOST_BYTES)
        self._check_size(
            sum(info.file_size for info in packed), _most_unpacked(sum(info.compress_size for info in packed))
        )
        for info in packed:
            self._check_size(info.file_size, MAX_PACKED_PART)

    def _check_size(self, size: int, most: int) -> None:
        if size > most:
            raise SessionFileError(
                f"{self._name} would take {size} bytes when it is unpacked; {most} is the most",
                cause="large parts of a session file are not compressed; this one was made to fill a memory",
                remedy="do not trust whoever made it",
            )

    @property
    def names(self) -> frozenset[str]:
        """Of all parts."""
        return frozenset(self._members)

    def read(self, name: str, limit: int) -> bytes:
        """A part, of at most `limit` bytes."""
        info = self._members.get(name)
        if info is None:
            raise self.damaged(f"it has no part {name!r}")
        if info.file_size > limit:
            raise self.damaged(f"the part {name!r} claims {info.file_size} bytes; {limit} is the most")
        try:
            with self._archive.open(info) as part:
                data = part.read(info.file_size + 1)
        except (
            zipfile.BadZipFile,
            zlib.error,
            OSError,
            ValueError,
            EOFError,
            RuntimeError,
            NotImplementedError,
        ) as exc:
            raise self.damaged(f"the part {name!r} cannot be unpacked: {exc}") from None
        if len(data) != info.file_size:
            raise self.damaged(f"the part {name!r} has not the {info.file_size} bytes that it claims")
        return data

    def damaged(self, cause: str) -> SessionFileError:
        """The refusal."""
        return SessionFileError(
            f"{self._name} is not a whole session file", cause=cause, remedy="copy it again from where it came from"
        )


def _check_end(source: IO[bytes]) -> int:
    """The size of the file, when its directory is of a size that can be read. We write no comment after it."""
    size = source.seek(0, os.SEEK_END)
    if size > MOST_BYTES + _DIRECTORY_BYTES:
        raise ValueError(f"it has {size} bytes; {MOST_BYTES} is the most")
    if size < _END.size:
        raise ValueError("it is too short")
    source.seek(size - _END.size)
    mark, disk, start, here, total, length, offset, comment = _END.unpack(source.read(_END.size))
    if mark != _END_MARK or disk or start or comment or here != total or offset + length + _END.size != size:
        raise ValueError("its end is missing")
    if total > MOST_MEMBERS or length > _DIRECTORY_BYTES:
        raise ValueError(f"it has {total} parts; {MOST_MEMBERS} is the most")
    source.seek(0)
    return size
