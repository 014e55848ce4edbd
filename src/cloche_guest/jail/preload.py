"""The imports that a zygote does ahead for all of its sessions."""

from __future__ import annotations

import posix as os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

LONGEST_REASON = 300
_KEPT = (
    ("platform", "_uname_cache", None),
    ("platform", "_platform_cache", dict),
    ("tempfile", "tempdir", None),
    ("tempfile", "_name_sequence", None),
    ("uuid", "_node", None),
    ("uuid", "_last_timestamp", None),
    ("mimetypes", "inited", False),
)
"""What standard modules keep of a machine, and what it is before they have looked. `random` is seeded anew by every
fork, `time.tzname` with the environment, and `locale`, `socket` and `ssl` keep nothing."""


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
    forget_machine()
    return left_out


def forget_machine() -> None:
    """Empty what modules have kept of the machine on which they were imported: a session has another name, other
    folders and another environment."""
    for name, attribute, empty in _KEPT:
        module = sys.modules.get(name)
        if module is not None and hasattr(module, attribute):
            setattr(module, attribute, empty() if callable(empty) else empty)


def _reason(name: str, exc: BaseException) -> str:
    absent = exc.name if isinstance(exc, ModuleNotFoundError) else None
    if absent is not None and (name + ".").startswith(absent + "."):
        return "not installed"
    return ("%s: %s" % (type(exc).__name__, exc))[:LONGEST_REASON]
