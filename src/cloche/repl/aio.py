"""`AsyncREPLEnvironment`: the same methods as coroutines; tools and models may be coroutine functions."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from cloche.factory import create_async_sandbox
from cloche.repl.checkpoint import pack
from cloche.repl.turn import TurnResult
from cloche.repl.turn_desk import TurnDesk
from cloche.session.callbacks import refuse_reentry
from cloche.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from types import TracebackType
    from typing import Self

    from cloche.aio import AsyncSandbox
    from cloche.repl.config import PromptConfig, REPLConfig
    from cloche.repl.tokens import TokenCounter
    from cloche.snapshot import Skipped


class AsyncREPLEnvironment:
    """An agent's session: `await execute(code)` runs one turn, until it says `FINAL(answer)`."""

    def __init__(
        self,
        context: Any = None,
        config: REPLConfig | Mapping[str, Any] | None = None,
        *,
        backend: str | None = None,
        sandbox: AsyncSandbox | None = None,
        tools: Mapping[str, Any] | None = None,
        llm: Callable[..., Any] | None = None,
        prompt: PromptConfig | None = None,
        counter: TokenCounter | None = None,
        **options: Any,
    ) -> None:
        """As `REPLEnvironment`; `options` as for `create_async_sandbox`."""
        self._desk = TurnDesk(context, config, prompt, tools, llm, counter)
        self._sandbox = self._desk.furnish(create_async_sandbox, sandbox, backend, options, self._function)
        self._desk.take(self._sandbox)
        self._begun = False
        self._turn = anyio.Lock()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} on {self._sandbox!r}>"

    def _function(self, name: str) -> Callable[..., Any]:
        benches = self._desk.benches

        def call(*args: Any, **kwargs: Any) -> Any:
            return benches.current().serve(name, list(args), kwargs)

        async def wait(*args: Any, **kwargs: Any) -> Any:
            return await benches.current().serve_async(name, list(args), kwargs)

        return wait if self._desk.bench.is_async(name) else call

    @property
    def config(self) -> REPLConfig:
        """Its settings."""
        return self._desk.config

    @property
    def sandbox(self) -> AsyncSandbox:
        """The wall that its code runs behind."""
        return self._sandbox

    # -- turns ---------------------------------------------------------------------------------

    async def execute(self, code: str, *, timeout_ms: int | None = None) -> TurnResult:
        """Run one turn. Whatever the code does, this returns. Turns of several tasks wait for one another."""
        desk = self._desk
        ready = desk.examine(code, self._sandbox.isolation)
        if isinstance(ready, TurnResult):
            return ready
        async with self._alone():
            async with anyio.create_task_group() as group:
                turn = desk.bench.begin_turn(ready.code, group)
                try:
                    result = await self._sandbox.execute(ready.code, timeout_ms=desk.time_for(timeout_ms))
                finally:
                    turn.end()
                    group.cancel_scope.cancel()  # calls that were made ahead and that nobody asked for
            # Masking and writing many megabytes would hold up everything else in this loop.
            output = await anyio.to_thread.run_sync(desk.output_of, turn, result)
            question = desk.summary_question(turn, output)
            summary = None
            if question is not None:
                patience_ms = self._sandbox.policy.bridge_timeout_ms
                summary = await desk.bench.models.summarise_async(question, patience_ms)
            return await anyio.to_thread.run_sync(desk.conclude, turn, ready, result, output, summary)

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """Nobody else works at this bench meanwhile; it has its context."""
        refuse_reentry(self._sandbox.id)
        async with self._turn:
            await self._begin()
            yield

    async def _begin(self) -> None:
        if not self._begun:
            await self._sandbox.initialize(self._desk.context)
            self._begun = True

    def cancel(self) -> None:
        """Stop the running turn."""
        self._sandbox.cancel()

    # -- state ---------------------------------------------------------------------------------

    async def get_state(self) -> str:
        """What a model should know of the session: its context, variables, findings and stored outputs."""
        async with self._alone():
            return self._desk.describe_state(await self._sandbox.list_variables())

    async def reset(self) -> None:
        """Empty namespace, no findings, no stored outputs; the same context and tools."""
        async with self._alone():
            await self._sandbox.reset()
            self._desk.reset()

    async def fork(self) -> Self:
        """A branch: the same variables, findings and outputs so far, its own from here on."""
        async with self._alone():
            branch = object.__new__(type(self))
            branch._sandbox = await self._sandbox.fork()
            branch._desk = self._desk.branch()
            branch._desk.take(branch._sandbox)
            branch._begun, branch._turn = True, anyio.Lock()
            return branch

    async def checkpoint(self) -> bytes:
        """Everything as bytes; what cannot be saved is left out, and `restore` names it."""
        async with self._alone():
            return pack(self._desk.keep(), (await self._sandbox.snapshot()).to_bytes())

    async def restore(self, checkpoint: bytes) -> tuple[Skipped, ...]:
        """Go back to a checkpoint, also of another environment with the same context.

        Returns the variables that are missing: those that could not be saved, and those that could not be read here.
        """
        kept, snapshot = self._desk.read_checkpoint(checkpoint)
        read = Snapshot.from_bytes(snapshot)
        async with self._alone():
            await self._sandbox.restore(Snapshot(()))  # where this is refused, nothing is to be lost
            await self._sandbox.reset()
            failed = await self._sandbox.restore(read)
            self._desk.take_over(kept)
            return (*read.skipped, *failed)

    async def close(self) -> None:
        """End the session and remove its stored outputs. Idempotent."""
        try:
            await self._sandbox.destroy()
        finally:
            self._desk.bench.spill.clear()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            await self.close()
