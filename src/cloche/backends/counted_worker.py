"""A worker of the jail as its channel sees it, whether it lives in a house of ours or in the daemon's."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cloche.session.channel import Channel, Counted, Exit
from cloche.session.processes import cpu_seconds

if TYPE_CHECKING:
    from cloche.backends.jail.gauges import CellCounter


class CountedWorker(Channel):
    """Its end is told on a pipe, and what it uses is counted by its group where there is one."""

    _end: int
    _counter: CellCounter
    _exit: Exit | None = None

    def watch_exit(self) -> int | None:
        return self._end

    def reap(self, timeout: float) -> Exit | None:
        from cloche.backends.jail.ends import read_exit

        if self._exit is None:
            found = read_exit(self._end, timeout)
            if found is not None and found.signal is not None and self._counter.ran_out():
                found = replace(found, out_of_memory=True)
            self._exit = found
        return self._exit

    def begin_cell(self) -> None:
        self._counter.begin_cell()

    def counted(self) -> Counted:
        return self._counter.counted()

    def cpu_seconds(self) -> float | None:
        """Of all processes of the session where they are counted, else of the worker."""
        counted = self._counter.cpu_seconds()
        return cpu_seconds(self.pid) if counted is None else counted
