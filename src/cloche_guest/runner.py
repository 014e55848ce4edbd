"""Runs user code: a cell, or anything on the user's objects that may loop, raise or exit."""

from __future__ import annotations

import sys

from cloche_guest.signals import state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from cloche_guest.cells import Cell

COROUTINE = 0x80


class Runner:
    """Executes compiled cells in one namespace. Its frames are masked; those of the code it runs are not."""

    def __init__(self, names: dict[str, Any]) -> None:
        self._names = names
        self._loop: Any = None

    def run(self, cell: Cell, on_value: Callable[[Any], str]) -> tuple[str | None, BaseException | None]:
        """Run a cell. (what `on_value` made of the last expression, what was raised)."""
        names = self._names
        value: str | None = None
        raised: BaseException | None = None
        state.user = True
        try:
            if state.pending:  # it came while the cell was compiled
                raise KeyboardInterrupt
            for code in cell.body:
                if code.co_flags & COROUTINE:
                    self._drive(eval(code, names))
                else:
                    exec(code, names)
                if state.sticky:  # swallowed by the last statement
                    raise state.sticky
            if cell.last is not None:
                result = eval(cell.last, names)
                if cell.last.co_flags & COROUTINE:
                    result = self._drive(result)
                if result is not None:
                    names["_"] = result
                    value = on_value(result)
            if state.sticky:
                raise state.sticky
            sys.stdout.flush()
        except BaseException as exc:
            raised = exc
        state.user = False
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
        import asyncio

        if self._loop is None or self._loop.is_closed():
            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)
        task = self._loop.create_task(coroutine)
        try:
            return self._loop.run_until_complete(task)
        except KeyboardInterrupt:
            task.cancel()  # takes effect when the loop next runs
            raise
