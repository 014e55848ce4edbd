"""One runtime for all tests, and one session for those that can share it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from cloche import SessionSandbox, create_sandbox
from cloche.backends.pyodide import release, runtime
from cloche.backends.pyodide.backend import PyodideBackend
from cloche.errors import BackendUnavailableError

MOST_CASES = 2
"""Of one behaviour in `make test`, since each case starts a session of half a second. The others are slow tests."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    seen: Counter[str] = Counter()
    for item in items:
        behaviour = getattr(item, "originalname", item.name)
        of_the_suite = item.path.name == "test_conformance.py" and item.path.parent.name == "pyodide"
        seen[behaviour] += of_the_suite
        if seen[behaviour] > MOST_CASES:
            item.add_marker(pytest.mark.slow)


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
