"""What a session may have of the machine, and the most that it has had."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LIMITED = ("data", "fsize", "nofile", "nproc", "core")


def limit_resources(limits: dict[str, Any]) -> None:
    """The operating system's own limits, where it has them."""
    wanted = {key: limits[key] for key in LIMITED if limits.get(key) is not None}
    if not wanted:
        return
    import resource

    for key, amount in wanted.items():
        which = getattr(resource, "RLIMIT_" + key.upper(), None)
        if which is None:
            continue
        _, hard = resource.getrlimit(which)
        top = amount if hard == resource.RLIM_INFINITY else min(amount, hard)
        resource.setrlimit(which, (top, top))


def peak_bytes() -> int | None:
    """The most memory this process has had; only where limits were set, and the module is loaded anyway."""
    resource = sys.modules.get("resource")
    if resource is None:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak if sys.platform == "darwin" else peak * 1024)
