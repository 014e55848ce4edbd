"""What a row of the table is: a quantity, who is measured, and what is aimed at.

A contender is opened once (that part is not measured) and then asked for samples, again and again. Everything
that a row measures is in the row's own unit, so that a ratio is one number by another.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Literal

Sampler = Callable[[], Sequence[float]]
Opener = Callable[[], AbstractContextManager[Sampler]]
Unit = Literal["ms", "us", "MB/s", "MB", "/s", "tokens"]
Quantity = Literal["p50", "ratio", "peer_ratio"]

_COMPARE: dict[str, Callable[[float, float], bool]] = {"<=": operator.le, ">=": operator.ge}


class NotHere(Exception):
    """Raised by one of our own contenders: this machine cannot do it, or cannot measure it. Says why."""


@dataclass(frozen=True, slots=True)
class Contender:
    """Somebody who does the same work."""

    name: str
    open: Opener


@dataclass(frozen=True, slots=True)
class Target:
    """What a row aims at: a bound on its median, or on one of its two ratios."""

    quantity: Quantity
    relation: Literal["<=", ">="]
    bound: float

    def met_by(self, value: float) -> bool:
        """Whether `value` of that quantity is within the bound."""
        return _COMPARE[self.relation](value, self.bound)

    def text(self, unit: Unit) -> str:
        """As the table shows it."""
        if self.quantity == "peer_ratio" and self.relation == "<=":
            return f"{1 / self.bound:g} x faster than the peer" if self.bound < 1 else f"<= {self.bound:g} x peer"
        return f"{self.relation} {self.bound:g} {unit if self.quantity == 'p50' else 'x reference'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table."""

    name: str
    unit: Unit
    what: str
    ours: Opener
    reference: Contender
    peer: Contender
    rounds: int
    quick_rounds: int = 3
    peer_rounds: int | None = None
    """In how many of the rounds the peer is measured too, where it takes seconds; None: in all."""
    higher_is_better: bool = False
    targets: tuple[Target, ...] = field(default=())
