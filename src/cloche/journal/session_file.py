"""The portable form of a session: its journal, the variables that could be saved, its files, and what it ran on.

The host carries the variables and never looks inside them; they are read behind a wall, when a sandbox resumes.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, TypeVar

from cloche.errors import SessionFileError
from cloche.journal.container import MOST_BYTES, MOST_MEMBERS, Container, pack, write_whole
from cloche.journal.entries import Cell, Event, number, optional, read_event, required, strings
from cloche.json_cost import COST_ALLOWED, COST_RATIO, decoded_cost, loads
from cloche.session.operations import GuestVersions
from cloche.snapshot import Skipped, Snapshot

T = TypeVar("T")

FORMAT = "cloche-session"
VERSION = 1

MANIFEST, JOURNAL, STATE = "manifest.json", "journal.jsonl", "state.bin"
_MANIFEST_BYTES = 16 << 20
_JOURNAL_BYTES = 256 << 20
_MOST_EVENTS = 200_000
_DEEPEST = 64


@dataclass(frozen=True, slots=True)
class SavedVariable:
    """A variable that is in the file; its type and size where they are known."""

    name: str
    type: str | None = None
    size: int | None = None
    shares_with: tuple[str, ...] = ()
    """Variables that have objects in common with it: they were saved together, and the size is of all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSummary:
    """All that can be told of a session without its data."""

    name: str
    created: float
    saved: float
    cloche: str
    """Version of Cloche that wrote it."""
    backend: str
    isolation: str
    versions: GuestVersions
    limits: Mapping[str, int] = field(default_factory=dict)
    """Of the policy: what bears upon the results of cells."""
    bridges: tuple[str, ...] = ()
    tools: tuple[tuple[str, str], ...] = ()
    """Names and documentation."""
    journal: tuple[Event, ...] = ()
    has_state: bool = False
    variables: tuple[SavedVariable, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    """Variables that could not be saved."""
    artifacts: Mapping[str, int] = field(default_factory=dict)
    """Files of the workspace: path and size."""
    left_out: tuple[Skipped, ...] = ()
    """Files that are not in it, and why."""

    @property
    def cells(self) -> list[Cell]:
        """The cells of the journal."""
        return [event for event in self.journal if isinstance(event, Cell)]


@dataclass(frozen=True, slots=True)
class SessionFile:
    """A session with its data."""

    summary: SessionSummary
    state: Snapshot | None = None
    artifacts: Mapping[str, bytes] = field(default_factory=dict)
    inputs: Mapping[str, bytes] = field(default_factory=dict)
    """What the host put in (contexts, files, snapshots), by digest: replaying needs it."""

    def to_bytes(self) -> bytes:
        """The file."""
        summary = self.summary
        journal = b"".join(json.dumps(event.to_data()).encode() + b"\n" for event in summary.journal)
        if len(journal) > _JOURNAL_BYTES or _is_too_much(journal):
            raise SessionFileError(
                f"the journal has {len(journal)} bytes in {len(summary.journal)} events; {_JOURNAL_BYTES} in "
                f"{_MOST_EVENTS} are the most, and fewer where they are lists of lists",
                remedy="begin another session",
            )
        members = {JOURNAL: journal}
        if self.state is not None:
            members[STATE] = self.state.to_bytes()
        members |= {f"files/{place}": data for place, data in enumerate(self.artifacts.values())}
        members |= {f"inputs/{digest}": data for digest, data in self.inputs.items()}
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "name": summary.name,
            "created": summary.created,
            "saved": summary.saved,
            "cloche": summary.cloche,
            "backend": summary.backend,
            "isolation": summary.isolation,
            "python": summary.versions.python,
            "implementation": summary.versions.implementation,
            "platform": summary.versions.platform,
            "packages": dict(summary.versions.packages),
            "limits": dict(summary.limits),
            "bridges": summary.bridges,
            "tools": [{"name": name, "doc": doc} for name, doc in summary.tools],
            "variables": [_variable_data(it) for it in summary.variables],
            "skipped": [{"name": it.name, "reason": it.reason} for it in summary.skipped],
            "artifacts": list(self.artifacts),
            "left_out": [{"name": it.name, "reason": it.reason} for it in summary.left_out],
            "parts": {name: {"size": len(data), "sha256": _digest(data)} for name, data in members.items()},
        }
        return pack({MANIFEST: json.dumps(manifest, indent=1).encode(), **members})

    def write(self, path: str | Path) -> None:
        """Write the file, whole or not at all."""
        write_whole(Path(path), self.to_bytes())

    @classmethod
    def from_bytes(cls, data: bytes, name: str = "the session") -> SessionFile:
        """Read what `to_bytes` wrote; anything else is a `SessionFileError`."""
        return _Reader(io.BytesIO(data), name).session()

    @classmethod
    def read(cls, path: str | Path) -> SessionFile:
        """Read a file, which may come from anybody. Its variables stay unread until a sandbox resumes."""
        return _opened(Path(path), lambda source: _Reader(source, str(path)).session())

    def renamed(self, name: str) -> SessionFile:
        """The same under another name."""
        return replace(self, summary=replace(self.summary, name=name))


def read_summary(path: str | Path) -> SessionSummary:
    """What is in a file, without its data."""
    return _opened(Path(path), lambda source: _Reader(source, str(path)).summary)


def summary_from_bytes(data: bytes, name: str = "the session") -> SessionSummary:
    """What is in the bytes of a file, without its data."""
    return _Reader(io.BytesIO(data), name).summary


def _opened(path: Path, read: Callable[[IO[bytes]], T]) -> T:
    try:
        with path.open("rb") as source:
            return read(source)
    except OSError as exc:
        raise SessionFileError(
            f"{path} cannot be read", cause=exc.strerror, remedy=f"correct the path: ls {path.parent}"
        ) from None


class _Reader:
    """One file. Every part is of the size and digest that the manifest says, and there are no others."""

    def __init__(self, source: IO[bytes], name: str) -> None:
        self._container = Container(source, name)
        manifest = self._json(self._container.read(MANIFEST, _MANIFEST_BYTES))
        if optional(manifest, "format", str) != FORMAT:
            raise self._container.damaged("it is a zip file of something else")
        version = required(manifest, "version", int)
        if version != VERSION:
            raise SessionFileError(
                f"{name} was written by a newer version of Cloche",
                cause=f"its form is {version}, this version reads {VERSION}",
                remedy="pip install --upgrade cloche",
            )
        self._manifest = manifest
        self._parts = required(manifest, "parts", dict)
        if self._container.names != {MANIFEST, *self._parts}:
            raise self._container.damaged("its parts are not those that it lists")
        self._paths = strings(manifest, "artifacts")
        if len(set(self._paths)) != len(self._paths) or len(self._paths) > MOST_MEMBERS:
            raise self._container.damaged("it lists a file twice")
        for path in self._paths:
            _check_path(path)
        self.summary = self._summary(name)

    def session(self) -> SessionFile:
        """All of it."""
        # Its head is read here; the rest is the guest's business.
        state = Snapshot.from_bytes(self._part(STATE, MOST_BYTES)) if self.summary.has_state else None
        artifacts = {path: self._part(f"files/{place}", MOST_BYTES) for place, path in enumerate(self._paths)}
        inputs = {
            name.removeprefix("inputs/"): self._part(name, MOST_BYTES)
            for name in self._parts
            if name.startswith("inputs/")
        }
        for digest, data in inputs.items():
            if _digest(data) != digest:
                raise self._container.damaged("an input is not what its name says")
        return SessionFile(self.summary, state, artifacts, inputs)

    def _summary(self, name: str) -> SessionSummary:
        data = self._manifest
        packages = required(data, "packages", dict)
        limits = required(data, "limits", dict)
        if not all(type(version) is str for version in packages.values()):
            raise self._container.damaged("the version of a package is not text")
        if not all(type(limit) is int for limit in limits.values()):
            raise self._container.damaged("a limit is not a whole number")
        return SessionSummary(
            name=required(data, "name", str)[:200],
            created=number(data, "created"),
            saved=number(data, "saved"),
            cloche=required(data, "cloche", str),
            backend=required(data, "backend", str),
            isolation=required(data, "isolation", str),
            versions=GuestVersions(
                required(data, "python", str),
                required(data, "implementation", str),
                required(data, "platform", str),
                packages,
            ),
            limits=limits,
            bridges=tuple(strings(data, "bridges")),
            tools=tuple((required(it, "name", str), required(it, "doc", str)) for it in required(data, "tools", list)),
            journal=self._journal(name),
            has_state=STATE in self._parts,
            variables=tuple(
                SavedVariable(
                    required(it, "name", str),
                    optional(it, "type", str),
                    optional(it, "size", int),
                    tuple(strings(it, "shares_with")),
                )
                for it in required(data, "variables", list)
            ),
            skipped=_reasons(data, "skipped"),
            artifacts={path: self._size(f"files/{place}") for place, path in enumerate(self._paths)},
            left_out=_reasons(data, "left_out"),
        )

    def _journal(self, name: str) -> tuple[Event, ...]:
        text = self._part(JOURNAL, _JOURNAL_BYTES)
        if _is_too_much(text):
            raise self._container.damaged("its journal is longer than any that Cloche writes")
        return tuple(read_event(self._json(line)) for line in text.splitlines())

    def _size(self, name: str) -> int:
        return required(required(self._parts, name, dict), "size", int)

    def _part(self, name: str, limit: int) -> bytes:
        """A part, which must be what the manifest says of it."""
        listed = required(self._parts, name, dict)
        size = required(listed, "size", int)
        data = self._container.read(name, min(limit, size) if size >= 0 else 0)
        if len(data) != size or _digest(data) != required(listed, "sha256", str):
            raise self._container.damaged(f"the part {name!r} was altered")
        return data

    def _json(self, data: bytes) -> Any:
        try:
            return loads(data)
        except (ValueError, RecursionError) as exc:
            raise self._container.damaged(f"it has something else where JSON must be: {exc}") from None


def _is_too_much(journal: bytes) -> bool:
    """Whether a journal would take too much memory when it is read."""
    if journal.count(b"\n") > _MOST_EVENTS:
        return True
    left = len(journal) * COST_RATIO + COST_ALLOWED
    for line in journal.splitlines():
        left -= decoded_cost(line, left)
        if left < 0:
            return True
    return False


def _variable_data(variable: SavedVariable) -> dict[str, Any]:
    return {
        "name": variable.name,
        "type": variable.type,
        "size": variable.size,
        "shares_with": variable.shares_with,
    }


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _reasons(data: Any, name: str) -> tuple[Skipped, ...]:
    return tuple(Skipped(required(it, "name", str), required(it, "reason", str)) for it in required(data, name, list))


def _check_path(path: str) -> None:
    """Refuse what would lead out of a workspace, before any sandbox has to."""
    parts = path.split("/")
    if "\0" in path or len(parts) > _DEEPEST or any(part in ("", ".", "..") for part in parts):
        raise SessionFileError(
            "the session file lists a file outside of the workspace",
            cause=repr(path[:100]),
            remedy="do not trust whoever made it",
        )
