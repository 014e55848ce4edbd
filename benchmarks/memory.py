"""How much memory a process needs: this one for something, others for themselves alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.row import NotHere

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_RESET = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"
MEGABYTE = 1e6


def can_measure_peak() -> bool:
    """Whether the system lets a process reset its own high-water mark (Linux does)."""
    return _RESET.exists()


def peak_growth(action: Callable[[], object]) -> int:
    """By how many bytes the resident set rises at most while `action` runs."""
    _RESET.write_text(_RESET_PEAK)
    before = _sum(Path("/proc/self/status"), "VmRSS")
    action()
    return max(0, _sum(Path("/proc/self/status"), "VmHWM") - before)


def private_bytes(pid: int) -> int:
    """What ends with this process: pages that no other process has."""
    return _rollup(pid, "Private_Clean", "Private_Dirty")


def proportional_bytes(pids: Iterable[int]) -> int:
    """What these need together: a page that several of them have counts once."""
    return sum(_rollup(pid, "Pss") for pid in pids)


def _rollup(pid: int, *fields: str) -> int:
    path = Path(f"/proc/{pid}/smaps_rollup")
    try:
        return _sum(path, *fields)
    except FileNotFoundError:
        raise NotHere("the system does not tell how much memory a process has (no smaps_rollup)") from None
    except PermissionError:
        raise NotHere("the memory of a process that cannot be inspected is told to root only") from None


def _sum(path: Path, *fields: str) -> int:
    found = {}
    for line in path.read_text().splitlines():
        name, _, rest = line.partition(":")
        if name in fields:
            found[name] = int(rest.split()[0]) * 1024
    if len(found) != len(fields):
        raise RuntimeError(f"{path} does not have {', '.join(fields)}")
    return sum(found.values())
