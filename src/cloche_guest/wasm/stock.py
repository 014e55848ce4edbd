"""Entry of a stock ``python.wasm``, which has no functions of ours: ``python -S bundle.py run stock``.

The wire is its standard input and output, read by waiting; what cells print becomes notifications.
"""

from __future__ import annotations

import posix as _os
import sys

from cloche_guest import signals
from cloche_guest.capture import PipeCapture, open_notifying
from cloche_guest.signals import safe_point
from cloche_guest.wasm.session import ComponentKernel
from cloche_guest.wire import CHUNK, Wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from cloche_guest.capture import Notify


class WaitingWire(Wire):
    """There is no other thread, and no way to look whether something has come."""

    def _lead(self, slot: Any, ready: Callable[[], bool]) -> None:
        try:
            while not ready():
                safe_point()
                self._pull()
        finally:
            self._leading = False

    def _pull(self) -> None:
        if self._body is None:
            Wire._pull(self)
            return
        message, body = self._body
        chunk = _os.read(self.reader, min(CHUNK, len(body) - self._filled))
        if not chunk:
            _os._exit(0)
        body[self._filled : self._filled + len(chunk)] = chunk
        self._filled += len(chunk)
        if self._filled == len(body):
            self._body = None
            self._deliver(message, body)


class NotifyingCapture(PipeCapture):
    """Both streams speak to the host."""

    def __init__(self, notify: Notify) -> None:
        # Pipes are what the parent class is about; its buffering is wanted here.
        self._stdout, self._stderr = open_notifying(notify, "stdout"), open_notifying(notify, "stderr")
        self._notify = notify

    def install(self) -> None:
        sys.stdout, sys.stderr = self._stdout, self._stderr

    def streams(self) -> tuple[Any, Any]:
        for name in ("stdout", "stderr"):
            if getattr(self, "_" + name).closed:
                setattr(self, "_" + name, open_notifying(self._notify, name))
        return self._stdout, self._stderr

    def begin_session(self) -> None:
        """Nothing is given out late here."""

    def end(self) -> None:
        """Nothing can be put back."""


class Marks:
    """In place of the host's functions: a call that means nothing to a guest of one thread is heard by the worker."""

    mark = staticmethod(getattr(_os, "sched_yield", int))


def main(argv: list[str]) -> None:
    """Run a session until the host goes away."""
    wire: Any = WaitingWire(0, 1)
    wire.host = Marks()
    capture = NotifyingCapture(wire.notify)
    capture.install()
    signals.install()
    ComponentKernel(wire, capture).serve()
    _os._exit(0)
