"""A saved namespace: its parts are opaque to the host, made and read inside the wall."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cloche.errors import SnapshotError
from cloche.json_cost import loads
from cloche_guest.pieces import digests

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_MAGIC = b"CLSN"
_VERSION = 2
_HEAD = struct.Struct(">4sBI")
_MOST_HEAD = 1 << 26
"""Bytes: names of a million variables. What a program reads of a stranger's file has to end somewhere."""
_LEAST_HELD = 1 << 12
"""Bytes. It is not worth asking whether a smaller piece has changed."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A variable that could not be saved, and why."""

    name: str
    reason: str


class SnapshotPiece:
    """Some bytes of a snapshot. They are shared by all snapshots in which they are the same."""

    __slots__ = ("_digest", "data")

    def __init__(self, data: bytes | memoryview, digest: str | None = None) -> None:
        self.data = data
        self._digest = digest

    def __len__(self) -> int:
        return len(self.data)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SnapshotPiece) and self.data == other.data

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"<SnapshotPiece of {len(self)} bytes>"

    @property
    def digest(self) -> str:
        """SHA-256 of the bytes that are held here, whatever the guest said of them."""
        if self._digest is None:
            self._digest = _sha256(self.data).hexdigest()
        return self._digest


@dataclass(frozen=True, slots=True)
class SnapshotEntry:
    """Variables that were saved together: one, or several that share objects. Its bytes are the guest's."""

    names: tuple[str, ...]
    types: tuple[str, ...]
    stream: tuple[SnapshotPiece, ...]
    buffers: tuple[tuple[bool, tuple[SnapshotPiece, ...]], ...] = ()

    def pieces(self) -> Iterator[SnapshotPiece]:
        """All of them, in the order in which they travel."""
        yield from self.stream
        for _, pieces in self.buffers:
            yield from pieces

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(map(len, self.pieces()))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Saved variables. The host knows their names, types and sizes; it carries the rest and never looks inside."""

    entries: tuple[SnapshotEntry, ...]
    skipped: tuple[Skipped, ...] = ()
    python: str = ""
    """The version of the interpreter that saved them."""
    sent_bytes: int = field(default=0, compare=False)
    """What had to cross the wall; with a base, what had changed."""

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of what was saved."""
        return tuple(name for entry in self.entries for name in entry.names)

    @property
    def size(self) -> int:
        """Bytes of all entries together."""
        return sum(entry.size for entry in self.entries)

    def pieces(self) -> Iterator[SnapshotPiece]:
        """All pieces, in the order in which they travel."""
        for entry in self.entries:
            yield from entry.pieces()

    def held(self) -> dict[str, SnapshotPiece]:
        """By their digests: pieces that need not be sent again when this is the base of a save."""
        found = [piece for piece in self.pieces() if len(piece) >= _LEAST_HELD]
        _digest_all(found)
        return {piece.digest: piece for piece in found}

    def to_bytes(self) -> bytes:
        """A portable form: a head that says what there is, then the pieces, each once."""
        import json

        places: dict[str, int] = {}
        kept: list[SnapshotPiece] = []
        _digest_all(list(self.pieces()))
        for piece in self.pieces():
            if piece.digest not in places:
                places[piece.digest] = len(kept)
                kept.append(piece)
        head = {
            "python": self.python,
            "skipped": [[item.name, item.reason] for item in self.skipped],
            "pieces": [[len(piece), piece.digest] for piece in kept],
            "entries": [
                {
                    "names": entry.names,
                    "types": entry.types,
                    "stream": [places[piece.digest] for piece in entry.stream],
                    "buffers": [
                        [readonly, [places[piece.digest] for piece in pieces]] for readonly, pieces in entry.buffers
                    ],
                }
                for entry in self.entries
            ],
        }
        text = json.dumps(head, separators=(",", ":")).encode()
        digest = _sha256(text).digest()
        return b"".join((_HEAD.pack(_MAGIC, _VERSION, len(text)), digest, text, *(piece.data for piece in kept)))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled, it is the same portable form: it may go to another process."""
        return Snapshot.from_bytes, (self.to_bytes(),)

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> Snapshot:
        """Read `to_bytes()` back; anything else, or a single bit that has changed, raises `SnapshotError`."""
        try:
            return cls(**_read(memoryview(data).toreadonly()))
        except (struct.error, ValueError, KeyError, TypeError, IndexError, RecursionError) as exc:
            raise SnapshotError("these bytes are not a whole Cloche snapshot", cause=str(exc)) from None


def assemble(
    listed: Iterable[Mapping[str, Any]], data: memoryview, held: Mapping[str, SnapshotPiece]
) -> tuple[SnapshotEntry, ...]:
    """The entries that a guest listed: pieces by their size are in `data`, in order; others are named by digest.

    Raises KeyError, TypeError or ValueError for a list that does not fit.
    """
    at = 0

    def take(marks: list[Any]) -> tuple[SnapshotPiece, ...]:
        nonlocal at
        found = []
        for mark in marks:
            if type(mark) is str:
                found.append(held[mark])
            elif type(mark) is int and 0 <= mark <= len(data) - at:
                found.append(SnapshotPiece(data[at : at + mark]))
                at += mark
            else:
                raise ValueError("a piece that is not there")
        return tuple(found)

    entries = tuple(
        SnapshotEntry(
            _texts(entry["names"]),
            _texts(entry["types"]),
            take(entry["stream"]),
            tuple((buffer["readonly"] is True, take(buffer["pieces"])) for buffer in entry["buffers"]),
        )
        for entry in listed
    )
    if at != len(data):
        raise ValueError("more bytes than it lists")
    return entries


def disassemble(entries: Iterable[SnapshotEntry]) -> list[dict[str, Any]]:
    """As a guest is told what comes: sizes, in order."""
    return [
        {
            "names": entry.names,
            "stream": [len(piece) for piece in entry.stream],
            "buffers": [
                {"readonly": readonly, "pieces": [len(piece) for piece in pieces]} for readonly, pieces in entry.buffers
            ],
        }
        for entry in entries
    ]


def _sha256(data: bytes | memoryview) -> Any:
    import hashlib  # a library of its own: most programs never save anything

    return hashlib.sha256(data)


def _digest_all(pieces: list[SnapshotPiece]) -> None:
    """Have all digests, found side by side where that is worth it."""
    missing = [piece for piece in pieces if piece._digest is None]
    for piece, digest in zip(missing, digests([piece.data for piece in missing]), strict=True):
        piece._digest = digest


def _read(data: memoryview) -> dict[str, Any]:
    magic, version, size = _HEAD.unpack_from(data)
    if magic != _MAGIC:
        raise ValueError("they do not begin as one")
    if version != _VERSION:
        raise ValueError(f"it is of version {version}, this is Cloche for version {_VERSION}")
    if size > _MOST_HEAD:
        raise ValueError(f"its head has {size} bytes")
    at = _HEAD.size + 32
    text = bytes(data[at : at + size])
    if _sha256(text).digest() != bytes(data[_HEAD.size : at]):
        raise ValueError("its head is damaged")
    head = loads(text)
    at += size
    pieces: list[SnapshotPiece] = []
    for length, digest in head["pieces"]:
        pieces.append(SnapshotPiece(data[at : at + length]))
        at += length
        if len(pieces[-1]) != length or type(digest) is not str or len(digest) != 64:
            raise ValueError("it was cut off")
    if at != len(data):
        raise ValueError("something follows it")
    _digest_all(pieces)
    for piece, (_, digest) in zip(pieces, head["pieces"], strict=True):
        if piece.digest != digest:
            raise ValueError("its contents are damaged")
    return {
        "entries": tuple(
            SnapshotEntry(
                _texts(entry["names"]),
                _texts(entry["types"]),
                _pick(pieces, entry["stream"]),
                tuple((readonly is True, _pick(pieces, numbers)) for readonly, numbers in entry["buffers"]),
            )
            for entry in head["entries"]
        ),
        "skipped": tuple(Skipped(str(name), str(reason)) for name, reason in head["skipped"]),
        "python": str(head["python"])[:40],
    }


def _pick(pieces: list[SnapshotPiece], numbers: list[Any]) -> tuple[SnapshotPiece, ...]:
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise ValueError("a piece that is not there")
    return tuple(pieces[number] for number in numbers)


def _texts(items: Any) -> tuple[str, ...]:
    if type(items) is not list or not all(type(item) is str and len(item) <= 10_000 for item in items):
        raise ValueError("a name that is not text")
    return tuple(items)
