"""A workbench as bytes: what the host keeps of it, and the snapshot of its sandbox."""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import asdict, dataclass
from typing import Any

from cloche.errors import SnapshotError
from cloche.json_cost import loads
from cloche.repl.findings import Finding, Findings

_HEAD = struct.Struct(">4sBQ")
_MAGIC, _VERSION = b"CLWB", 1
MOST_TURNS = 10**8  # beyond that a handle such as out:3 would be none


@dataclass(frozen=True, slots=True)
class Kept:
    """What is not in the sandbox."""

    turns: int
    looks: int
    findings: list[Finding]
    outputs: dict[int, str]
    summary: str
    context: str | None
    """A digest: the text itself stays where it is."""


def pack(kept: Kept, snapshot: bytes) -> bytes:
    """All of it."""
    head = json.dumps({**asdict(kept), "outputs": {str(turn): text for turn, text in kept.outputs.items()}}).encode()
    return _HEAD.pack(_MAGIC, _VERSION, len(head)) + head + snapshot


def unpack(data: bytes, context: str | None) -> tuple[Kept, bytes]:
    """(what is not in the sandbox, the snapshot), if it was made with that context."""
    try:
        magic, version, size = _HEAD.unpack_from(data)
        if (magic, version) != (_MAGIC, _VERSION) or _HEAD.size + size > len(data):
            raise ValueError("not a checkpoint of this version")
        head = loads(data[_HEAD.size : _HEAD.size + size])
        kept = Kept(
            turns=_count(head["turns"]),
            looks=_count(head["looks"]),
            findings=Findings.from_data(head["findings"]).all,
            outputs={_count(int(turn)): _text(text) for turn, text in head["outputs"].items()},
            summary=_text(head["summary"]),
            context=None if head["context"] is None else _text(head["context"]),
        )
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as exc:
        raise SnapshotError("these bytes are not a checkpoint", cause=str(exc)[:200]) from None
    if kept.context != context:
        raise SnapshotError(
            "the checkpoint was made with another context", remedy="make the environment with the same context"
        )
    return kept, data[_HEAD.size + size :]


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= MOST_TURNS:
        raise ValueError(f"no number of turns or looks: {value!r:.40}")
    return value


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError(f"no text: {value!r:.40}")
    return value


def digest(text: Any) -> str | None:
    """Of a context, if there is one."""
    return None if text is None else hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
