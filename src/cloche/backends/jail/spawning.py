"""Processes of our own that are started with given descriptors and nothing else.

What `subprocess` does, without its import: that would be a good part of what a first session takes.
"""

from __future__ import annotations

import fcntl
import os
import select
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_FIRST = 3


class Child:
    """A running process. Its input and output are nowhere, but for what is given."""

    def __init__(
        self,
        command: Sequence[str],
        descriptors: Sequence[int] = (),
        *,
        stdin: int | None = None,
        stderr: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`descriptors` are its 3, 4, ...; `stderr`: it may complain where we do. It has a session of its own."""
        given = [*descriptors] if stdin is None else [*descriptors, stdin]
        beyond = _FIRST + len(given)  # the numbers that they are to have there
        moved = [fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, beyond) for number in given]
        actions: list[tuple[Any, ...]] = [
            (os.POSIX_SPAWN_OPEN, number, "/dev/null", os.O_RDWR, 0) for number in ((0, 1) if stderr else (0, 1, 2))
        ]
        actions += [(os.POSIX_SPAWN_DUP2, source, _FIRST + index) for index, source in enumerate(moved)]
        if stdin is not None:
            actions[len(actions) - 1] = (os.POSIX_SPAWN_DUP2, moved[-1], 0)
        try:
            self.pid = os.posix_spawn(command[0], list(command), environment or {}, file_actions=actions, setsid=True)
        finally:
            for number in moved:
                os.close(number)
        self._ended = False
        self.status: int | None = None
        """How it ended; None while it has not, or when somebody else was told."""

    def wait(self, timeout: float) -> bool:
        """Whether it has ended within `timeout` seconds."""
        if self._ended:
            return True
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:  # somebody else waits for all children
            self._ended = True
            return True
        try:
            poll = select.poll()
            poll.register(handle, select.POLLIN)
            if not poll.poll(timeout * 1000):
                return False
        finally:
            os.close(handle)
        with suppress(ChildProcessError):
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self._ended = True
        return True

    def kill(self) -> None:
        """End it, and wait for that."""
        if not self._ended:
            import signal

            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)  # not yet waited for, so the number is still its own
            with suppress(ChildProcessError):
                os.waitpid(self.pid, 0)
            self._ended = True

    @property
    def alive(self) -> bool:
        """Whether it still is there."""
        return not self.wait(0)

    def leave(self) -> None:
        """In a forked child: it is our parent's."""
        self._ended = True
