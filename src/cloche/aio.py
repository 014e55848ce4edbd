"""`AsyncSandbox`: the same methods as coroutines, on asyncio or trio, with no thread per session."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import anyio.to_thread

from cloche.errors import RequestError, SnapshotError
from cloche.host.abandoned import abandoned
from cloche.logger import SandboxLogger, as_sandbox_logger
from cloche.policy import ExecutionPolicy
from cloche.session import operations
from cloche.session.aio import AsyncDriver
from cloche.session.copying import fork_steps, savepoint_steps, undo_steps
from cloche.session.face import SessionFace, given_options, host_functions
from cloche.session.live import LiveSession
from cloche.session.text_operations import LoadText, SavedText, SaveText
from cloche.snapshot import Skipped, Snapshot

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Self

    from cloche.result import SandboxResult
    from cloche.session.channel import Backend, Channel
    from cloche.session.workspace import FileInfo

    OnOutput = Callable[[str, str], object]

T = TypeVar("T")


class AsyncSandbox(SessionFace):
    """A sandbox for event loops. Cancelling the task that waits for a cell cancels the cell."""

    def __init__(
        self,
        backend: Backend,
        policy: ExecutionPolicy | None = None,
        workspace: str | os.PathLike[str] | None = None,
        logger: SandboxLogger | None = None,
        *,
        on_llm_query: Callable[..., Any] | None = None,
        on_rlm_query: Callable[..., Any] | None = None,
        tools: Mapping[str, Any] | None = None,
    ) -> None:
        self.policy = policy or ExecutionPolicy()
        self.workspace = Path(workspace) if workspace is not None else None
        self.logger = as_sandbox_logger(logger)
        self._backend = backend
        self._functions = host_functions(on_llm_query, on_rlm_query, tools)
        self._session = LiveSession(backend, self.policy, self.workspace, self.logger, **self._functions)
        self._driver: AsyncDriver = backend.drive_async(self._session) or AsyncDriver(self._session)
        self._watched = abandoned.watch(self, self._driver.dispose)

    # -- the session ---------------------------------------------------------------------------

    async def initialize(self, context: Any = None, *, timeout_ms: int | None = None) -> None:
        """Start the session with `context` bound in it. Again: replaces `context`, keeps the variables."""
        await self._driver.run(self._begin_context(context), timeout_ms)

    async def execute(
        self,
        code: str,
        *,
        timeout_ms: int | None = None,
        on_output: OnOutput | None = None,
        stdin: str | None = None,
    ) -> SandboxResult:
        """Run a cell. `on_output(stream, text)`, plain or async, is called as output comes; `stdin` is what `input()`
        and `sys.stdin` read in this cell."""
        return await self._driver.execute(code, timeout_ms, on_output, **given_options(stdin=stdin))

    async def validate_code(self, code: str, *, timeout_ms: int | None = None) -> bool:
        """Whether `code` compiles with the guest's grammar. It is not run."""
        return await self._driver.run(operations.Validate(code), timeout_ms)

    def cancel(self) -> None:
        """Stop the running cell, from the event loop's thread. Harmless when idle; the session lives on."""
        self._driver.cancel()

    async def reset(self, *, timeout_ms: int | None = None) -> None:
        """Empty namespace and private workspace; same context, same bridges."""
        await self._driver.exclusive(self._session.reset, timeout_ms)

    async def destroy(self) -> None:
        """End the session and remove what it left. Idempotent."""
        await self._driver.close()
        self._watched.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.destroy()

    # -- variables -----------------------------------------------------------------------------

    async def get_variable(self, name: str, default: Any = None, *, timeout_ms: int | None = None) -> Any:
        """The value of a variable as plain data; what does not travel is a `RemoteObject`."""
        return await self._driver.run(operations.GetVariable(name, default), timeout_ms)

    async def set_variable(self, name: str, value: Any, *, timeout_ms: int | None = None) -> None:
        """Bind a variable to plain data."""
        await self._driver.run(operations.SetVariable(name, value, self.policy.value_max_bytes), timeout_ms)

    async def list_variables(self, *, timeout_ms: int | None = None) -> dict[str, str]:
        """Names of the user's variables and the names of their types."""
        return await self._driver.run(operations.ListVariables(), timeout_ms)

    async def complete(self, text: str, *, timeout_ms: int | None = None) -> list[str]:
        """Completions of the dotted name `text`."""
        return await self._driver.run(operations.Complete(text), timeout_ms)

    async def versions(self, *, timeout_ms: int | None = None) -> operations.GuestVersions:
        """The interpreter behind the wall and the packages that it has imported, as it says itself."""
        return await self._driver.run(operations.Versions(), timeout_ms)

    # -- files ---------------------------------------------------------------------------------

    async def put_file(self, path: str | os.PathLike[str], data: bytes | str, *, timeout_ms: int | None = None) -> None:
        """Write a file into the workspace."""
        await self._driver.exclusive(lambda: self._session.put_file(path, data), timeout_ms)

    async def get_file(self, path: str | os.PathLike[str], *, timeout_ms: int | None = None) -> bytes:
        """Read a file of the workspace; links are not followed."""
        return await self._driver.exclusive(lambda: self._session.get_file(path), timeout_ms)

    async def list_files(self, *, timeout_ms: int | None = None) -> list[FileInfo]:
        """Plain files of the workspace, sorted by path."""
        return await self._driver.exclusive(self._session.list_files, timeout_ms)

    # -- state ---------------------------------------------------------------------------------

    async def snapshot(self, base: Snapshot | None = None, *, timeout_ms: int | None = None) -> Snapshot:
        """Save the variables; those that cannot be saved are named in `.skipped` with the reason.

        With an earlier snapshot as `base`, what has not changed since is not written again.
        """
        if base is not None:
            await anyio.to_thread.run_sync(base.held)  # hashing would hold up the event loop
        return await self._driver.run(operations.TakeSnapshot(self.policy.snapshot_max_bytes, base), timeout_ms)

    async def restore(self, snapshot: Snapshot | bytes, *, timeout_ms: int | None = None) -> tuple[Skipped, ...]:
        """Put saved variables back, inside the wall. Returns those that could not be read here."""
        if isinstance(snapshot, Snapshot):
            read = snapshot
        else:
            read = await anyio.to_thread.run_sync(Snapshot.from_bytes, snapshot)
        return await self._driver.run(operations.Restore(read, self.policy.snapshot_max_bytes), timeout_ms)

    async def save_text(self, *, timeout_ms: int | None = None) -> SavedText:
        """The variables as one text that anything with lz4 and cloudpickle reads; see the REPL server."""
        return await self._driver.run(SaveText(self.policy.snapshot_max_bytes), timeout_ms)

    async def load_text(self, text: str, *, timeout_ms: int | None = None) -> None:
        """Put such a text back, inside the wall; all of it or nothing."""
        if not isinstance(text, str):
            raise RequestError(f"text must be a str, not {type(text).__name__}")
        trouble = await self._driver.run(LoadText(text), timeout_ms)
        if trouble is not None:
            raise SnapshotError("the text could not be read", cause=trouble)

    async def fork(self, *, timeout_ms: int | None = None) -> Self:
        """A branch of this session: its variables, its imports and a copy of its files, in a session of its own."""
        return (await self.fork_many(1, timeout_ms=timeout_ms))[0]

    async def fork_many(self, n: int, *, timeout_ms: int | None = None) -> list[Self]:
        """Several branches at once, all or none. Each has its own deadline, output and bridge calls."""
        if type(n) is not int or n < 0:
            raise RequestError(f"fork_many() takes a number of branches, not {n!r:.40}")
        channels = await self._driver.perform(fork_steps(self._session, n), timeout_ms) if n else []
        return [self._branch(channel) for channel in channels]

    async def savepoint(self, *, timeout_ms: int | None = None) -> None:
        """Mark the state, files included, to which `undo()` returns. There is one mark; a later one replaces it."""
        await self._driver.perform(savepoint_steps(self._session), timeout_ms)

    async def undo(self, *, timeout_ms: int | None = None) -> None:
        """Return to the last savepoint, which stays: one can return to it again."""
        await self._driver.perform(undo_steps(self._session), timeout_ms)

    # -- for the pool and what stands on it ------------------------------------------------------

    async def _carry_out(self, operation: operations.Operation[T], timeout_ms: int | None = None) -> T:
        """Any request of the session's."""
        return await self._driver.run(operation, timeout_ms)

    async def _execute_as(self, file: str, code: str, timeout_ms: int | None) -> SandboxResult:
        """Run a cell that is called `file` in tracebacks."""
        return await self._driver.execute(code, timeout_ms, None, file=file)

    async def _warm(self) -> None:
        """Wait until the next sessions like this one begin warm."""
        await anyio.to_thread.run_sync(self._backend.warm, self.policy, abandon_on_cancel=True)

    def _branch(self, channel: Channel) -> Self:
        branch = type(self)(self._backend.another(), self.policy, None, self.logger, **self._functions)
        branch._session.set_context(self._session.context)
        branch._session.adopt(channel)
        return branch
