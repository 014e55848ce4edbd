"""Interrupts: the handler decides by *where* the main thread is, so there is no window to race.

A Python-level handler runs in the main thread between bytecodes and is given the interrupted frame. In kernel
frames (all compiled under one file name) an interrupt is noted and raised at the next safe point; in user frames
it is raised at once; between cells it is ignored. SIGINT asks; SIGUSR2 insists: its exception comes back each time
it is swallowed, until the cell is left.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # no stub; `signal` itself costs an import of enum
import posix
import sys
from _thread import get_ident, interrupt_main
from time import perf_counter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any

KERNEL_FILE = sys._getframe().f_code.co_filename
DATA_FILE = "<cloche data>"  # modules that may be interrupted; see `bundle`
MAIN_THREAD = get_ident()
ASK = _signal.SIGINT
INSIST = _signal.SIGUSR2
SPIN = 0.0001
_yield = getattr(posix, "sched_yield", int)
TOOL_ID = 4
TOOL_NAME = "cloche"


class Stop(KeyboardInterrupt):
    """An interrupt that renews itself.

    `interrupt_main` is a C function and no descriptor: making an instance trips SIGINT again, with no bytecode
    between that and the raise. Whoever swallows this meets the next one outside of his `try`.
    """

    __init__ = interrupt_main


class Finish(Stop):
    """The cell has said that it is done. Renews itself like `Stop`, but nobody interrupted anything."""


class State:
    """What the handler needs to know. Changed in kernel frames only."""

    user = False  # user code is running on the main thread
    pending = False  # an interrupt fell into kernel code
    delivered = 0  # interrupts raised in this call
    sticky: type[Stop] | None = None  # exception that keeps coming back
    calls = 0  # requests so far: what belongs to one of them is of no meaning in the next
    concluded = False  # the cell has called the host function that ends it
    workspace = ""  # where the user's own modules lie
    forked = False  # this process is a child that user code forked
    branching = False  # the session itself is being copied


state = State()
_poller: Any = None
_waits: set[CodeType] = set()


def wait_for_input(descriptor: int) -> None:
    """Block until readable. Nothing is consumed here, so a signal may raise."""
    if not look_for_input(descriptor):
        _poller.poll()


def look_for_input(descriptor: int) -> bool:
    """Look for a moment whether something comes: a quick host speaks again sooner than we could be woken."""
    global _poller
    if _poller is None:
        import select

        _poller = select.poll()
        _poller.register(descriptor, select.POLLIN)
    end = perf_counter() + SPIN
    while perf_counter() < end:
        if _poller.poll(0):
            return True
        _yield()  # the host may be waiting for this very processor
    return False


def wait_for_lock(lock: Any) -> None:
    """Block on a lock that belongs to this call alone, so a signal may raise."""
    lock.acquire()


_waits = {wait_for_input.__code__, look_for_input.__code__, wait_for_lock.__code__}


def add_wait(function: Any) -> None:
    """A wait of another wall's, in which a signal may raise as well."""
    _waits.add(function.__code__)


def on_ask(signum: int, frame: FrameType | None) -> None:
    """SIGINT."""
    if not state.user or frame is None:
        return
    code = frame.f_code
    name = code.co_filename
    if (name == KERNEL_FILE and code not in _waits) or _importing(frame):
        # Kernel work and imports are never cut in two; the host knocks again.
        state.pending = True
        return
    if state.sticky is None:
        if _is_importing(frame):
            return
        state.delivered += 1
        raise KeyboardInterrupt
    state.delivered += 1
    _watch_lines()
    raise state.sticky


def _importing(frame: FrameType | None) -> bool:
    """Whether a library is being imported here.

    Half a package stays broken for the rest of the session: its parts are there, it is not, and importing it again
    fails. So an interrupt waits for the end of the import. The user's own modules are his code and may loop.
    """
    below = None
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith("<frozen importlib"):
            return below is None or not (state.workspace and below.startswith(state.workspace))
        if name == KERNEL_FILE:
            return False
        below, frame = name, frame.f_back
    return False


def _is_importing(frame: FrameType | None) -> bool:
    """A package cut short in mid-import cannot be imported again: its parts stay behind. The host insists soon."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def on_insist(signum: int, frame: FrameType | None) -> None:
    """SIGUSR2: works when the cell ignores SIGINT, and cannot be swallowed."""
    if state.user and state.sticky is None:
        state.sticky = Stop
        _signal.signal(ASK, on_ask)
    on_ask(signum, frame)


def safe_point() -> None:
    """In kernel code on the main thread: raise what was put off."""
    if state.pending and runs_user_code():
        state.pending = False
        state.delivered += 1
        raise state.sticky or KeyboardInterrupt


def conclude(call: int) -> type[Finish] | None:
    """The host has taken the last word of this cell: leave it, whatever catches that. What the caller must raise.

    None when the cell of that call is over: a thread of it was late, and another cell is not to end for it.
    """
    if state.calls != call or not state.user:
        return None
    state.concluded = True
    state.sticky = Finish
    _signal.signal(ASK, on_ask)  # the cell may have put another in its place
    finish: type[Finish] = Finish
    return finish


def runs_user_code() -> bool:
    """Whether this is the main thread, on behalf of a cell or of an object's own code."""
    return state.user and get_ident() == MAIN_THREAD


def begin_call() -> None:
    """Before a request is served: forget what was meant for the last one."""
    state.calls += 1
    state.pending = state.concluded = False
    state.delivered = 0


def end_call() -> None:
    """After user code has run: take the insistence back and repair what it did to the handlers."""
    if state.sticky is not None:
        _unwatch_lines()
        state.sticky = None
    state.pending = False
    if _signal.getsignal(ASK) is not on_ask:
        _signal.signal(ASK, on_ask)
    if _signal.getsignal(INSIST) is not on_insist:
        _signal.signal(INSIST, on_insist)


def install() -> None:
    """Take over the two signals."""
    _signal.signal(ASK, on_ask)
    _signal.signal(INSIST, on_insist)


def _watch_lines() -> None:
    """3.12 and later: also raise on each line.

    There, an exception from the check of a backward jump is looked up at the instruction before the jump's target,
    which can lie inside the `try`: the renewed exception alone could be swallowed for ever.
    """
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is not None and monitoring.get_tool(TOOL_ID) is None:
        monitoring.use_tool_id(TOOL_ID, TOOL_NAME)
        monitoring.register_callback(TOOL_ID, monitoring.events.LINE, _on_line)
        monitoring.set_events(TOOL_ID, monitoring.events.LINE)


def _unwatch_lines() -> None:
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is not None and monitoring.get_tool(TOOL_ID) == TOOL_NAME:
        monitoring.set_events(TOOL_ID, 0)
        monitoring.register_callback(TOOL_ID, monitoring.events.LINE, None)
        monitoring.free_tool_id(TOOL_ID)


def _on_line(code: CodeType, line: int) -> None:
    ours = code.co_filename == KERNEL_FILE or get_ident() != MAIN_THREAD
    if state.sticky and state.user and not ours and not _importing(sys._getframe(1)):
        raise state.sticky
