"""How large a pool is, and how long anybody may stay in it."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass, field

from cloche.errors import PolicyError

MIB = 1024 * 1024


def _limit(default: int | None, doc: str, *, minimum: int = 0) -> int:
    value: int = field(default=default, metadata={"doc": doc, "minimum": minimum})  # type: ignore[assignment]  # a field stands for its value
    return value


def _running() -> int:
    return max(2, 2 * (os.cpu_count() or 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLimits:
    """Limits of a pool as a whole. Immutable."""

    sessions: int = _limit(64, "Live sessions at once; those set aside do not count.", minimum=1)
    running: int = field(
        default_factory=_running,
        metadata={
            "doc": "Cells that run at once; more wait their turn. Owners who are there together share the processors.",
            "minimum": 1,
        },
    )
    waiting: int = _limit(256, "Requests of one owner that may wait for a place.", minimum=0)
    wait_ms: int = _limit(10_000, "How long a request waits for a place.", minimum=0)
    idle_ms: int = _limit(600_000, "A session that nobody used for so long is closed.", minimum=1)
    lifetime_ms: int = _limit(86_400_000, "No session lives longer, used or not.", minimum=1)
    set_aside_ms: int | None = _limit(
        30_000, "When a place is wanted, a session idle for so long gives up its own and is kept on disk; None: never."
    )
    kept_bytes: int = _limit(1024 * MIB, "Disk for sessions that were set aside.", minimum=0)

    def __post_init__(self) -> None:
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            if value is None and "None" in str(item.type):
                continue
            if type(value) is not int or value < item.metadata["minimum"]:
                raise PolicyError(
                    f"{item.name} must be a whole number of at least {item.metadata['minimum']}, not {value!r:.40}",
                    field=item.name,
                )
