"""Working in a session that has a name: it is brought back, each cell is written down, and it is saved after each."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from cloche.errors import ClocheError, ConflictError, SnapshotError
from cloche.journal.recording import Recorder, resume
from cloche.journal.shelf import SessionShelf, check_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cloche.journal.session_file import SessionFile
    from cloche.result import SandboxResult
    from cloche.sandbox import SessionSandbox
    from cloche.snapshot import Skipped

_NAMED = 5


def open_shelf(url: str | None) -> SessionShelf:
    """The user's sessions in the store of that address, or where CLOCHE_STORE says, or among their own files.

    It is closed when the command is over.
    """
    from cloche.stores.opening import open_store

    store = open_store(url)
    command = click.get_current_context(silent=True)
    if command is not None:
        command.call_on_close(store.close)
    return SessionShelf(store, owner())


def owner() -> str:
    """Whose sessions they are. A name, so that it is the same on every machine."""
    import getpass

    try:
        name = getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container in which nobody has a name
        name = str(os.getuid()) if hasattr(os, "getuid") else "user"
    return f"user-{name}"[:60]


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of a save."""

    notes: list[str] = field(default_factory=list)
    """For people."""
    data: dict[str, Any] = field(default_factory=dict)
    """For programs."""
    error: ClocheError | None = None


class NamedSession:
    """A session at work in a sandbox. Without a name it is only written down, and can be given one later."""

    def __init__(self, store: str | None, name: str | None, *, way_out: str) -> None:
        """`store` is its address; `way_out`: what to type when somebody else has saved it meanwhile."""
        self._store = store
        self._shelf: SessionShelf | None = None
        self._name = name
        self._way_out = way_out
        self._version: str | None = None
        self._last: SessionFile | None = None
        self._told: set[tuple[str, str]] = set()
        self._recorder: Recorder | None = None
        if name is not None:
            check_name(name)
            self._shelf = open_shelf(store)
            found = self._shelf.find(name)
            if found is not None:
                self._last, self._version = found.session, found.version

    @property
    def name(self) -> str | None:
        """None while it has none."""
        return self._name

    @property
    def is_new(self) -> bool:
        """Whether nothing was saved under the name yet."""
        return self._version is None

    def begin(self, sandbox: SessionSandbox) -> list[str]:
        """Bring it back in a fresh sandbox; notes of what could not be."""
        lost: Iterable[Skipped] = ()
        if self._last is not None:
            lost = resume(sandbox, self._last)
            self._told = _reasons(self._last)
        self._recorder = Recorder(sandbox, name=self._name or "session", previous=self._last)
        return _listed("not brought back", lost)

    def recover(self) -> list[str]:
        """When a cell has ended the session, or it was lost since: bring back what was saved. Notes for people."""
        recorder = self._recorder
        if recorder is None or self._last is None or not recorder.has_lost:
            return []
        lost = recorder.roll_back(self._last)
        return ["the session ended; it is back as it was when it was last saved", *_listed("not brought back", lost)]

    def keep(self, result: SandboxResult | None = None) -> Kept:
        """Save it as it is now; `result` is of the cell that was run."""
        recorder = self._recorder
        if recorder is None or self._name is None or self._shelf is None:
            return Kept()
        notes: list[str] = []
        try:
            notes = self.recover()
            if result is not None and result.session_state == "reset" and not notes:
                notes = ["the session ended with this cell, before anything was saved; it starts afresh"]
            session = recorder.capture()
            self._version = self._shelf.put(self._name, session, seen=self._version)
        except ConflictError as exc:
            error = ConflictError(
                f"{exc.message}; what ran here is not in it",
                expected=exc.expected,
                found=exc.found,
                cause="two processes work in one session, and the other one was first",
                remedy=self._way_out,
            )
            return Kept(notes, {"name": self._name, "saved": False, "error": error.message}, error)
        except ClocheError as exc:
            if isinstance(exc, SnapshotError) and exc.remedy is None:
                exc.remedy = "delete large variables with del, or raise snapshot_max_bytes"
            return Kept(notes, {"name": self._name, "saved": False, "error": exc.message}, exc)
        self._last = session
        summary = session.summary
        fresh = [it for it in (*summary.skipped, *summary.left_out) if (it.name, it.reason) not in self._told]
        self._told = _reasons(session)
        data = {
            "name": self._name,
            "saved": True,
            "cells": len(summary.cells),
            "variables": [it.name for it in summary.variables],
            "skipped": [{"name": it.name, "reason": it.reason} for it in summary.skipped],
            "left_out": [{"path": it.name, "reason": it.reason} for it in summary.left_out],
        }
        return Kept(notes + _listed("not saved", fresh), data)

    def rename(self, name: str) -> Kept:
        """Save it under a name, which must be free, and go on there."""
        check_name(name)
        before = self._shelf, self._name, self._version
        self._shelf, self._name, self._version = self._shelf or open_shelf(self._store), name, None
        kept = self.keep()
        if kept.error is not None:
            self._shelf, self._name, self._version = before
            if isinstance(kept.error, ConflictError):
                kept.error.message = f"there is a session {name!r} already"
                kept.error.cause, kept.error.remedy = None, f"choose another name, or: cloche session rm {name}"
            raise kept.error
        if self._recorder is not None:
            self._recorder.name = name
        return kept


def _reasons(session: SessionFile) -> set[tuple[str, str]]:
    return {(it.name, it.reason) for it in (*session.summary.skipped, *session.summary.left_out)}


def _listed(what: str, items: Iterable[Skipped]) -> list[str]:
    found = [f"{it.name} ({it.reason})" for it in items]
    if not found:
        return []
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return [f"{what}: {', '.join(found[:_NAMED])}{more}"]
