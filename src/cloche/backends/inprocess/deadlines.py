"""Stopping code that runs in a thread of this very process: an exception is put into that thread.

Of the ways to do this, tracing each line costs every cell a multiple of its time and takes the host's debugger and
coverage away, and a signal reaches the main thread only. An exception that the interpreter raises at the thread's next
instruction costs nothing until it is needed and reaches any thread. A cell that swallowed some of them meets the next
ones at its lines, where the interpreter can tell of these (3.12 on): since 3.13 an exception is raised one step later
than it is put, which for a loop around a `try` is always inside of it. What no way can do without a process to kill:
end a call into C before it returns, or code that catches everything it meets.

One thread watches all cells of the process. It never strikes while a module is being imported (half a package stays
broken for the whole host) or while code of ours is on top.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

StopReason = Literal["timeout", "cancelled"]

KNOCK = 0.01
"""Seconds between two strikes at a cell that swallowed the first."""
SWALLOWED = 3
"""Strikes after which they come at lines."""
LOOK_AGAIN = 0.001
"""Seconds until the next try at a cell that could not be struck where it was."""

_HOST = os.path.dirname(os.path.dirname(os.path.dirname(__file__))) + os.sep
_INTERRUPTIBLE = frozenset(
    os.path.join(os.path.dirname(_HOST[:-1]), "cloche_guest", *name.split(".")) + ".py"
    for name in ("values", "context_tools", "display", "looks", "guarded.objects", "guarded.builtins")
)
_GUEST = os.path.join(os.path.dirname(_HOST[:-1]), "cloche_guest") + os.sep
_raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
_TOOL_ID = 4  # none of those that are meant for debuggers, coverage and profilers
_TOOL_NAME = "cloche deadlines"


class CellStopped(KeyboardInterrupt):
    """Raised in a cell that is to end. Not an `Exception`: code that handles errors does not handle this."""

    __module__ = "builtins"


class Alarm:
    """One run of code and when it is to end. Belongs to the thread that made it."""

    __slots__ = ("due", "reason", "struck", "thread", "watched")

    def __init__(self, due: float) -> None:
        self.thread = threading.get_ident()
        self.due = due
        self.watched = False
        self.reason: StopReason = "timeout"
        self.struck = 0
        """How often it was told to stop."""


class Watchdog:
    """The thread that strikes. Started at first use; a forked child starts its own.

    The lock and the bell are C's: a strike cannot fall between taking one and giving it back.
    """

    def __init__(self) -> None:
        self._renew()
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._watched: set[Alarm] = set()
        self._stubborn: dict[int, Alarm] = {}
        """By thread: those that have swallowed their strikes."""
        self._asleep_until = 0.0
        self._started = False

    def watch(self, alarm: Alarm) -> None:
        """From now on, strike when it is due."""
        with self._lock:
            alarm.watched = True
            self._watched.add(alarm)
            if not self._started:
                self._started = True
                work = partial(self._work, self._lock, self._bell)
                threading.Thread(target=work, name="cloche-deadlines", daemon=True).start()
            elif alarm.due < self._asleep_until:  # most cells end before anybody need be woken for them
                self._bell.put(None)

    def rest(self, alarm: Alarm) -> None:
        """Not any more: afterwards nothing is on its way to the thread."""
        with self._lock:
            alarm.watched = False
            self._watched.discard(alarm)
            self._stubborn.pop(alarm.thread, None)
            if not self._stubborn:
                _stop_telling_lines()
            if alarm.struck and alarm.thread == threading.get_ident():
                _meet_what_is_on_its_way()

    def leave(self, alarm: Alarm) -> None:
        """`rest`, for the end of a run: a strike that comes in this very moment is let pass."""
        while True:
            try:
                self.rest(alarm)
            except CellStopped:
                continue
            return

    def hurry(self, alarm: Alarm, reason: StopReason) -> None:
        """It is due now. From any thread."""
        with self._lock:
            alarm.reason = reason
            alarm.due = 0.0
            if alarm.watched:
                self._bell.put(None)

    def _work(self, lock: threading.Lock, bell: SimpleQueue[None]) -> None:
        while lock is self._lock:
            with lock:
                now = perf_counter()
                for alarm in self._watched:
                    if alarm.due <= now:
                        self._strike(alarm, now)
                self._asleep_until = min((alarm.due for alarm in self._watched), default=float("inf"))
            left = self._asleep_until - perf_counter()
            with suppress(Empty):
                bell.get(timeout=None if left == float("inf") else min(max(left, 0.0), threading.TIMEOUT_MAX))

    def _at_line(self, code: CodeType, line: int) -> None:
        """In every thread, before each line."""
        if threading.get_ident() in self._stubborn and _may_be_struck(sys._getframe(1)):
            raise CellStopped

    def _strike(self, alarm: Alarm, now: float) -> None:
        frame = sys._current_frames().get(alarm.thread)
        if frame is None or not _may_be_struck(frame):
            alarm.due = now + LOOK_AGAIN
            return
        alarm.struck += 1
        alarm.due = now + KNOCK
        if alarm.struck > SWALLOWED and alarm.thread not in self._stubborn and _tell_lines(self._at_line):
            self._stubborn[alarm.thread] = alarm
        _raise_in(ctypes.c_ulong(alarm.thread), ctypes.py_object(CellStopped))


def _meet_what_is_on_its_way() -> None:
    """Raise here, and drop, the exception that may still be due in this thread.

    It is not taken back with a null pointer: CPython 3.11 then looks for it at every call for good, and a traced one
    (a debugger, coverage) never gets past its first instruction. There is one place for such an exception, so this one
    takes the place of an earlier one.
    """
    try:
        _raise_in(ctypes.c_ulong(threading.get_ident()), ctypes.py_object(CellStopped))
        for _ in range(1000):  # it is raised at the first turn
            pass
    except CellStopped:
        pass


def _tell_lines(callback: Callable[[CodeType, int], object]) -> bool:
    """Have every line that is about to run told; False where that cannot be had. It slows down the whole process."""
    monitoring: Any = getattr(sys, "monitoring", None)
    if monitoring is None:
        return False
    if monitoring.get_tool(_TOOL_ID) is None:
        monitoring.use_tool_id(_TOOL_ID, _TOOL_NAME)
        monitoring.register_callback(_TOOL_ID, monitoring.events.LINE, callback)
        monitoring.set_events(_TOOL_ID, monitoring.events.LINE)
    return bool(monitoring.get_tool(_TOOL_ID) == _TOOL_NAME)


def _stop_telling_lines() -> None:
    monitoring: Any = getattr(sys, "monitoring", None)
    if monitoring is not None and monitoring.get_tool(_TOOL_ID) == _TOOL_NAME:
        monitoring.set_events(_TOOL_ID, 0)
        monitoring.register_callback(_TOOL_ID, monitoring.events.LINE, None)
        monitoring.free_tool_id(_TOOL_ID)


def is_ours(filename: str) -> bool:
    """Whether code is a part of Cloche."""
    return filename.startswith((_HOST, _GUEST))


def _may_be_struck(top: FrameType) -> bool:
    name = top.f_code.co_filename
    if is_ours(name) and name not in _INTERRUPTIBLE:
        return False
    frame: FrameType | None = top
    while frame is not None and not frame.f_code.co_filename.startswith(_HOST):
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return False
        frame = frame.f_back
    return frame is not None  # else no cell of ours is running there at all


watchdog = Watchdog()
