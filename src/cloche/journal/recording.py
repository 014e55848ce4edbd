"""Recording a session: what its cells did, what the host answered them, and at the end all that is left of it.

A `Recorder` watches a sandbox of either kind, the one that blocks and the one that awaits. The steps by which a
session is captured and resumed are written once, as generators that say what to ask of the sandbox.
"""

from __future__ import annotations

import functools
import hashlib
import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from cloche.errors import RequestError, WorkspaceFileError
from cloche.journal.entries import BridgeCall, Cell, Event, Step
from cloche.journal.session_file import SavedVariable, SessionFile, SessionSummary
from cloche.session.witness import Witness
from cloche.snapshot import Skipped
from cloche_guest.values import TooLarge, decode, encode

if TYPE_CHECKING:
    from cloche.aio import AsyncSandbox
    from cloche.result import SandboxResult
    from cloche.sandbox import SessionSandbox
    from cloche.snapshot import Snapshot

T = TypeVar("T")

INPUT_BYTES = 64 << 20
"""Of all inputs that are kept for replaying; what is larger is only named."""
INPUT_FILES = 1_500
ARTIFACT_BYTES = 256 << 20
ARTIFACT_FILES = 10_000

_PATIENCE_MS = 120_000
_LIMITS = ("timeout_ms", "max_output_length", "stdout_max_bytes", "stderr_max_bytes")


@dataclass(frozen=True, slots=True)
class Ask:
    """A method of the sandbox and its arguments."""

    method: str
    args: tuple[Any, ...] = ()


Asking = Generator[Ask, Any, T]


def patience_ms(sandbox: SessionSandbox | AsyncSandbox) -> int:
    """For what belongs to no cell: a deadline that is meant for cells may be too short for a large state."""
    return max(sandbox.policy.timeout_ms, _PATIENCE_MS)


def ask(sandbox: SessionSandbox, steps: Asking[T]) -> T:
    """Carry out the steps."""
    try:
        wanted = next(steps)
        while True:
            try:
                answer = getattr(sandbox, wanted.method)(*wanted.args, timeout_ms=patience_ms(sandbox))
            except Exception as exc:  # noqa: BLE001 - the steps know what to make of it
                wanted = steps.throw(exc)
            else:
                wanted = steps.send(answer)
    except StopIteration as done:
        value: T = done.value
        return value


async def ask_async(sandbox: AsyncSandbox, steps: Asking[T]) -> T:
    """Carry out the steps."""
    try:
        wanted = next(steps)
        while True:
            try:
                answer = await getattr(sandbox, wanted.method)(*wanted.args, timeout_ms=patience_ms(sandbox))
            except Exception as exc:  # noqa: BLE001 - the steps know what to make of it
                wanted = steps.throw(exc)
            else:
                wanted = steps.send(answer)
    except StopIteration as done:
        value: T = done.value
        return value


class Recorder(Witness):
    """Keeps the journal of one sandbox from now on.

    ::

        recorder = Recorder(sandbox, name="analysis")
        sandbox.execute("x = 1")
        recorder.capture().write("analysis.cloche")  # with an AsyncSandbox: await recorder.capture_async()

    `previous` is the session that the sandbox has resumed: its journal goes on.
    """

    def __init__(
        self,
        sandbox: SessionSandbox | AsyncSandbox,
        *,
        name: str = "session",
        previous: SessionFile | None = None,
    ) -> None:
        if isinstance(sandbox.witness, Recorder):
            raise RequestError(
                "this sandbox is being recorded already", remedy="go on with that recorder, or call its stop() first"
            )
        self.name = name
        self.events: list[Event] = []
        self.inputs: dict[str, bytes] = {}
        self._sandbox = sandbox
        self._calls: list[BridgeCall] = []
        self._last: Snapshot | None = None if previous is None else previous.state
        self._created = time.time()
        self._previous = previous
        if previous is not None:
            self.events += previous.summary.journal
            self.inputs |= previous.inputs
            self._created = previous.summary.created
            if self.events:
                self.events.append(Step("resumed"))
        elif sandbox.guest_pid is not None:
            self.events.append(Step("began_late"))
        if previous is None and sandbox.context is not None:
            self.context_set(sandbox.context)
        sandbox.watch(self)

    def stop(self) -> None:
        """Record no more."""
        self._sandbox.watch(None)

    # -- what it is told -----------------------------------------------------------------------

    def context_set(self, context: Any) -> None:
        if type(context) is str:
            self._add("context", text=self._keep(context.encode("utf-8", "surrogatepass")))
        else:
            self._add("context", value=encode(context))

    def variable_set(self, name: str, value: Any) -> None:
        self._add("variable", name=name, value=encode(value))

    def file_put(self, path: str, data: bytes) -> None:
        self._add("file", path=path, size=len(data), input=self._keep(data))

    def restored(self, snapshot: Snapshot) -> None:
        data = snapshot.to_bytes()
        self._add("restore", size=len(data), input=self._keep(data))

    def was_reset(self) -> None:
        self._add("reset")

    def marked(self) -> None:
        self._add("savepoint")

    def undone(self) -> None:
        self._add("undo")

    def lost(self) -> None:
        self._add("lost")

    @property
    def has_lost(self) -> bool:
        """Whether the variables are gone, with the last cell or since."""
        last = self.events[-1] if self.events else None
        return last == Step("lost") or (isinstance(last, Cell) and last.session_state == "reset")

    def roll_back(self, before: SessionFile) -> tuple[Skipped, ...]:
        """The last cell has ended the session, or it was lost since: bring back what was saved, which is `before`.
        Returns what could not be brought back."""
        sandbox: Any = self._sandbox
        self.stop()
        try:
            sandbox.reset()
            lost = resume(sandbox, before)
        finally:
            sandbox.watch(self)
        self._last = before.state
        if self.events and self.events[-1] == Step("lost"):
            self.events[-1] = Step("resumed")
        else:
            self._add("rolled_back")
        return lost

    def bridge_answered(
        self, name: str, args: list[Any], kwargs: dict[str, Any], value: Any, error: BaseException | None
    ) -> None:
        failure: tuple[str, str] | None = None
        result = None
        if error is not None:
            failure = (type(error).__name__, _message(error))
        else:
            try:
                result = encode(value, self._sandbox.policy.value_max_bytes)
            except TooLarge as exc:
                failure = ("ValueError", f"the answer cannot cross the wall: {exc}")
        self._calls.append(BridgeCall(name, encode(args), encode(kwargs), result, failure))

    def cell_ended(self, result: SandboxResult, timeout_ms: int) -> None:
        calls, self._calls = self._calls, []
        self.events.append(
            Cell(
                code=result.code,
                outcome=result.outcome,
                stdout=result.stdout,
                stderr=result.stderr,
                value=result.value,
                error=result.error,
                exception=result.exception,
                exit_code=result.exit_code,
                session_state=result.session_state,
                ended=time.time(),
                duration_ms=result.duration_ms,
                timeout_ms=timeout_ms,
                files=(*result.files_created, *result.files_modified, *result.files_deleted),
                calls=tuple(calls),
                stdin=result.stdin,
            )
        )

    def _add(self, kind: Any, **data: Any) -> None:
        self.events.append(Step(kind, data))

    def _keep(self, data: bytes) -> str | None:
        """The digest under which an input is kept; None when there is no room for it."""
        digest = hashlib.sha256(data).hexdigest()
        if digest not in self.inputs:
            if sum(map(len, self.inputs.values())) + len(data) > INPUT_BYTES or len(self.inputs) >= INPUT_FILES:
                return None
            self.inputs[digest] = data
        return digest

    # -- what is left at the end ---------------------------------------------------------------

    def capture(self) -> SessionFile:
        """The session as it is now: journal, variables, files, versions."""
        from cloche.sandbox import SessionSandbox

        if not isinstance(self._sandbox, SessionSandbox):
            raise RequestError("this sandbox is asynchronous", remedy="await recorder.capture_async()")
        return ask(self._sandbox, self._capture_steps())

    async def capture_async(self) -> SessionFile:
        """As `capture`, of an `AsyncSandbox`."""
        from cloche.aio import AsyncSandbox

        if not isinstance(self._sandbox, AsyncSandbox):
            raise RequestError("this sandbox is not asynchronous", remedy="recorder.capture()")
        return await ask_async(self._sandbox, self._capture_steps())

    def _capture_steps(self) -> Asking[SessionFile]:
        sandbox = self._sandbox
        snapshot: Snapshot = yield Ask("snapshot", (self._last,))
        self._last = snapshot  # the next one need only send what has changed
        types: dict[str, str] = yield Ask("list_variables")  # what is saved in another form is known by its own
        versions = yield Ask("versions")
        artifacts: dict[str, bytes] = {}
        left_out: list[Skipped] = []
        if sandbox.workspace is None:
            artifacts, left_out = yield from _collect_steps()
        elif self._previous is not None:  # the folder is somebody's own; what was kept before stays
            artifacts = dict(self._previous.artifacts)
        summary = SessionSummary(
            name=self.name,
            created=self._created,
            saved=time.time(),
            cloche=_own_version(),
            backend=sandbox.backend,
            isolation=sandbox.isolation.name,
            versions=versions,
            limits={name: getattr(sandbox.policy, name) for name in _LIMITS},
            bridges=tuple(sorted(sandbox.bridges)),
            tools=tuple((tool["name"], tool["doc"]) for tool in sandbox.tool_descriptions()),
            journal=tuple(self.events),
            has_state=True,
            variables=tuple(
                SavedVariable(
                    name, types.get(name, kind), entry.size, tuple(other for other in entry.names if other != name)
                )
                for entry in snapshot.entries
                for name, kind in zip(entry.names, entry.types, strict=False)
            ),
            skipped=snapshot.skipped,
            artifacts={path: len(data) for path, data in artifacts.items()},
            left_out=tuple(left_out),
        )
        return SessionFile(summary, snapshot, artifacts, dict(self.inputs))


def resume(sandbox: SessionSandbox, session: SessionFile) -> tuple[Skipped, ...]:
    """Bring a session back in a fresh sandbox: files, context, variables. Returns what could not be brought back."""
    return ask(sandbox, _resume_steps(sandbox, session))


async def resume_async(sandbox: AsyncSandbox, session: SessionFile) -> tuple[Skipped, ...]:
    """As `resume`, in an `AsyncSandbox`."""
    return await ask_async(sandbox, _resume_steps(sandbox, session))


def refuse_other_than_session(session: object) -> None:
    """A path is not yet a session."""
    if not isinstance(session, SessionFile):
        raise RequestError(
            f"a session is a SessionFile, not {type(session).__name__}", remedy="SessionFile.read(path) reads one"
        )


def _resume_steps(sandbox: SessionSandbox | AsyncSandbox, session: SessionFile) -> Asking[tuple[Skipped, ...]]:
    refuse_other_than_session(session)
    lost: list[Skipped] = []
    if session.artifacts and sandbox.workspace is not None:
        # The names are a guest's: nothing of the user's own may be overwritten.
        lost += [Skipped(path, "a workspace of your own was given") for path in session.artifacts]
    else:
        for path, data in session.artifacts.items():
            try:
                yield Ask("put_file", (path, data))
            except WorkspaceFileError as exc:
                lost.append(Skipped(path, str(exc.message)))
    contexts = [event for event in session.summary.journal if isinstance(event, Step) and event.kind == "context"]
    if contexts:
        try:
            yield Ask("initialize", (context_of(contexts[-1], session.inputs),))
        except (LookupError, ValueError) as exc:
            lost.append(Skipped("context", str(exc)))
    if session.state is not None:
        failed: tuple[Skipped, ...] = yield Ask("restore", (session.state,))
        lost += failed
    return tuple(lost)


def context_of(step: Step, inputs: Any) -> Any:
    """The context of a step. LookupError when it was too large to be kept."""
    if "text" not in step.data:
        return decode(step.data.get("value"))
    text = inputs.get(step.data["text"])
    if text is None:
        raise LookupError("it was too large to be kept")
    return text.decode("utf-8", "surrogatepass")


def _collect_steps() -> Asking[tuple[dict[str, bytes], list[Skipped]]]:
    """The files of the workspace, within bounds; links are not followed."""
    found: dict[str, bytes] = {}
    left_out: list[Skipped] = []
    room = ARTIFACT_BYTES
    for info in (yield Ask("list_files")):
        if info.size > room or len(found) >= ARTIFACT_FILES:
            left_out.append(Skipped(info.path, f"{info.size} bytes; there was room for {room} of {ARTIFACT_BYTES}"))
            continue
        try:
            data: bytes = yield Ask("get_file", (info.path,))
        except WorkspaceFileError as exc:  # replaced or grown since it was listed
            left_out.append(Skipped(info.path, str(exc.message)))
            continue
        found[info.path] = data
        room -= len(data)
    return found, left_out


@functools.cache
def _own_version() -> str:
    """From the record of the installation: the package's root knows all layers, and those above must not be needed."""
    from importlib import metadata

    try:
        return metadata.version("cloche")
    except metadata.PackageNotFoundError:  # run from a checkout that was never installed
        return "unknown"


def _message(error: BaseException) -> str:
    """The text of an exception whose class may be broken."""
    try:
        return str(error)[:10_000]
    except Exception as second:  # noqa: BLE001 - a callback's own exception class
        return f"<{type(second).__name__} in str()>"
