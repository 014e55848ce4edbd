"""One ordinary user for all tests here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.ordinary_user import OrdinaryUser, ordinary_user


@pytest.fixture(scope="session")
def ordinary() -> Iterator[OrdinaryUser]:
    with ordinary_user() as found:
        yield found
