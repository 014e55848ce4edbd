"""Sessions by name, in a store. A save that has not seen the last one is refused."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cloche.errors import ConflictError, RequestError, UnknownEntryError, UnknownSessionError
from cloche.journal.session_file import SessionFile, SessionSummary, summary_from_bytes

if TYPE_CHECKING:
    from cloche.stores.interface import Entry, Store

_PREFIX = "session/"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True)
class SavedSession:
    """A session and the version under which it was read: what the next save must still find."""

    session: SessionFile
    version: str


class SessionShelf:
    """The sessions of one owner."""

    def __init__(self, store: Store, owner: str) -> None:
        self.store = store
        self.owner = owner

    def names(self) -> list[str]:
        """All of them, sorted."""
        return [entry.key.removeprefix(_PREFIX) for entry in self.entries()]

    def entries(self) -> list[Entry]:
        """What the store knows of each."""
        return self.store.list(owner=self.owner, prefix=_PREFIX)

    def get(self, name: str) -> SavedSession:
        """The session of that name."""
        data, version = self._read(name)
        return SavedSession(SessionFile.from_bytes(data, f"the session {name!r}"), version)

    def find(self, name: str) -> SavedSession | None:
        """The session of that name; None where there is none yet."""
        try:
            return self.get(name)
        except UnknownSessionError:
            return None

    def summary(self, name: str) -> SessionSummary:
        """What is in it, without its data."""
        return summary_from_bytes(self._read(name)[0], f"the session {name!r}")

    def export(self, name: str) -> bytes:
        """The session as a portable file."""
        return self._read(name)[0]

    def put(self, name: str, session: SessionFile, *, seen: str | None, replace: bool = False) -> str:
        """Save it: in place of the version that was `seen`, or, with None, where nothing is; or, with `replace`, in
        any case. Returns the version."""
        check_name(name)
        data = session.renamed(name).to_bytes()
        try:
            entry = self.store.put(
                _PREFIX + name,
                data,
                owner=self.owner,
                if_match=None if replace else seen,
                if_none_match=seen is None and not replace,
            )
        except ConflictError as exc:
            changed = f"the session {name!r} was changed by somebody else meanwhile"
            raise ConflictError(
                changed if seen else f"there is a session {name!r} already",
                expected=exc.expected,
                found=exc.found,
                cause=exc.cause,
            ) from None
        return entry.version

    def remove(self, name: str) -> None:
        """Remove it."""
        check_name(name)
        if not self.store.delete(_PREFIX + name, owner=self.owner):
            raise self._unknown(name)

    def _read(self, name: str) -> tuple[bytes, str]:
        check_name(name)
        try:
            stored = self.store.get(_PREFIX + name, owner=self.owner)
        except UnknownEntryError:
            raise self._unknown(name) from None
        return stored.data, stored.entry.version

    def _unknown(self, name: str) -> UnknownSessionError:
        import difflib

        names = self.names()
        near = difflib.get_close_matches(name, names, n=1)
        others = f"there are: {', '.join(names[:10])}" if names else "there are none yet"
        return UnknownSessionError(
            f"there is no session {name!r}",
            cause=f"the nearest is {near[0]!r}" if near else others,
            remedy=f"cloche session list shows them all; cloche run --session {name} -c CODE begins this one",
        )


def check_name(name: str) -> None:
    """Refuse what cannot be the name of a session."""
    if not _NAME.fullmatch(name):
        raise RequestError(
            f"{name!r:.120} cannot be the name of a session",
            remedy="letters, digits, dots, dashes and underscores, at most 100; a letter or digit first",
        )
