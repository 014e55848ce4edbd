"""One executor of each kind for most tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.executor.kinds import KINDS, Executing, executing, options_of


@pytest.fixture(scope="session", params=KINDS)
def execute(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Executing]:
    with executing(**options_of(request.param, tmp_path_factory.mktemp(request.param))) as found:
        found.until(lambda health: health.ready == 2)
        yield found
