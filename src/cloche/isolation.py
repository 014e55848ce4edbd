"""Isolation tiers and the layers a result reports."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import IntEnum

MASK_VARIABLE = "CLOCHE_MASK_LAYERS"


class Isolation(IntEnum):
    """How strong the wall is. Ordered: a policy may demand a minimum."""

    NONE = 0
    """Same process as the host. Guard-rails at most."""
    PROCESS = 1
    """A process of its own; the operating system's ordinary limits, nothing more."""
    CONFINED = 2
    """System calls and files are filtered (Landlock and seccomp, or Deno's permissions)."""
    SEALED = 3
    """The guest sees only what it was given (a namespace view, or WebAssembly)."""
    METERED = 4
    """Sealed, and memory and CPU are counted and bounded (cgroups, or fuel)."""

    @classmethod
    def parse(cls, value: Isolation | str | int) -> Isolation:
        """Accept a tier, its name in any case, or its number."""
        if isinstance(value, str):
            return cls[value.strip().upper()]
        return cls(value)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of a wall: whether it is there, what it does, and how to get it."""

    name: str
    active: bool
    purpose: str
    remedy: str | None = None


def masked_layers() -> frozenset[str]:
    """Layers switched off by ``CLOCHE_MASK_LAYERS`` (comma separated): how tests prove that reports tell the truth."""
    return frozenset(part.strip() for part in os.environ.get(MASK_VARIABLE, "").split(",") if part.strip())
