"""A bound for all that the process of a session holds: what the host's side of a guest takes is bounded with it."""

from __future__ import annotations

import resource

_STATM = "/proc/self/statm"
_DATA = 5  # pages of private memory that can be written


def bound_memory(room: int | None) -> None:
    """Let this process have so many bytes more than it has now; None: as many as it likes."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if room is None:
        resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
        return
    try:
        with open(_STATM, "rb") as file:
            held = int(file.read().split()[_DATA]) * resource.getpagesize()
    except OSError:
        return  # not Linux, which alone counts what is mapped
    limit = held + room
    resource.setrlimit(resource.RLIMIT_DATA, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
