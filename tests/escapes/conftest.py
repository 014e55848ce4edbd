"""Canaries for the whole file: they repair themselves after each look."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cloche.escapes import Canaries


@pytest.fixture(scope="module")
def canaries() -> Iterator[Canaries]:
    with Canaries() as found:
        yield found
