"""What each wall guarantees at each tier, by which layers, and what proves it: one table for all who say so.

SECURITY.md's tables and the sentences of ``cloche doctor`` are made from it. Tests see to it that every proof exists,
that every technique that is named is expected to be held at that tier by the layers that are named, and that no layer
is described of which no guarantee makes use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloche.guarantees.jail import CONFINED_JAIL, SEALED_JAIL
from cloche.guarantees.layers import LAYERS
from cloche.guarantees.other_walls import NATIVE, PYODIDE, WASM
from cloche.guarantees.table import ATTEMPTS, HOST, Guarantee

if TYPE_CHECKING:
    from cloche.isolation import Isolation

__all__ = ["ATTEMPTS", "GUARANTEES", "HOST", "LAYERS", "Guarantee", "guarantees_of", "sentences_of"]

GUARANTEES: tuple[Guarantee, ...] = (*SEALED_JAIL, *CONFINED_JAIL, *WASM, *PYODIDE, *NATIVE)


def guarantees_of(wall: str, tier: Isolation) -> tuple[Guarantee, ...]:
    """Those of one wall at one tier. A daemon's sessions are behind the jail's."""
    wall = "jail" if wall == "daemon" else wall
    return tuple(found for found in GUARANTEES if found.wall == wall and tier in found.tiers)


def sentences_of(wall: str, tier: Isolation) -> dict[str, list[str]]:
    """What is kept, and what is not, as sentences for people."""
    found = guarantees_of(wall, tier)
    return {
        "kept": [f"{ATTEMPTS[one.attempt]}: {one.holds}" for one in found if one.layers],
        "not_kept": [f"{ATTEMPTS[one.attempt]}: {one.holds}" for one in found if not one.layers],
    }
