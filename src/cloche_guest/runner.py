"""Runs user code: a cell, or anything on the user's objects that may loop, raise or exit."""

from __future__ import annotations

import sys

from cloche_guest.signals import state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from cloche_guest.cells import Cell

COROUTINE = 0x80
_TASK_MAKERS = ("create_task", "ensure_future", "get_running_loop")
_LOOP_STARTERS = ("run", "run_until_complete", "run_forever", "Runner")
"""Names that a cell uses itself, not in its functions. No loop can be started inside of one that runs."""


class Runner:
    """Executes compiled cells in one namespace. Its frames are masked; those of the code it runs are not."""

    def __init__(self, names: dict[str, Any]) -> None:
        self._names = names
        self._loop: Any = None
        self._awaited: Any = None  # the task of an awaiting cell, until the loop was left in good order

    def run(self, cell: Cell, on_value: Callable[[Any], str]) -> tuple[str | None, BaseException | None]:
        """Run a cell. (what `on_value` made of the last expression, what was raised)."""
        names = self._names
        value: str | None = None
        raised: BaseException | None = None
        state.user = True
        try:
            if state.pending:  # it came while the cell was compiled
                raise KeyboardInterrupt
            if _awaits(cell):
                result = self._drive(_run_awaiting(cell, names))
            else:
                for code in cell.body:
                    exec(code, names)
                    if state.sticky:  # swallowed by the last statement
                        raise state.sticky
                result = None if cell.last is None else eval(cell.last, names)
            if result is not None:
                names["_"] = result
                value = on_value(result)
            if state.sticky:
                raise state.sticky
            if getattr(sys, "stdout", None) is not None:  # a cell may do without
                sys.stdout.flush()
        except BaseException as exc:
            raised = exc
        state.user = False
        if isinstance(raised, KeyboardInterrupt):
            _leave_loops()
        return value, raised

    def guarded(self, action: Callable[[], Any]) -> tuple[Any, BaseException | None]:
        """Run `action`, which calls into user objects (repr, pickling), under the same rules."""
        outcome: Any = None
        raised: BaseException | None = None
        state.user = True
        try:
            outcome = action()
            if state.sticky:
                raise state.sticky
        except BaseException as exc:
            raised = exc
        state.user = False
        return outcome, raised

    def _drive(self, coroutine: Any) -> Any:
        """Top-level await: one event loop for the whole session."""
        loop = self._ready_loop()
        # Set until all is in good order: a second interrupt could strike where the first is being handled.
        self._awaited = task = loop.create_task(coroutine)
        task.add_done_callback(self._stop_for)
        try:
            loop.run_forever()
        finally:
            if task.done() and not task.cancelled():
                task.exception()  # has been asked for: no line in a log
        if not task.done():
            raise RuntimeError("Event loop stopped before Future completed.")
        self._awaited = None
        return task.result()

    def _stop_for(self, task: Any) -> None:
        """Unlike that of `run_until_complete`, which may stop a later cell: that of an interrupted one can be late."""
        if task is self._awaited:
            self._loop.stop()

    def _ready_loop(self) -> Any:
        import asyncio

        if self._awaited is not None and self._loop is not None:
            # An interrupt may have struck in the loop's own code: it may think that it runs, or that it is to stop.
            asyncio._set_running_loop(None)
            self._awaited.cancel()  # takes effect when the loop next runs, which is now
            try:
                self._loop.call_soon(self._loop.stop)
                self._loop.run_forever()
            except RuntimeError:
                self._loop = None
        self._awaited = None
        if self._loop is None or self._loop.is_closed():
            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)
        return self._loop

    def leave_parent_loop(self) -> None:
        """In a copy of the session: what the event loop waits with is shared with the original and must not be."""
        loop = self._loop
        if loop is None or loop.is_closed():
            return
        try:
            import selectors

            shared, loop._selector = loop._selector, selectors.DefaultSelector()
            for key in list(shared.get_map().values()):
                loop._selector.register(key.fileobj, key.events, key.data)
            shared.close()
            loop._close_self_pipe()
            loop._make_self_pipe()
        except Exception:  # a loop of another kind: the next cell that awaits gets a new one
            self._loop = None


def _leave_loops() -> None:
    """An interrupt may have struck where `asyncio.run` tidies up: then the thread is told for good that a loop runs."""
    asyncio: Any = sys.modules.get("asyncio")
    try:
        if asyncio is not None:
            asyncio._set_running_loop(None)
    except Exception:  # the cell has put something else in its place
        pass


def _awaits(cell: Cell) -> bool:
    """Whether a cell runs inside the event loop: it awaits, or makes tasks as code in a notebook may."""
    makes_tasks = starts_loop = False
    for code in cell.body if cell.last is None else (*cell.body, cell.last):
        if code.co_flags & COROUTINE:
            return True
        for name in code.co_names:
            makes_tasks = makes_tasks or name in _TASK_MAKERS
            starts_loop = starts_loop or name in _LOOP_STARTERS
    return makes_tasks and not starts_loop


async def _run_awaiting(cell: Cell, names: dict[str, Any]) -> Any:
    """All parts of a cell inside the running loop, also those that do not await: they may create tasks."""
    for code in cell.body:
        if code.co_flags & COROUTINE:
            await eval(code, names)
        else:
            exec(code, names)
        if state.sticky:
            raise state.sticky
    if cell.last is None:
        return None
    result = eval(cell.last, names)
    return await result if cell.last.co_flags & COROUTINE else result
