"""Descriptors 1 and 2 of a component: its host reads them as it does capture pipes, and they cannot be put back."""

from __future__ import annotations

import posix as _os
import sys

from cloche_guest.capture import PipeCapture, open_notifying

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche_guest.capture import Notify


class ConsoleCapture(PipeCapture):
    """1 and 2 are what they have to be from the start. Where a cell has closed one, its stream sends notifications."""

    def __init__(self, notify: Notify) -> None:
        # Pipes are what the parent class is about; its streams are wanted here.
        self._stdout: Any = sys.stdout
        self._stderr: Any = sys.stderr
        self._notify = notify
        self._kinds: dict[int, int | None] = {}

    def begin_session(self) -> None:
        """Note what the descriptors are. Written to once, so that WASI has given them out in every session alike."""
        for target in (1, 2):
            _write_nothing(target)
        self._kinds = {target: _kind(target) for target in (1, 2)}

    def end(self) -> None:
        """A number that was closed may have become that of a file."""
        for target, kind in self._kinds.items():
            if kind is not None and _kind(target) != kind:
                self._kinds[target] = None
                name = "stdout" if target == 1 else "stderr"
                stream = open_notifying(self._notify, name)
                setattr(self, "_" + name, stream)
                setattr(sys, "__%s__" % name, stream)


def _write_nothing(descriptor: int) -> None:
    try:
        _os.write(descriptor, b"")
    except OSError:
        pass


def _kind(descriptor: int) -> int | None:
    try:
        return _os.fstat(descriptor).st_mode
    except OSError:
        return None
