"""The topics in which an event loop matters, on trio: elsewhere the async API runs on asyncio."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from cloche.conformance import load_behaviours

TOPICS = ("test_cancel", "test_bridges", "test_batches", "test_lifecycle")

pytestmark = pytest.mark.cloche_only("async")


@pytest.fixture(scope="module")
def portal() -> Iterator[BlockingPortal]:
    with start_blocking_portal("trio") as portal:
        yield portal


globals().update(
    {name: test for name, test in load_behaviours().items() if test.__module__.rpartition(".")[2] in TOPICS}
)
