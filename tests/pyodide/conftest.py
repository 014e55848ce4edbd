"""One runtime for all tests, and one session for those that can share it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from cloche import SessionSandbox, create_sandbox
from cloche.backends.pyodide import release, runtime
from cloche.backends.pyodide.backend import PyodideBackend
from cloche.errors import BackendUnavailableError
from cloche.pytest_plugin import chosen_backends

MOST_CASES = 4
"""Of one behaviour, since each case starts a session of half a second. ``--backend=pyodide`` runs all."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "pyodide" in chosen_backends(config):
        return
    seen: Counter[str] = Counter()
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        behaviour = getattr(item, "originalname", item.name)
        of_the_suite = item.path.name == "test_conformance.py" and item.path.parent.name == "pyodide"
        seen[behaviour] += of_the_suite
        (left if seen[behaviour] > MOST_CASES else kept).append(item)
    if left:
        items[:] = kept
        config.hook.pytest_deselected(items=left)


@pytest.fixture(scope="session")
def pyodide() -> Iterator[runtime.Runtime]:
    """What sessions are started from; the npm registry is asked for it once."""
    try:
        found = runtime.ready() or runtime.set_up(print)
    except BackendUnavailableError as exc:
        if release.GIVEN in str(exc.remedy):
            pytest.skip(f"the npm registry cannot be reached from here: {exc.cause}")
        raise
    yield found
    PyodideBackend.shut_down()


@pytest.fixture(scope="module")
def shared(pyodide: runtime.Runtime) -> Iterator[SessionSandbox]:
    """A session that the tests of a module use one after another."""
    with create_sandbox(backend="pyodide") as sandbox:
        yield sandbox
