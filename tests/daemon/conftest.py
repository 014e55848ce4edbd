"""Each test run has daemons of its own, in folders of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cloche.backends.daemon.link import links
from cloche.backends.daemon.places import SOCKET_VARIABLE, Places
from cloche.daemon import lifecycle


@pytest.fixture(scope="session")
def shared_places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    """A daemon that many tests share: what they ask of it must not disturb each other."""
    places = Places(tmp_path_factory.mktemp("house") / "daemon.sock")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SOCKET_VARIABLE, str(places.socket))
        lifecycle.start(places, [])
    yield places
    lifecycle.stop(places)


@pytest.fixture
def house(shared_places: Places, monkeypatch: pytest.MonkeyPatch) -> Iterator[Places]:
    """The shared daemon, as the one that clients find."""
    monkeypatch.setenv(SOCKET_VARIABLE, str(shared_places.socket))
    yield shared_places
    links.close()


@pytest.fixture
def places(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Places]:
    """A place for a daemon that this test starts itself."""
    found = Places(tmp_path_factory.mktemp("d") / "daemon.sock")
    monkeypatch.setenv(SOCKET_VARIABLE, str(found.socket))
    yield found
    links.close()
    lifecycle.stop(found, force=True)
