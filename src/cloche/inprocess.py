"""`InProcessSandbox`: guard-rails in place of a wall."""

from __future__ import annotations

from typing import ClassVar

from cloche.backends.inprocess.backend import InProcessBackend
from cloche.sandbox import SessionSandbox


class InProcessSandbox(SessionSandbox):
    """Runs code that keeps to guard-rails. Isolation: NONE: **this is no boundary**, and code that means harm gets out.

    `guard`: ``ast`` reads the code and refuses what stands on its lists; ``restricted`` compiles it with
    RestrictedPython, and `modules` are those that it may import. `worker`: ``process`` runs it in a process that can be
    killed; ``inline`` in the caller's own thread, with a time-out that code can overrun.
    """

    backend_type: ClassVar[type[InProcessBackend]] = InProcessBackend
