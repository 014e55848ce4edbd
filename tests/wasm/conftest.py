"""The guest is built before the first test that needs it; no worker outlives the tests of its module."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

MISSING = [name for name in ("wasmtime", "componentize_py") if importlib.util.find_spec(name) is None]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/wasm/" in item.nodeid and MISSING:
            item.add_marker(
                pytest.mark.skip(reason=f"not installed: {', '.join(MISSING)} (pip install 'cloche[wasm]')")
            )


@pytest.fixture(scope="session")
def built_guest() -> None:
    from cloche.backends.wasm.building import ensure, silent

    ensure(None, silent())


@pytest.fixture(scope="module", autouse=True)
def no_worker_left(request: pytest.FixtureRequest) -> Iterator[None]:
    if MISSING:
        yield
        return
    request.getfixturevalue("built_guest")
    yield
    from cloche.backends.wasm.workers import workers

    workers.close()
