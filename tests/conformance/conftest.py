"""The conformance suite, on every backend that is part of this package."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cloche.backends.daemon.link import links
from cloche.backends.daemon.places import SOCKET_VARIABLE, Places
from cloche.conformance.fixtures import cloche_api, open_sandbox, portal, run_on, sandbox
from cloche.daemon import lifecycle
from cloche.pytest_plugin import chosen_backends

__all__ = ["cloche_api", "open_sandbox", "portal", "sandbox"]

BACKENDS = (
    "native",
    "fake",
    "jail",
    "daemon",
    "wasm",
)


LOOP_TOPICS = ("test_cancel", "test_bridges", "test_batches", "test_lifecycle", "test_parity")
FAKE_TOPICS = (*LOOP_TOPICS, "test_cells", "test_context", "test_files", "test_output", "test_results")
GUEST_TOPICS = ("test_context_tools", "test_displays", "test_errors", "test_values")


def is_told_by_another(backend: str, api: str, topic: str, *, on_trio: bool) -> bool:
    """Whether what a run would show is shown by that of another: such a run is left to the slow tier.

    The two APIs differ in their drivers, which know nothing of backends: all of it runs on both for one wall, and for
    the others what an event loop matters for; on trio, for two. The fake is a native guest behind a script. A daemon's
    session is one of the jail, and its guest knows nothing of the door.
    """
    if on_trio:
        return backend not in ("native", "jail")
    if api == "async" and backend != "native":
        return topic not in LOOP_TOPICS
    return (backend == "fake" and topic not in FAKE_TOPICS) or (backend == "daemon" and topic in GUEST_TOPICS)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each behaviour on each backend."""
    run_on(metafunc, BACKENDS)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave to the slow tier what another run shows. ``--backend=NAME`` runs all of it, whatever the tier."""
    if chosen_backends(config):
        return
    for item in items:
        called = getattr(getattr(item, "callspec", None), "params", {})
        topic = getattr(getattr(item, "function", None), "__module__", "").rpartition(".")[2]
        on_trio = item.path.stem == "test_on_trio"
        if "cloche_backend" in called and is_told_by_another(
            called["cloche_backend"], called["cloche_api"], topic, on_trio=on_trio
        ):
            item.add_marker(pytest.mark.slow)


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
def daemon_where_it_is_wanted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "cloche_backend" in request.fixturenames and request.getfixturevalue("cloche_backend") == "daemon":
        monkeypatch.setenv(SOCKET_VARIABLE, str(request.getfixturevalue("running_daemon").socket))
