"""`REPLEnvironment`: the workbench of an agent, on any wall."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cloche.errors import PolicyError
from cloche.factory import create_sandbox
from cloche.repl.checkpoint import pack
from cloche.repl.turn import TurnResult
from cloche.repl.turn_desk import TurnDesk
from cloche.session.callbacks import refuse_reentry
from cloche.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import TracebackType
    from typing import Self

    from cloche.repl.config import PromptConfig, REPLConfig
    from cloche.repl.tokens import TokenCounter
    from cloche.sandbox import SessionSandbox
    from cloche.snapshot import Skipped


class REPLEnvironment:
    """An agent's session: `execute(code)` runs one turn, until it says `FINAL(answer)`.

    The context stays here; the code looks at it with `peek` and `grep`, and computes with it as `context`. Use it as
    a context manager, or `close()` it.
    """

    def __init__(
        self,
        context: Any = None,
        config: REPLConfig | Mapping[str, Any] | None = None,
        *,
        backend: str | None = None,
        sandbox: SessionSandbox | None = None,
        tools: Mapping[str, Any] | None = None,
        llm: Callable[..., Any] | None = None,
        prompt: PromptConfig | None = None,
        counter: TokenCounter | None = None,
        **options: Any,
    ) -> None:
        """`options` as for `create_sandbox`; `sandbox` is one that has not been used yet, and is closed with this.

        `tools` are functions or `Tool`s by name; `llm(prompt)` is what `llm_call` asks, and what sums up long outputs.
        """
        self._desk = TurnDesk(context, config, prompt, tools, llm, counter)
        for name in self._desk.bench.names:
            if self._desk.bench.is_async(name):
                raise PolicyError(f"{name} is async", field="tools", remedy="use AsyncREPLEnvironment")
        self._sandbox = self._desk.furnish(create_sandbox, sandbox, backend, options, self._function)
        self._desk.take(self._sandbox)
        self._begun = False
        self._turn = threading.Lock()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} on {self._sandbox!r}>"

    def _function(self, name: str) -> Callable[..., Any]:
        benches = self._desk.benches

        def call(*args: Any, **kwargs: Any) -> Any:
            return benches.current().serve(name, list(args), kwargs)

        return call

    @property
    def config(self) -> REPLConfig:
        """Its settings."""
        return self._desk.config

    @property
    def sandbox(self) -> SessionSandbox:
        """The wall that its code runs behind."""
        return self._sandbox

    # -- turns ---------------------------------------------------------------------------------

    def execute(self, code: str, *, timeout_ms: int | None = None) -> TurnResult:
        """Run one turn. Whatever the code does, this returns. Turns of several threads wait for one another."""
        desk = self._desk
        ready = desk.examine(code, self._sandbox.isolation)
        if isinstance(ready, TurnResult):
            return ready
        with self._alone():
            turn = desk.bench.begin_turn(ready.code)
            try:
                result = self._sandbox.execute(ready.code, timeout_ms=desk.time_for(timeout_ms))
            finally:
                turn.end()
            output = desk.output_of(turn, result)
            question = desk.summary_question(turn, output)
            summary = None
            if question is not None:
                summary = desk.bench.models.summarise(question, self._sandbox.policy.bridge_timeout_ms)
            return desk.conclude(turn, ready, result, output, summary)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Nobody else works at this bench meanwhile; it has its context."""
        refuse_reentry(self._sandbox.id)
        with self._turn:
            self._begin()
            yield

    def _begin(self) -> None:
        """Give the sandbox its context, once. A session that was lost has it again by itself."""
        if not self._begun:
            self._sandbox.initialize(self._desk.context)
            self._begun = True

    def cancel(self) -> None:
        """Stop the running turn, from any thread."""
        self._sandbox.cancel()

    # -- state ---------------------------------------------------------------------------------

    def get_state(self) -> str:
        """What a model should know of the session: its context, variables, findings and stored outputs."""
        with self._alone():
            return self._desk.describe_state(self._sandbox.list_variables())

    def reset(self) -> None:
        """Empty namespace, no findings, no stored outputs; the same context and tools."""
        with self._alone():
            self._sandbox.reset()
            self._desk.reset()

    def fork(self) -> Self:
        """A branch: the same variables, findings and outputs so far, its own from here on."""
        with self._alone():
            branch = object.__new__(type(self))
            branch._sandbox = self._sandbox.fork()
            branch._desk = self._desk.branch()
            branch._desk.take(branch._sandbox)
            branch._begun, branch._turn = True, threading.Lock()
            return branch

    def checkpoint(self) -> bytes:
        """Everything as bytes; what cannot be saved is left out, and `restore` names it."""
        with self._alone():
            return pack(self._desk.keep(), self._sandbox.snapshot().to_bytes())

    def restore(self, checkpoint: bytes) -> tuple[Skipped, ...]:
        """Go back to a checkpoint, also of another environment with the same context.

        Returns the variables that are missing: those that could not be saved, and those that could not be read here.
        """
        kept, snapshot = self._desk.read_checkpoint(checkpoint)
        read = Snapshot.from_bytes(snapshot)
        with self._alone():
            self._sandbox.restore(Snapshot(()))  # where this is refused, nothing is to be lost
            self._sandbox.reset()
            failed = self._sandbox.restore(read)
            self._desk.take_over(kept)
            return (*read.skipped, *failed)

    def close(self) -> None:
        """End the session and remove its stored outputs. Idempotent."""
        try:
            self._sandbox.destroy()
        finally:
            self._desk.bench.spill.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
