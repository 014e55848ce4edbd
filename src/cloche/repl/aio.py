"""`AsyncREPLEnvironment`: the same methods as coroutines; tools and models may be coroutine functions."""

from __future__ import annotations

import inspect
import time
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from cloche.errors import PolicyError, RequestError
from cloche.factory import create_async_sandbox
from cloche.repl.core import EnvironmentCore
from cloche.repl.turn import TurnResult
from cloche.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Self

    from anyio.abc import TaskGroup

    from cloche.aio import AsyncSandbox
    from cloche.repl.ahead import Slot
    from cloche.repl.bench import Bench
    from cloche.repl.config import PromptConfig, REPLConfig
    from cloche.repl.planning import PlannedCall
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
        self._core = EnvironmentCore(context, config, prompt, tools, llm, counter)
        table = self._core.descriptions(self._function)
        if sandbox is None:
            limits = self._core.policy_options() if "policy" not in options else {}
            chosen: dict[str, Any] = {} if backend is None else {"backend": backend}
            sandbox = create_async_sandbox(**chosen, tools=table, **{**limits, **options})
        elif backend is not None or options:
            raise PolicyError("give a sandbox, or what one is made of, not both", field="sandbox")
        else:
            sandbox.add_tools(table)
        self._take(sandbox)
        self._begun = False

    def _take(self, sandbox: AsyncSandbox) -> None:
        self._sandbox = sandbox
        self._core.benches.put(sandbox.id, self._core.bench)
        self._core.bench.sources.workspace = sandbox.files_now

    def _function(self, name: str) -> Callable[..., Any]:
        benches = self._core.benches

        def call(*args: Any, **kwargs: Any) -> Any:
            return benches.current().serve(name, list(args), kwargs)

        async def wait(*args: Any, **kwargs: Any) -> Any:
            return await _serve(benches.current(), name, list(args), kwargs)

        return wait if self._core.bench.is_async(name) else call

    @property
    def config(self) -> REPLConfig:
        """Its settings."""
        return self._core.config

    @property
    def sandbox(self) -> AsyncSandbox:
        """The wall that its code runs behind."""
        return self._sandbox

    # -- turns ---------------------------------------------------------------------------------

    async def execute(self, code: str, *, timeout_ms: int | None = None) -> TurnResult:
        """Run one turn. Whatever the code does, this returns."""
        if not isinstance(code, str):
            raise RequestError(f"code must be text, not {type(code).__name__}")
        core, started = self._core, time.perf_counter()
        ready = core.examine(code, self._sandbox.isolation)
        if isinstance(ready, TurnResult):
            return ready
        await self._begin()
        async with anyio.create_task_group() as group:
            turn = core.bench.begin_turn(ready.code, _starter(core.bench, group))
            try:
                result = await self._sandbox.execute(ready.code, timeout_ms=timeout_ms)
            finally:
                core.bench.end_turn()
                group.cancel_scope.cancel()  # calls that were made ahead and that nobody asked for
        question = core.needs_summary(turn, result)
        summary = None if question is None else await self._summarise(question)
        return core.conclude(turn, ready, result, started, summary)

    async def _begin(self) -> None:
        if not self._begun:
            await self._sandbox.initialize(self._core.context)
            self._begun = True

    async def _summarise(self, question: str) -> str | None:
        """A model that fails costs only its summary."""
        llm = self._core.bench.llm
        assert llm is not None
        try:
            waits = inspect.iscoroutinefunction(llm)
            answer = llm(question) if waits else await anyio.to_thread.run_sync(llm, question)
            if inspect.isawaitable(answer):
                answer = await answer
        except Exception:  # noqa: BLE001 - whatever a model's client raises
            return None
        return str(answer) if answer else None

    def cancel(self) -> None:
        """Stop the running turn."""
        self._sandbox.cancel()

    # -- state ---------------------------------------------------------------------------------

    async def get_state(self) -> str:
        """What a model should know of the session: its context, variables, findings and stored outputs."""
        await self._begin()
        return self._core.describe_state(await self._sandbox.list_variables())

    async def reset(self) -> None:
        """Empty namespace, no findings, no stored outputs; the same context and tools."""
        await self._sandbox.reset()
        self._core.reset()

    async def fork(self) -> Self:
        """A branch: the same variables, findings and outputs so far, its own from here on."""
        await self._begin()
        branch = object.__new__(type(self))
        branch._core = self._core.branch()
        branch._begun = True
        branch._take(await self._sandbox.fork())
        return branch

    async def checkpoint(self) -> bytes:
        """Everything as bytes; what cannot be saved is left out (`sandbox.snapshot().skipped` names it)."""
        await self._begin()
        return self._core.to_checkpoint((await self._sandbox.snapshot()).to_bytes())

    async def restore(self, checkpoint: bytes) -> tuple[Skipped, ...]:
        """Go back to a checkpoint, also of another environment with the same context. What could not be read here."""
        data, snapshot = self._core.read_checkpoint(checkpoint)
        read = Snapshot.from_bytes(snapshot)
        await self._begin()
        await self._sandbox.reset()
        failed = await self._sandbox.restore(read)
        self._core.take_over(data)
        return failed

    async def close(self) -> None:
        """End the session and remove its stored outputs. Idempotent."""
        await self._sandbox.destroy()
        self._core.bench.spill.clear()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            await self.close()


async def _serve(bench: Bench, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """As `Bench.serve`, for a function that has to be awaited."""
    started = time.perf_counter()
    slot = bench.slot_for(name, args, kwargs)
    try:
        if slot is None:
            value = await bench.run(name, args, kwargs)
        else:
            await anyio.to_thread.run_sync(slot.done.wait, abandon_on_cancel=True)
            value = slot.result()
    except BaseException as exc:
        bench.record(name, args, kwargs, started, slot, failed=f"{type(exc).__name__}: {exc}")
        raise
    bench.record(name, args, kwargs, started, slot, value)
    return value


def _starter(bench: Bench, group: TaskGroup) -> Callable[[PlannedCall, Slot], bool]:
    """Calls that have to be awaited are made in tasks of the turn."""

    async def work(call: PlannedCall, slot: Slot) -> None:
        await slot.fill_from(bench.run(call.name, list(call.args), call.kwargs))

    def start(call: PlannedCall, slot: Slot) -> bool:
        if not bench.is_async(call.name):
            return False
        group.start_soon(work, call, slot)
        return True

    return start
