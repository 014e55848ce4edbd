"""The conformance suite, on every backend that is part of this package."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cloche.backends.daemon.link import links
from cloche.backends.daemon.places import SOCKET_VARIABLE, Places
from cloche.conformance.fixtures import cloche_api, open_sandbox, portal, run_on, sandbox
from cloche.daemon import lifecycle

__all__ = ["cloche_api", "open_sandbox", "portal", "sandbox"]

BACKENDS = (
    "native",
    "fake",
    "jail",
    "daemon",
    "wasm",
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each behaviour on each backend, on both APIs."""
    run_on(metafunc, BACKENDS)


@pytest.fixture(scope="session")
def running_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    """A daemon of this test run's own."""
    places = Places(tmp_path_factory.mktemp("daemon") / "daemon.sock")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SOCKET_VARIABLE, str(places.socket))
        lifecycle.start(places, [])
        yield places
        links.close()
        lifecycle.stop(places)


@pytest.fixture(autouse=True)
def daemon_where_it_is_wanted(request: pytest.FixtureRequest) -> None:
    if "cloche_backend" in request.fixturenames and request.getfixturevalue("cloche_backend") == "daemon":
        request.getfixturevalue("running_daemon")
