"""What the kernel has counted of a session: read from files of its cgroup, by whoever drives it.

The files are kept open, and may be handed on: whoever has them need not be able to find the cgroup.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from cloche.session.channel import NOTHING_COUNTED, Counted

if TYPE_CHECKING:
    from collections.abc import Mapping

FILES: dict[int, dict[str, tuple[str, str]]] = {
    1: {
        "peak": ("memory", "memory.max_usage_in_bytes"),
        "events": ("memory", "memory.oom_control"),
        "cpu": ("cpuacct", "cpuacct.usage"),
    },
    2: {"peak": ("memory", "memory.peak"), "events": ("memory", "memory.events"), "cpu": ("cpu", "cpu.stat")},
}
"""By version of cgroups: the controller and the file that tell each."""
_MOST = 4096


class Gauges:
    """The counters of one session."""

    def __init__(
        self, version: int, paths: Mapping[str, str], memory: int | None = None, opened: Mapping[str, int] | None = None
    ) -> None:
        """`paths` by gauge, opened when they are first read; `opened`: those that somebody has opened for us."""
        self.version = version
        self._paths = dict(paths)
        self._opened = dict(opened or {})
        self.memory = memory
        """What may be used of it."""

    def open_all(self) -> dict[str, int]:
        """Those that there are, by gauge, to be handed on. They stay ours."""
        for name in self._paths:
            self._read(name)
        return dict(self._opened)

    @property
    def was_full(self) -> bool:
        """Whether its memory may have been used up; a look at what is at hand anyway."""
        peak, limit = self.peak_bytes(), self.memory
        return peak is None or limit is None or peak >= limit - limit // 16

    def oom_kills(self) -> int:
        """How many of its processes the kernel has ended for want of memory."""
        return int(_value(self._read("events"), b"oom_kill") or 0)

    def peak_bytes(self) -> int | None:
        """The most memory that was in use at once: processes and files of the session, not what it shares."""
        return _number(self._read("peak"))

    def cpu_seconds(self) -> float | None:
        """CPU time of all its processes, ended ones too."""
        text = self._read("cpu")
        if self.version == 1:
            nanoseconds = _number(text)
            return None if nanoseconds is None else nanoseconds / 1e9
        microseconds = _value(text, b"usage_usec")
        return None if microseconds is None else int(microseconds) / 1e6

    def _read(self, name: str) -> bytes:
        with suppress(OSError):
            if name not in self._opened and name in self._paths:
                self._opened[name] = os.open(self._paths[name], os.O_RDONLY | os.O_CLOEXEC)
            if name in self._opened:
                return os.pread(self._opened[name], _MOST, 0)
        return b""

    def close(self) -> None:
        """Let go of the files."""
        opened, self._opened = self._opened, {}
        self._paths = {}
        for descriptor in opened.values():
            os.close(descriptor)


class CellCounter:
    """What each cell of a session uses, by its gauges."""

    def __init__(self, gauges: Gauges | None) -> None:
        self.gauges = gauges
        self._cpu: float | None = None
        self._oom_kills = 0 if gauges is None else gauges.oom_kills()

    def begin_cell(self) -> None:
        """Count from here on."""
        gauges = self.gauges
        if gauges is not None:
            self._cpu = gauges.cpu_seconds()
            if gauges.was_full:  # before this cell, in a guest that was replaced by a copy of it
                self._oom_kills = gauges.oom_kills()

    def counted(self) -> Counted:
        """What was used since."""
        gauges = self.gauges
        if gauges is None:
            return NOTHING_COUNTED
        before, now = self._cpu, gauges.cpu_seconds()
        kills_before = self._oom_kills
        if gauges.was_full:
            self._oom_kills = gauges.oom_kills()
        return Counted(
            cpu_ms=None if before is None or now is None else (now - before) * 1000,
            peak_bytes=gauges.peak_bytes(),
            oom_kills=self._oom_kills - kills_before,
        )

    def ran_out(self) -> bool:
        """Whether the kernel has ended something here for want of memory."""
        return self.gauges is not None and self.gauges.oom_kills() > self._oom_kills

    def cpu_seconds(self) -> float | None:
        """Of all processes of the session."""
        return None if self.gauges is None else self.gauges.cpu_seconds()


def _number(text: bytes) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


def _value(text: bytes, key: bytes) -> bytes | None:
    for line in text.splitlines():
        word, _, value = line.partition(b" ")
        if word == key:
            return value
    return None
