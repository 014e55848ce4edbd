"""The imports that a zygote does ahead for all of its sessions."""

from __future__ import annotations

import posix as os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

LONGEST_REASON = 300


def import_all(names: list[str], tell: Callable[[dict[str, Any]], None]) -> dict[str, str]:
    """Import them; what cannot be is left out. Name -> why, of those.

    The host is told of each name first: a library may end the process or never return, and then the host knows which.
    """
    left_out = {}
    for name in names:
        tell({"importing": name})
        try:
            __import__(name)
        except BaseException as exc:
            left_out[name] = _reason(name, exc)
        threads = len(os.listdir("/proc/self/task")) - 1
        if threads:
            # A fork takes one thread along; what the others held stays locked for ever in every session.
            tell({"unfit": name, "why": "it leaves %d threads running" % threads})
            os._exit(1)
    return left_out


def _reason(name: str, exc: BaseException) -> str:
    absent = exc.name if isinstance(exc, ModuleNotFoundError) else None
    if absent is not None and (name + ".").startswith(absent + "."):
        return "not installed"
    return ("%s: %s" % (type(exc).__name__, exc))[:LONGEST_REASON]
