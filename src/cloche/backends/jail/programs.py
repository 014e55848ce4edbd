"""The jail's compiled programs, without which it has no namespaces: where they are, or how to get them."""

from __future__ import annotations

import os
from typing import NamedTuple

import cloche_guest.jail

FOLDER = os.path.join(os.path.dirname(os.path.abspath(cloche_guest.jail.__file__)), "native", "built")
MISSING = "the jail's compiled programs are not installed"
REMEDY = (
    "install a C compiler (gcc or clang) and then Cloche again: pip install --force-reinstall --no-cache-dir cloche"
)


class Programs(NamedTuple):
    """What the package's build hook made of ``cloche_guest/jail/native``."""

    init: str
    """The jail's own processes: its init, and the PID 1 of every seat."""
    library: str
    """Loaded into the zygote: the steps of a worker that are too many, or impossible, for Python."""


def programs() -> Programs | None:
    """Those of this installation; None where they were not built, and the jail can be a confined one only."""
    init, library = os.path.join(FOLDER, "cloche-jail-7"), os.path.join(FOLDER, "libcloche-jail-7.so")
    found = os.access(init, os.X_OK) and os.access(library, os.R_OK)
    return Programs(init, library) if found else None


def describe_programs() -> str:
    """For ``cloche doctor``."""
    return "compiled" if programs() is not None else f"missing, so no namespaces ({REMEDY})"
