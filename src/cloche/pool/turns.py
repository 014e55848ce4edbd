"""Turns to run a cell: given back while the cell waits for a host function, since it needs no processor then."""

from __future__ import annotations

import functools
import inspect
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from cloche.pool.processors import Processors
from cloche.session.callbacks import calling_sandbox

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from cloche.aio import AsyncSandbox
    from cloche.pool.fair_queue import FairQueue


class _Turn:
    """The turn of one cell. Several of its calls may be out at once: it is given back with the first of them."""

    def __init__(self, queue: FairQueue, owner: str, wait_ms: int) -> None:
        self._queue = queue
        self._owner = owner
        self._wait_ms = wait_ms
        self._out = 0
        self._held = False

    async def take(self, wait_ms: int | None = None) -> None:
        await self._queue.enter(self._owner, self._wait_ms if wait_ms is None else wait_ms)
        self._held = True

    def give_back(self) -> None:
        if self._held:
            self._held = False
            self._queue.leave(self._owner)

    @asynccontextmanager
    async def outside(self) -> AsyncIterator[None]:
        self._out += 1
        if self._out == 1:
            self.give_back()
        try:
            yield
        finally:
            self._out -= 1
        if not self._out and not self._held:
            await self.take()


class Turns:
    """The turns of all cells that run."""

    def __init__(self, queue: FairQueue, wait_ms: int) -> None:
        self._queue = queue
        self._wait_ms = wait_ms
        self._running: dict[int, _Turn] = {}
        self._processors = Processors(queue)

    @asynccontextmanager
    async def one(self, owner: str, sandbox: AsyncSandbox) -> AsyncIterator[None]:
        """A turn for the next cell of a sandbox."""
        turn = _Turn(self._queue, owner, self._wait_ms)
        await turn.take()
        self._processors.assign(owner, sandbox)
        sandbox_id = sandbox.id
        self._running[sandbox_id] = turn
        try:
            yield
        finally:
            del self._running[sandbox_id]
            turn.give_back()

    def outside(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same host function, called without a turn."""

        @functools.wraps(function)
        async def called(*args: Any, **kwargs: Any) -> Any:
            number = calling_sandbox()
            turn = None if number is None else self._running.get(number)
            if turn is None:
                return await _call(function, args, kwargs)
            async with turn.outside():
                return await _call(function, args, kwargs)

        return called


async def _call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None)):  # noqa: B004 - an object with an async __call__ counts
        return await function(*args, **kwargs)
    answer = await anyio.to_thread.run_sync(functools.partial(function, *args, **kwargs), abandon_on_cancel=True)
    return await answer if inspect.isawaitable(answer) else answer
