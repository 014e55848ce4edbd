"""The contract: `BaseSandbox`, and `SessionSandbox`, which fulfils it over any backend."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from cloche.errors import RequestError, SnapshotError
from cloche.host.abandoned import abandoned
from cloche.logger import SandboxLogger, as_sandbox_logger
from cloche.policy import ExecutionPolicy
from cloche.session import operations
from cloche.session.copying import fork_steps, savepoint_steps, undo_steps
from cloche.session.face import SessionFace, given_options, host_functions
from cloche.session.live import LiveSession
from cloche.session.sync import SyncDriver
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


class BaseSandbox(ABC):
    """What every runtime implements. Constructing one starts nothing."""

    def __init__(
        self,
        policy: ExecutionPolicy | None = None,
        workspace: str | os.PathLike[str] | None = None,
        logger: SandboxLogger | None = None,
    ) -> None:
        self.policy = policy or ExecutionPolicy()
        self.workspace = Path(workspace) if workspace is not None else None
        self.logger = as_sandbox_logger(logger)

    @abstractmethod
    def execute(self, code: str) -> SandboxResult:
        """Run untrusted code and return what it did."""

    @abstractmethod
    def validate_code(self, code: str) -> bool:
        """Whether the code compiles. It is not run."""

    def _log_execution_metrics(self, result: SandboxResult) -> None:
        """For runtimes that do not use the session machine (which logs by itself)."""
        self.logger.log_execution_complete(result)


class SessionSandbox(BaseSandbox, SessionFace):
    """A sandbox with one live session: variables stay from cell to cell.

    Nothing is started before the first use. One call at a time; a second caller waits its turn within its own
    deadline. Every call takes `timeout_ms`. After `destroy()` every call raises `SessionClosedError`.
    """

    backend_type: ClassVar[type[Backend]]

    def __init__(
        self,
        policy: ExecutionPolicy | None = None,
        workspace: str | os.PathLike[str] | None = None,
        logger: SandboxLogger | None = None,
        *,
        on_llm_query: Callable[..., Any] | None = None,
        on_rlm_query: Callable[..., Any] | None = None,
        tools: Mapping[str, Any] | None = None,
        **backend_options: Any,
    ) -> None:
        super().__init__(policy, workspace, logger)
        self._options = backend_options
        self._functions = host_functions(on_llm_query, on_rlm_query, tools)
        self._backend = self.backend_type(**backend_options)
        self._session = LiveSession(self._backend, self.policy, self.workspace, self.logger, **self._functions)
        self._driver: SyncDriver = self._backend.drive(self._session) or SyncDriver(self._session)
        self._watched = abandoned.watch(self, self._driver.dispose)

    # -- the session ---------------------------------------------------------------------------

    def initialize(self, context: Any = None, *, timeout_ms: int | None = None) -> None:
        """Start the session with `context` bound in it. Again: replaces `context`, keeps the variables."""
        self._driver.run(self._begin_context(context), timeout_ms)

    def execute(
        self,
        code: str,
        *,
        timeout_ms: int | None = None,
        on_output: OnOutput | None = None,
        stdin: str | None = None,
    ) -> SandboxResult:
        """Run a cell. `on_output(stream, text)` is called as output comes; `stdin` is what `input()` and
        `sys.stdin` read in this cell."""
        return self._driver.execute(code, timeout_ms, on_output, **given_options(stdin=stdin))

    def validate_code(self, code: str, *, timeout_ms: int | None = None) -> bool:
        """Whether `code` compiles with the guest's grammar. It is not run."""
        return self._driver.run(operations.Validate(code), timeout_ms)

    def cancel(self) -> None:
        """Stop the running cell, from any thread. Harmless when idle; the session lives on."""
        self._driver.cancel()

    def reset(self, *, timeout_ms: int | None = None) -> None:
        """Empty namespace and private workspace; same context, same bridges."""
        self._driver.exclusive(self._session.reset, timeout_ms)

    def destroy(self) -> None:
        """End the session and remove what it left. Idempotent."""
        self._driver.close()
        self._watched.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.destroy()

    # -- variables -----------------------------------------------------------------------------

    def get_variable(self, name: str, default: Any = None, *, timeout_ms: int | None = None) -> Any:
        """The value of a variable as plain data; what does not travel is a `RemoteObject`."""
        return self._driver.run(operations.GetVariable(name, default), timeout_ms)

    def set_variable(self, name: str, value: Any, *, timeout_ms: int | None = None) -> None:
        """Bind a variable to plain data."""
        self._driver.run(operations.SetVariable(name, value, self.policy.value_max_bytes), timeout_ms)

    def list_variables(self, *, timeout_ms: int | None = None) -> dict[str, str]:
        """Names of the user's variables and the names of their types."""
        return self._driver.run(operations.ListVariables(), timeout_ms)

    def complete(self, text: str, *, timeout_ms: int | None = None) -> list[str]:
        """Completions of the dotted name `text`."""
        return self._driver.run(operations.Complete(text), timeout_ms)

    def versions(self, *, timeout_ms: int | None = None) -> operations.GuestVersions:
        """The interpreter behind the wall and the packages that it has imported, as it says itself."""
        return self._driver.run(operations.Versions(), timeout_ms)

    # -- files ---------------------------------------------------------------------------------

    def put_file(self, path: str | os.PathLike[str], data: bytes | str, *, timeout_ms: int | None = None) -> None:
        """Write a file into the workspace."""
        self._driver.exclusive(lambda: self._session.put_file(path, data), timeout_ms)

    def get_file(self, path: str | os.PathLike[str], *, timeout_ms: int | None = None) -> bytes:
        """Read a file of the workspace; links are not followed."""
        return self._driver.exclusive(lambda: self._session.get_file(path), timeout_ms)

    def list_files(self, *, timeout_ms: int | None = None) -> list[FileInfo]:
        """Plain files of the workspace, sorted by path."""
        return self._driver.exclusive(self._session.list_files, timeout_ms)

    # -- state ---------------------------------------------------------------------------------

    def snapshot(self, base: Snapshot | None = None, *, timeout_ms: int | None = None) -> Snapshot:
        """Save the variables; those that cannot be saved are named in `.skipped` with the reason.

        With an earlier snapshot as `base`, what has not changed since is not written again.
        """
        return self._driver.run(operations.TakeSnapshot(self.policy.snapshot_max_bytes, base), timeout_ms)

    def restore(self, snapshot: Snapshot | bytes, *, timeout_ms: int | None = None) -> tuple[Skipped, ...]:
        """Put saved variables back, inside the wall. Returns those that could not be read here."""
        if not isinstance(snapshot, Snapshot):
            snapshot = Snapshot.from_bytes(snapshot)
        return self._driver.run(operations.Restore(snapshot, self.policy.snapshot_max_bytes), timeout_ms)

    def save_text(self, *, timeout_ms: int | None = None) -> SavedText:
        """The variables as one text that anything with lz4 and cloudpickle reads; see the REPL server."""
        return self._driver.run(SaveText(self.policy.snapshot_max_bytes), timeout_ms)

    def load_text(self, text: str, *, timeout_ms: int | None = None) -> None:
        """Put such a text back, inside the wall; all of it or nothing."""
        if not isinstance(text, str):
            raise RequestError(f"text must be a str, not {type(text).__name__}")
        trouble = self._driver.run(LoadText(text), timeout_ms)
        if trouble is not None:
            raise SnapshotError("the text could not be read", cause=trouble)

    def fork(self, *, timeout_ms: int | None = None) -> Self:
        """A branch of this session: its variables, its imports and a copy of its files, in a session of its own."""
        return self.fork_many(1, timeout_ms=timeout_ms)[0]

    def fork_many(self, n: int, *, timeout_ms: int | None = None) -> list[Self]:
        """Several branches at once, all or none. Each has its own deadline, output and bridge calls."""
        if type(n) is not int or n < 0:
            raise RequestError(f"fork_many() takes a number of branches, not {n!r:.40}")
        channels = self._driver.perform(fork_steps(self._session, n), timeout_ms) if n else []
        return [self._branch(channel) for channel in channels]

    def savepoint(self, *, timeout_ms: int | None = None) -> None:
        """Mark the state, files included, to which `undo()` returns. There is one mark; a later one replaces it."""
        self._driver.perform(savepoint_steps(self._session), timeout_ms)

    def undo(self, *, timeout_ms: int | None = None) -> None:
        """Return to the last savepoint, which stays: one can return to it again."""
        self._driver.perform(undo_steps(self._session), timeout_ms)

    def _branch(self, channel: Channel) -> Self:
        branch = type(self)(self.policy, None, self.logger, **self._functions, **self._options)
        branch._session.set_context(self._session.context)
        branch._session.adopt(channel)
        return branch
