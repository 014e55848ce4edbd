"""`llm_call` and `llm_batch`: the model that the user of a workbench gave."""

from __future__ import annotations

import contextvars
import inspect
from typing import TYPE_CHECKING, Any

import anyio

from cloche.errors import RequestError
from cloche.repl.ahead import SIDE_BY_SIDE, Ahead, Slot
from cloche.repl.planning import PlannedCall
from cloche.session.callback_threads import threads
from cloche.session.callbacks import is_coroutine_function

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cloche.repl.turn import OpenTurn

MOST_PROMPTS = 1000


class Models:
    """What is asked goes out of the house: `clean` masks secrets in it first."""

    def __init__(self, llm: Callable[..., Any] | None, clean: Callable[[str], str]) -> None:
        self.llm = llm
        self.is_async = is_coroutine_function(llm)
        self._clean = clean

    def call(self, prompt: Any, context_slice: Any = None, **options: Any) -> Any:
        """One prompt; an awaitable where the model is one."""
        if self.llm is None:
            raise RequestError("there is no model here", remedy="REPLEnvironment(..., llm=...) gives one")
        text = str(prompt) if context_slice is None else f"{prompt}\n\n{context_slice}"
        return self.llm(self._clean(text), **options)

    def summarise(self, question: str, patience_ms: int | None) -> str | None:
        """A model that fails, or does not answer in time, costs only its summary."""
        llm, context = self.llm, contextvars.copy_context()
        assert llm is not None
        try:
            if patience_ms is None:
                answer = llm(question)
            else:
                slot = Slot(lambda: context.run(llm, question))
                threads.run(slot.make)
                answer = slot.result_within(patience_ms / 1000)
        except Exception:  # noqa: BLE001 - whatever a model's client raises
            return None
        return str(answer) if answer else None

    async def summarise_async(self, question: str, patience_ms: int | None) -> str | None:
        """As `summarise`."""
        llm, answer = self.llm, None
        assert llm is not None
        try:
            with anyio.move_on_after(None if patience_ms is None else patience_ms / 1000):
                if self.is_async:
                    given = llm(question)
                else:
                    given = await anyio.to_thread.run_sync(llm, question, abandon_on_cancel=True)
                answer = await given if inspect.isawaitable(given) else given
        except Exception:  # noqa: BLE001 - whatever a model's client raises
            return None
        return str(answer) if answer else None

    def batch(self, turn: OpenTurn, prompts: Any, **options: Any) -> Any:
        """Many, side by side; the answers in order. When the turn is over, no more are asked."""
        if not isinstance(prompts, list | tuple):
            raise RequestError(f"prompts must be a list, not {type(prompts).__name__}")
        if len(prompts) > MOST_PROMPTS:
            raise RequestError(f"there are {len(prompts)} prompts; a batch may have {MOST_PROMPTS}")
        if self.is_async:
            return self._await_batch(prompts, options)
        calls = [PlannedCall("llm_call", (prompt, number)) for number, prompt in enumerate(prompts)]
        failed: list[BaseException] = []

        def ask(call: PlannedCall) -> Any:
            if failed:
                raise failed[0]
            try:
                return self.call(call.args[0], **options)
            except BaseException as exc:
                failed.append(exc)
                raise

        batch = Ahead(calls, ask)
        turn.under_way.append(batch)
        return [turn.while_it_lasts(slot) for slot in batch.slots]

    async def _await_batch(self, prompts: Sequence[Any], options: dict[str, Any]) -> list[Any]:
        answers: list[Any] = [None] * len(prompts)
        failed: list[Exception] = []
        waiting = iter(enumerate(prompts))

        async def ask() -> None:
            for number, prompt in waiting:  # all tasks take from the same
                try:
                    answers[number] = await self.call(prompt, **options)
                except Exception as exc:  # noqa: BLE001 - raised again below: nobody wants a group of one
                    failed.append(exc)
                    group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            for _ in range(min(SIDE_BY_SIDE, len(prompts))):
                group.start_soon(ask)
        if failed:
            raise failed[0]
        return answers
