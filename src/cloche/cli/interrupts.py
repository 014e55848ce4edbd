"""Signals: Ctrl-C cancels the cell and keeps the session; an order to end is obeyed after tidying up."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from cloche.sandbox import SessionSandbox

_REPEAT = 0.05
_ENDINGS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


@contextmanager
def cancel_on_interrupt(sandbox: SessionSandbox) -> Iterator[None]:
    """Within: the first Ctrl-C cancels what runs in `sandbox`, a second one is KeyboardInterrupt as ever."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals belong to the main thread
        return
    done = threading.Event()
    presses: SimpleQueue[bool] = SimpleQueue()  # its `put` takes no lock, and a handler may take none
    was_pressed = False

    def insist() -> None:
        presses.get()
        # cancel() is harmless when idle; a key pressed a moment before the cell runs must not be lost
        while not done.is_set():
            sandbox.cancel()
            done.wait(_REPEAT)

    def pressed(_number: int, _frame: FrameType | None) -> None:
        nonlocal was_pressed
        if was_pressed:
            raise KeyboardInterrupt
        was_pressed = True
        presses.put(True)

    # Before it is needed: a handler that started a thread could interrupt the starting of another, and wait for itself.
    insisting = threading.Thread(target=insist, name="cloche-cancel", daemon=True)
    insisting.start()
    before = signal.signal(signal.SIGINT, pressed)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        done.set()
        presses.put(True)
        insisting.join()


def read_line() -> str:
    """A line from the terminal. `input()` loses a Ctrl-C that comes in the moment before it begins to wait."""
    if threading.current_thread() is not threading.main_thread():
        return sys.stdin.readline()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    before = signal.set_wakeup_fd(wake)
    try:
        select.select([sys.stdin, woken], [], [])  # whoever was signalled a moment ago finds it in the pipe
    finally:
        signal.set_wakeup_fd(before)
        os.close(woken)
        os.close(wake)
    return sys.stdin.readline()


@contextmanager
def tidy_ending() -> Iterator[None]:
    """Within: SIGTERM and SIGHUP unwind the stack, so that sandboxes are destroyed, and end with 128 + signal."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, _frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    before: dict[int, Any] = {number: signal.signal(number, leave) for number in _ENDINGS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
