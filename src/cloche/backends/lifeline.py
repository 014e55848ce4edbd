"""What ends guests with their host, however that ends: a pipe whose writing end only the host holds."""

from __future__ import annotations

import fcntl
import os
import signal
from contextlib import suppress

_F_SETSIG = 10


class Lifeline:
    """One pipe for the whole process: guests hold the reading end, and the kernel kills them when ours closes."""

    def __init__(self) -> None:
        self._ends: tuple[int, int] | None = None
        os.register_at_fork(after_in_child=self._forget)

    def reader(self) -> int:
        """A descriptor for one guest; the caller closes it when the guest has its own.

        Opened anew each time: whom the kernel signals is a matter of the open file, and not of the pipe.
        """
        if self._ends is None:
            self._ends = os.pipe()
        return os.open(f"/proc/self/fd/{self._ends[0]}", os.O_RDONLY | os.O_CLOEXEC)

    def _forget(self) -> None:
        """A forked child must not keep its parent's guests alive."""
        if self._ends is not None:
            for end in self._ends:
                with suppress(OSError):
                    os.close(end)
            self._ends = None


def kill_group_at_end(reader: int, group: int) -> None:
    """Have the kernel kill a process group when the host is gone, as long as somebody in it holds `reader`.

    For a guest that cannot say so itself.
    """
    fcntl.fcntl(reader, fcntl.F_SETOWN, -group)
    fcntl.fcntl(reader, _F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(reader, fcntl.F_SETFL, fcntl.fcntl(reader, fcntl.F_GETFL) | os.O_ASYNC)


lifeline = Lifeline()
