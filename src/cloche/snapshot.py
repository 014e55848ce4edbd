"""A saved namespace: opaque to the host, made and read inside the wall."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from cloche.errors import SnapshotError

_MAGIC = b"CLSN"
_VERSION = 1
_HEAD = struct.Struct(">4sBI")


@dataclass(frozen=True, slots=True)
class Skipped:
    """A variable that could not be saved, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Saved variables. `payload` is guest data: the host carries it and never looks inside."""

    variables: tuple[str, ...]
    skipped: tuple[Skipped, ...]
    payload: bytes

    def to_bytes(self) -> bytes:
        """A portable form: a small header of names, then the payload."""
        import json

        head = json.dumps(
            {"variables": self.variables, "skipped": [[item.name, item.reason] for item in self.skipped]}
        ).encode()
        return _HEAD.pack(_MAGIC, _VERSION, len(head)) + head + self.payload

    @classmethod
    def from_bytes(cls, data: bytes) -> Snapshot:
        """Read `to_bytes()` back; anything else raises `SnapshotError`."""
        import json

        try:
            magic, version, size = _HEAD.unpack_from(data)
            if magic != _MAGIC or version != _VERSION or _HEAD.size + size > len(data):
                raise ValueError("not a snapshot of this version")
            head = json.loads(data[_HEAD.size : _HEAD.size + size])
            variables = tuple(str(name) for name in head["variables"])
            skipped = tuple(Skipped(str(name), str(reason)) for name, reason in head["skipped"])
        except (struct.error, ValueError, KeyError, TypeError, RecursionError) as exc:
            raise SnapshotError("these bytes are not a Cloche snapshot", cause=str(exc)) from None
        return cls(variables, skipped, data[_HEAD.size + size :])
