"""One cache for all tests of the command, sessions of its own for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.command import Cloche
from tests.cli.typewriter import Typewriter


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def cloche(tmp_path: Path, shared_cache: Path) -> Cloche:
    here, temporary = tmp_path / "here", tmp_path / "tmp"
    here.mkdir()
    temporary.mkdir()
    return Cloche(cwd=here, sessions=tmp_path / "sessions", cache=shared_cache, temporary=temporary)


@pytest.fixture
def typewriter(cloche: Cloche) -> Iterator[Typewriter]:
    with Typewriter(cloche) as machine:
        yield machine
