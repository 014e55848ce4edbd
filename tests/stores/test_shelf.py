"""Sessions by name, on every store."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cloche.errors import ConflictError, DamagedEntryError, RequestError, SessionFileError, UnknownSessionError
from cloche.journal import Cell, SessionFile, SessionShelf, SessionSummary
from cloche.session.operations import GuestVersions
from cloche.stores import Store

SESSION = SessionFile(
    SessionSummary(
        name="any", created=1.0, saved=2.0, cloche="0", backend="native", isolation="PROCESS",
        versions=GuestVersions("3.11.0", "cpython", "linux", {}), journal=(Cell(code="1", outcome="ok"),),
        artifacts={"data/big": 100_000},
    ),
    artifacts={"data/big": bytes(100_000)},
)  # fmt: skip


def longer(session: SessionFile) -> SessionFile:
    """After one more cell."""
    return replace(
        session, summary=replace(session.summary, journal=(*session.summary.journal, *SESSION.summary.journal))
    )


@pytest.fixture
def shelf(store: Store) -> SessionShelf:
    return SessionShelf(store, "ann")


def test_a_session_is_kept_under_its_name(shelf: SessionShelf) -> None:
    shelf.put("work", SESSION, seen=None)
    assert shelf.get("work").session == SESSION.renamed("work")
    assert shelf.summary("work").cells == SESSION.summary.cells
    assert SessionFile.from_bytes(shelf.export("work")) == SESSION.renamed("work")
    assert shelf.names() == ["work"]


def test_of_two_that_go_on_from_one_state_the_second_is_refused(shelf: SessionShelf) -> None:
    shelf.put("work", SESSION, seen=None)
    one, other = shelf.get("work"), shelf.get("work")
    version = shelf.put("work", longer(one.session), seen=one.version)
    with pytest.raises(ConflictError, match="'work' was changed by somebody else"):
        shelf.put("work", longer(longer(other.session)), seen=other.version)
    assert len(shelf.summary("work").cells) == 2
    shelf.put("work", longer(longer(SESSION)), seen=version)
    assert len(shelf.summary("work").cells) == 3


def test_a_name_that_is_taken_is_refused_unless_it_is_to_be_replaced(shelf: SessionShelf) -> None:
    shelf.put("work", SESSION, seen=None)
    with pytest.raises(ConflictError, match="'work' already"):
        shelf.put("work", longer(SESSION), seen=None)
    shelf.put("work", longer(SESSION), seen=None, replace=True)
    assert len(shelf.summary("work").cells) == 2


def test_a_session_that_was_removed_meanwhile_is_not_brought_back_by_a_save(shelf: SessionShelf) -> None:
    version = shelf.put("work", SESSION, seen=None)
    shelf.remove("work")
    with pytest.raises(ConflictError):
        shelf.put("work", SESSION, seen=version)
    assert shelf.find("work") is None


def test_sessions_of_others_are_unknown(shelf: SessionShelf, store: Store) -> None:
    shelf.put("work", SESSION, seen=None)
    with pytest.raises(UnknownSessionError, match="there are none yet"):
        SessionShelf(store, "bob").get("work")


def test_an_unknown_session_is_told_with_the_nearest_name(shelf: SessionShelf) -> None:
    shelf.put("analysis", SESSION, seen=None)
    for look in (shelf.get, shelf.remove, shelf.export, shelf.summary):
        with pytest.raises(UnknownSessionError, match="nearest is 'analysis'"):
            look("analisys")


@pytest.mark.parametrize("name", ["", "a/b", "..", "a b", "é", "x" * 101])
def test_what_is_no_name_is_refused(shelf: SessionShelf, name: str) -> None:
    with pytest.raises(RequestError, match="name of a session"):
        shelf.put(name, SESSION, seen=None)


def test_what_is_no_session_is_refused(shelf: SessionShelf, store: Store) -> None:
    store.put("session/odd", b"something else", owner="ann")
    with pytest.raises((SessionFileError, DamagedEntryError)):
        shelf.get("odd")
    assert shelf.names() == ["odd"]
    shelf.remove("odd")
