"""A session without anybody at its ends: all that every session does first, done once in the zygote.

What is made there, and what has run there often enough for the interpreter to have made it fast, is shared by all
sessions as long as they leave it as it is: each of them is quicker to answer, and has less memory of its own.
"""

from __future__ import annotations

import posix as os

from cloche_guest import capture, start
from cloche_guest.jail.branches import Branches
from cloche_guest.jail.places import WORKSPACE
from cloche_guest.rehearsal import rehearse
from cloche_guest.signals import state

REHEARSALS = 12
"""From the eighth call on the interpreter specialises a function's instructions, and writes into them no more."""


class PreparedSession:
    """Made in the zygote; begins in a process that was forked from it by `fork`."""

    def __init__(self) -> None:
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        wire, line = capture.keep_private(null), capture.keep_private(null)
        complaints = capture.keep_private(2)
        self._kernel = start.prepare(wire, wire, (os.dup(null), os.dup(null)))
        self._branches = Branches(self._kernel, line)
        os.dup2(complaints, 2)  # the zygote's own
        os.close(complaints)
        os.close(null)

    def rehearse(self) -> None:
        """Serve what is asked first, over and over."""
        for _ in range(REHEARSALS):
            rehearse(self._kernel, self._kernel.link, WORKSPACE)

    def hold(self, context: str) -> None:
        """In a template: what sessions that are forked from here find as their context, if their host says so."""
        self._kernel.held = context

    def fork(self) -> int:
        """0 in the process in which the session is to begin."""
        state.branching = True
        try:
            return os.fork()
        finally:
            state.branching = False

    def begin(self, wire: int, out: int, err: int, line: int, *, ahead: bool) -> None:
        """Be the session over these descriptors, which are closed. `ahead`: nobody waits for it yet. Never returns."""
        self._kernel.link.begin_again(wire)
        self._kernel.capture.begin_again(out, err)
        self._branches.begin_again(line)
        for descriptor in (wire, out, err, line):
            os.close(descriptor)
        if ahead and not self._kernel.link.waits():
            rehearse(self._kernel, self._kernel.link, WORKSPACE)
        self._kernel.serve()
        os._exit(0)
