"""Reading the clock."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

MILLISECONDS = 1e3
MICROSECONDS = 1e6


def timed(action: Callable[[], object], scale: float = MILLISECONDS) -> float:
    """How long `action` takes, in units of which `scale` make a second."""
    started = perf_counter()
    action()
    return (perf_counter() - started) * scale
