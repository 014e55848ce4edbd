"""What was measured for a row, and the numbers made of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.row import Row, Target


def percentile(samples: Sequence[float], percent: float) -> float:
    """The smallest sample that at least `percent` of all samples do not exceed (nearest rank)."""
    if not samples:
        raise ValueError("no samples")
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


@dataclass(slots=True)
class Measurement:
    """Samples of one row, all in the row's unit."""

    row: Row
    ours: list[float] = field(default_factory=list)
    reference: list[float] = field(default_factory=list)
    peer: list[float] = field(default_factory=list)
    peer_trouble: str | None = None
    """Why the peer has no figures."""

    @property
    def p50(self) -> float:
        """The median."""
        return percentile(self.ours, 50)

    @property
    def p99(self) -> float:
        """What 99 of 100 samples are at least as good as."""
        return percentile(self.ours, 1 if self.row.higher_is_better else 99)

    @property
    def reference_p50(self) -> float:
        """The reference's median."""
        return percentile(self.reference, 50)

    @property
    def peer_p50(self) -> float | None:
        """The peer's median; None when it did not run."""
        return percentile(self.peer, 50) if self.peer_trouble is None else None

    @property
    def ratio(self) -> float:
        """Ours by the reference's."""
        return self.p50 / self.reference_p50

    @property
    def peer_ratio(self) -> float | None:
        """Ours by the peer's; None when it did not run."""
        peer = self.peer_p50
        return None if peer is None else self.p50 / peer

    def met(self, target: Target) -> bool | None:
        """Whether a target is met; None when it cannot be told because the peer did not run."""
        value = {"p50": self.p50, "ratio": self.ratio, "peer_ratio": self.peer_ratio}[target.quantity]
        return None if value is None else target.met_by(value)

    def record(self) -> dict[str, Any]:
        """The row as it is written to the results file."""
        return {
            "name": self.row.name,
            "unit": self.row.unit,
            "p50": _rounded(self.p50),
            "p99": _rounded(self.p99),
            "n": len(self.ours),
            "reference": self.row.reference.name,
            "reference_p50": _rounded(self.reference_p50),
            "ratio": _rounded(self.ratio),
            "peer": self.row.peer.name,
            "peer_p50": _rounded(self.peer_p50),
            "peer_ratio": _rounded(self.peer_ratio),
        }


def _rounded(value: float | None) -> float | None:
    """Five significant digits: more is noise."""
    return None if value is None else float(f"{value:.5g}")
