"""The jail's compiled programs: where they are, or why the jail does without them."""

from __future__ import annotations

import os
from functools import cache
from typing import NamedTuple

PURE_VARIABLE = "CLOCHE_JAIL_PURE"
"""Set: the jail runs on its Python code alone, as where no compiler was at hand when Cloche was installed."""


class Programs(NamedTuple):
    """What the package's build hook made of ``cloche_guest/jail/native``."""

    init: str
    """The jail's own processes: its init, and the PID 1 of every seat."""
    library: str
    """Loaded into the zygote: the steps of a worker that are too many, or impossible, for Python."""


def programs() -> Programs | None:
    """Those to use; None where the jail runs on Python alone."""
    return None if os.environ.get(PURE_VARIABLE) else _built()


def describe_programs() -> str:
    """For ``cloche doctor``."""
    if programs() is not None:
        return "compiled"
    if os.environ.get(PURE_VARIABLE):
        return f"pure Python, slower ({PURE_VARIABLE} is set)"
    return "pure Python, slower (install a C compiler and then Cloche again)"


@cache
def _built() -> Programs | None:
    import cloche_guest.jail

    folder = os.path.join(os.path.dirname(os.path.abspath(cloche_guest.jail.__file__)), "native", "built")
    init, library = os.path.join(folder, "cloche-jail-5"), os.path.join(folder, "libcloche-jail-5.so")
    found = os.access(init, os.X_OK) and os.access(library, os.R_OK)
    return Programs(init, library) if found else None
