"""No jail outlives the test that started it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cloche.backends.jail.houses import houses
from cloche.backends.jail.programs import PURE_VARIABLE, programs


@pytest.fixture(autouse=True)
def no_jail_left() -> Iterator[None]:
    yield
    houses.close()


@pytest.fixture(params=["compiled", "pure"])
def either_path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The jail's C programs, and the Python code that stands in where they could not be built."""
    path: str = request.param
    if path == "pure":
        monkeypatch.setenv(PURE_VARIABLE, "1")
    elif programs() is None:
        pytest.skip("the jail's C programs are not built here (make install, or python hatch_build.py)")
    return path
