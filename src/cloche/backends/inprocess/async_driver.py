"""The driver for event loops of sessions that run inline: a thread runs the cell, and the loop stays free."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import anyio.from_thread
import anyio.to_thread

from cloche.backends.inprocess.inline import InlineGuest, refuse_options
from cloche.session.aio import AsyncDriver
from cloche.session.callbacks import mark_inside
from cloche.session.clock import clock

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloche.backends.inprocess.backend import InProcessBackend
    from cloche.backends.inprocess.bridging import Answer
    from cloche.result import SandboxResult
    from cloche.session.actions import CallBridge
    from cloche.session.live import LiveSession
    from cloche.session.operations import Operation

T = TypeVar("T")


class AsyncInlineDriver(AsyncDriver):
    """Runs cells in a worker thread. Host functions, listeners and cancelling are the event loop's."""

    def __init__(self, session: LiveSession, backend: InProcessBackend) -> None:
        super().__init__(session)
        self._inline = InlineGuest(session, backend)
        self._serving: anyio.CancelScope | None = None

    async def execute(
        self, code: str, timeout_ms: int | None, on_output: Callable[[str, str], object] | None, **options: Any
    ) -> SandboxResult:
        refuse_options(options)
        limit = self._session.limit_ms(timeout_ms)
        started = await self._enter(limit)
        listener = None if on_output is None else _in_loop(on_output)
        try:
            return await self._in_thread(
                lambda: self._inline.execute(code, started, limit, listener, self._serve_from_thread)
            )
        finally:
            self._turn.release()

    async def run(self, operation: Operation[T], timeout_ms: int | None = None) -> T:
        limit = self._session.limit_ms(timeout_ms)
        started = await self._enter(limit)
        try:
            return await self._in_thread(lambda: self._inline.operate(operation, started, limit))
        finally:
            self._turn.release()

    def cancel(self) -> None:
        self._inline.cancel()
        if self._serving is not None:
            self._serving.cancel()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """Cancelling the waiting task cancels the cell and waits for its end."""
        done = anyio.Event()
        made: list[T] = []
        trouble: list[BaseException] = []

        async def run() -> None:
            with anyio.CancelScope(shield=True):
                try:
                    made.append(await anyio.to_thread.run_sync(work))
                except BaseException as exc:  # noqa: BLE001 - raised again below, outside of the group
                    trouble.append(exc)
            done.set()

        async with anyio.create_task_group() as group:
            group.start_soon(run)
            try:
                await done.wait()
            except BaseException:
                self.cancel()
                raise
        if trouble:
            raise trouble[0]
        return made[0]

    def _serve_from_thread(self, calls: list[CallBridge], until: float | None) -> list[Answer]:
        """In the cell's thread: have the loop run these, and wait."""
        return anyio.from_thread.run(self._answer_all, calls, until)

    async def _answer_all(self, calls: list[CallBridge], until: float | None) -> list[Answer]:
        answers: list[Answer] = []

        async def answer(call: CallBridge) -> None:
            mark_inside(self._session.number)
            callbacks = self._session.callbacks
            try:
                if callbacks.is_async(call.name):
                    value = await callbacks.call(call.name, call.args, call.kwargs)
                else:
                    value, error = await anyio.to_thread.run_sync(self._call, call, abandon_on_cancel=True)
                    if error is not None:
                        answers.append((call.key, None, error))
                        return
                    if inspect.isawaitable(value):
                        value = await value
            except (Exception, SystemExit) as exc:  # noqa: BLE001 - whatever a callback raises is the cell's to see
                answers.append((call.key, None, exc))
            else:
                answers.append((call.key, value, None))

        left = float("inf") if until is None else max(0.0, until - clock())
        with anyio.move_on_after(left) as self._serving:
            async with anyio.create_task_group() as group:
                for call in calls:
                    group.start_soon(answer, call)
        self._serving = None
        return answers

    def _call(self, call: CallBridge) -> tuple[Any, BaseException | None]:
        """One that blocks, in a thread. Nothing that it raises is to end the loop."""
        try:
            return self._session.callbacks.call(call.name, call.args, call.kwargs), None
        except BaseException as exc:  # noqa: BLE001 - whatever a callback raises is the cell's to see
            return None, exc


def _in_loop(on_output: Callable[[str, str], object]) -> Callable[[str, str], object]:
    async def tell(stream: str, text: str) -> None:
        told = on_output(stream, text)
        if inspect.isawaitable(told):
            await told

    return lambda stream, text: anyio.from_thread.run(tell, stream, text)
