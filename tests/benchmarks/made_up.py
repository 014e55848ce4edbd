"""Rows whose samples are known beforehand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from benchmarks.row import Contender, Opener, Row, Sampler


def giving(*samples: float, calls: list[str] | None = None, name: str = "") -> Opener:
    """A contender that gives `samples` each round, and notes that it was asked."""

    @contextmanager
    def open_it() -> Iterator[Sampler]:
        def sample() -> Sequence[float]:
            if calls is not None:
                calls.append(name)
            return list(samples)

        yield sample

    return open_it


def not_installed() -> AbstractContextManager[Sampler]:
    """A peer whose package is missing."""
    raise ModuleNotFoundError("No module named 'peer_package'")


@contextmanager
def breaking_down() -> Iterator[Sampler]:
    """A peer that runs once and then fails."""
    left = [[4.0]]

    def sample() -> Sequence[float]:
        return left.pop()

    yield sample


def row(**changes: Any) -> Row:
    """A row with plain figures: ours 2, reference 8, peer 4."""
    fields: dict[str, Any] = {
        "name": "made.up",
        "unit": "ms",
        "what": "nothing",
        "ours": giving(2.0),
        "reference": Contender("the reference", giving(8.0)),
        "peer": Contender("the peer", giving(4.0)),
        "rounds": 2,
        "quick_rounds": 1,
    }
    return Row(**{**fields, **changes})
