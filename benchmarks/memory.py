"""How much memory this process needs for something."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_RESET = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")
_RESET_PEAK = "5"


def can_measure_peak() -> bool:
    """Whether the system lets a process reset its own high-water mark (Linux does)."""
    return _RESET.exists()


def peak_growth(action: Callable[[], object]) -> int:
    """By how many bytes the resident set rises at most while `action` runs."""
    _RESET.write_text(_RESET_PEAK)
    before = _field("VmRSS")
    action()
    return max(0, _field("VmHWM") - before)


def _field(name: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"{_STATUS} has no {name}")
