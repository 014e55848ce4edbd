"""What cells in this process write: each thread's to its own cell, and everybody else's where it always went.

A cell's own `print` writes to its cell directly. Libraries write to `sys.stdout`: while any cell runs, a stand-in that
knows the threads of cells is in its place, and it passes on what other threads write.
"""

from __future__ import annotations

import io
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloche.session.actions import Stream
    from cloche.session.output import OutputSink

_NAMES: tuple[Stream, Stream] = ("stdout", "stderr")


class CellOutput(io.TextIOBase):
    """One stream of one session: text goes to the sink of the running cell. Between cells it goes nowhere."""

    encoding = "utf-8"
    errors = "backslashreplace"

    def __init__(self, name: Stream) -> None:
        self._stream: Stream = name
        self._sink: OutputSink | None = None
        self._listener: Callable[[Stream, str], object] | None = None
        self._unheard = ""

    def begin(self, sink: OutputSink, listener: Callable[[Stream, str], object] | None) -> None:
        """A cell begins."""
        self._sink, self._listener, self._unheard = sink, listener, ""

    def end(self) -> None:
        """It is over, or nothing that it writes counts any more."""
        self._sink = self._listener = None

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        sink, listener = self._sink, self._listener
        if sink is not None:
            kept = sink.feed(text.encode("utf-8", "backslashreplace"))
            if listener is not None:
                self._unheard += kept
                if "\n" in kept:
                    self.flush()
        return len(text)

    def flush(self) -> None:
        """A listener hears whole lines, and the rest when something else is to be heard after it."""
        text, self._unheard = self._unheard, ""
        if text and self._listener is not None:
            self._listener(self._stream, text)


class _Router(io.TextIOBase):
    """Stands where `sys.stdout` or `sys.stderr` was."""

    def __init__(self, original: Any, cells: dict[int, CellOutput]) -> None:
        self._original = original
        self._cells = cells

    @property
    def original(self) -> Any:
        return self._original

    def _target(self) -> Any:
        return self._cells.get(threading.get_ident(), self._original)

    def write(self, text: str) -> int:
        written: int = self._target().write(text)
        return written

    def flush(self) -> None:
        target = self._target()
        if target is not None:  # there are processes without
            target.flush()

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return bool(self._target().isatty())

    def fileno(self) -> int:
        return int(self._target().fileno())

    def close(self) -> None:
        """Whoever means the stream closes the stream; this is only in its place."""

    @property
    def encoding(self) -> str:  # type: ignore[override]  # an attribute there
        return str(getattr(self._target(), "encoding", "utf-8"))

    @property
    def buffer(self) -> Any:
        return self._target().buffer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)


class Streams:
    """Puts the stand-ins in place while there are cells, and takes them away after the last."""

    def __init__(self) -> None:
        self._renew()
        os.register_at_fork(after_in_child=self._renew_lock)

    def _renew(self) -> None:
        self._cells: dict[Stream, dict[int, CellOutput]] = {name: {} for name in _NAMES}
        self._running = 0
        self._renew_lock()

    def _renew_lock(self) -> None:
        self._lock = threading.Lock()

    def lend(self, outputs: tuple[CellOutput, CellOutput]) -> tuple[CellOutput | None, CellOutput | None]:
        """What this thread writes is a cell's from now on; whose it was before, for `give_back`."""
        me = threading.get_ident()
        with self._lock:
            self._running += 1
            for name in _NAMES:
                if not isinstance(getattr(sys, name), _Router):
                    setattr(sys, name, _Router(getattr(sys, name), self._cells[name]))
        out, err = self._cells["stdout"], self._cells["stderr"]
        before = out.get(me), err.get(me)
        out[me], err[me] = outputs
        return before

    def give_back(self, before: tuple[CellOutput | None, CellOutput | None]) -> None:
        """Undo `lend`. A stream that somebody else has put in place meanwhile is left there."""
        me = threading.get_ident()
        for name, output in zip(_NAMES, before, strict=True):
            if output is None:
                self._cells[name].pop(me, None)
            else:
                self._cells[name][me] = output
        with self._lock:
            self._running -= 1
            if self._running:
                return
            for name in _NAMES:
                found = getattr(sys, name)
                if isinstance(found, _Router):
                    setattr(sys, name, found.original)

    def set_aside(self) -> tuple[CellOutput | None, CellOutput | None]:
        """The host's own code runs in this thread for a while: what it writes is the host's."""
        me = threading.get_ident()
        return self._cells["stdout"].pop(me, None), self._cells["stderr"].pop(me, None)

    def resume(self, aside: tuple[CellOutput | None, CellOutput | None]) -> None:
        """Undo `set_aside`."""
        me = threading.get_ident()
        for name, output in zip(_NAMES, aside, strict=True):
            if output is not None:
                self._cells[name][me] = output


streams = Streams()
