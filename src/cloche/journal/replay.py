"""Replaying: the journal again, in a fresh sandbox, with the answers that were recorded; the first difference is told.

No model is called and no tool is run: a call that was not recorded, or differs from what was, is a difference itself.
Addresses of objects (``0x7f...``) differ each time and are not compared; neither is standard error, which is full of
them and of times.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from cloche.errors import ClocheError, RequestError, SessionFileError
from cloche.journal.entries import BridgeCall, Cell, Step
from cloche.journal.recording import context_of, patience_ms, refuse_other_than_session
from cloche.policy import MOST
from cloche_guest.values import decode, encode

if TYPE_CHECKING:
    from cloche.journal.session_file import SessionFile
    from cloche.result import SandboxResult
    from cloche.sandbox import SessionSandbox
    from cloche.snapshot import Snapshot

Aspect = Literal["bridge", "outcome", "exception", "stdout", "value", "step"]
MakeSandbox = Callable[..., "SessionSandbox"]
"""Called with `on_llm_query`, `on_rlm_query`, `tools` and limits of the policy, as `create_sandbox` takes them."""

_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,16}\b")
_SHOWN = 400
_STOPPED = frozenset({"cancelled"})
"""Outcomes that somebody outside brought about: the cell gets the time it had, and only what it called is compared."""
_MODELS = ("llm_query", "rlm_query")


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first difference between what was recorded and what came."""

    cell: int
    """Its number in the journal, from 1; of a step between cells, that of the next cell."""
    aspect: Aspect
    expected: str
    came: str
    code: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """How far it went."""

    cells: int
    """In the journal."""
    replayed: int
    """That came out as recorded."""
    calls: int
    """Bridge calls that were answered from the journal."""
    divergence: Divergence | None

    @property
    def faithful(self) -> bool:
        """Whether everything came out as recorded."""
        return self.divergence is None


def replay(
    session: SessionFile, make_sandbox: MakeSandbox, *, on_progress: Callable[[int, int], object] | None = None
) -> ReplayReport:
    """Run the journal again and stop at the first difference. `on_progress(done, total)` counts cells."""
    refuse_other_than_session(session)
    if not callable(make_sandbox):
        raise RequestError(
            "replay() makes a sandbox of its own, and was given one", remedy="replay(session, create_sandbox)"
        )
    run = _Replay(session, make_sandbox)
    try:
        return run.all(on_progress or (lambda *_: None))
    finally:
        run.sandbox.destroy()


class _Diverged(Exception):
    def __init__(self, aspect: Aspect, expected: str, came: str, hint: str | None = None) -> None:
        super().__init__(aspect)
        self.aspect, self.expected, self.came, self.hint = aspect, expected, came, hint


class _Answers:
    """The recorded answers of one cell. Calls may come in any order, and from several threads at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left: list[BridgeCall] = []
        self.given = 0
        self.diverged: _Diverged | None = None

    def begin(self, calls: tuple[BridgeCall, ...]) -> None:
        self._left = list(calls)
        self.diverged = None

    def check(self) -> None:
        """After the cell: nothing was asked that was not recorded, and nothing recorded was not asked."""
        if self.diverged is not None:
            raise self.diverged
        if self._left:
            raise _Diverged("bridge", _shown_call(self._left[0].name, self._left[0]), "no such call was made")

    def function(self, name: str) -> Callable[..., Any]:
        """A stand-in for the host function of that name."""

        def answer(*args: Any, **kwargs: Any) -> Any:
            return self._answer(name, list(args), kwargs)

        return answer

    def _answer(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        came = BridgeCall(name, encode(args), encode(kwargs))
        forms = [_canonical([came.args, came.kwargs])]
        if name == "rlm_query" and len(args) == 2:  # a call without a context of its own was given the session's
            forms.append(_canonical([came.args[:1], came.kwargs]))
        with self._lock:
            for place, call in enumerate(self._left):
                if call.name == name and _canonical([call.args, call.kwargs]) in forms:
                    del self._left[place]
                    self.given += 1
                    break
            else:
                wanted = next((call for call in self._left if call.name == name), None)
                expected = "no further call" if wanted is None else _shown_call(name, wanted)
                if self.diverged is None:
                    self.diverged = _Diverged("bridge", expected, _shown_call(name, came))
                raise LookupError("the journal has no answer to this call")
        if call.failure is not None:
            raise type(call.failure[0] or "Exception", (Exception,), {})(call.failure[1])
        return _decoded(call.result)


class _Replay:
    """One run through a journal."""

    def __init__(self, session: SessionFile, make_sandbox: MakeSandbox) -> None:
        self._session = session
        self._make = make_sandbox
        self._answers = _Answers()
        self._context: Any = None
        self.sandbox = self._fresh()

    def _fresh(self) -> SessionSandbox:
        summary = self._session.summary
        options: dict[str, Any] = {
            name: min(value, _MOST_OUTPUT) for name, value in summary.limits.items() if name in _LIMITS and value > 0
        }
        for name in _MODELS:
            if name in summary.bridges:
                options[f"on_{name}"] = self._answers.function(name)
        if summary.tools:
            options["tools"] = {
                name: {"tool": self._answers.function(name), "description": doc} for name, doc in summary.tools
            }
        return self._make(**options)

    def all(self, on_progress: Callable[[int, int], object]) -> ReplayReport:
        journal = self._session.summary.journal
        total = len(self._session.summary.cells)
        done = 0
        for place, event in enumerate(journal):
            following = journal[place + 1] if place + 1 < len(journal) else None
            try:
                if isinstance(event, Cell):
                    on_progress(done, total)
                    self._cell(event, taken_back=event.session_state == "restored" or _is(following, "rolled_back"))
                    done += 1
                else:
                    self._step(event)
            except _Diverged as exc:
                code = event.code if isinstance(event, Cell) else ""
                found = Divergence(done + 1, exc.aspect, exc.expected, exc.came, code, exc.hint or self._hint())
                return ReplayReport(total, done, self._answers.given, found)
        on_progress(done, total)
        return ReplayReport(total, done, self._answers.given, None)

    def _hint(self) -> str | None:
        summary = self._session.summary
        if any(isinstance(event, Step) and event.kind == "began_late" for event in summary.journal):
            return "recording began when the session had variables already; they are not in the journal"
        return None

    # -- cells ---------------------------------------------------------------------------------

    def _cell(self, cell: Cell, *, taken_back: bool) -> None:
        before = self._held() if taken_back else None
        self._answers.begin(cell.calls)
        limit = cell.timeout_ms
        if cell.outcome in _STOPPED:
            limit = min(max(1, round(cell.duration_ms)), cell.timeout_ms)
        timeout_ms = limit if 0 < limit <= MOST else None
        result = self.sandbox.execute(cell.code, timeout_ms=timeout_ms, stdin=cell.stdin)
        if cell.outcome not in _STOPPED:
            self._answers.check()
            _compare(cell, result)
        elif self._answers.diverged is not None:
            raise self._answers.diverged
        if before is not None:
            self.sandbox.reset()
            self._bring_back(before)

    # -- what the host did ---------------------------------------------------------------------

    def _step(self, step: Step) -> None:
        sandbox, data = self.sandbox, step.data
        try:
            if step.kind == "context":
                self._context = context_of(step, self._session.inputs)
                sandbox.initialize(self._context)
            elif step.kind == "variable":
                sandbox.set_variable(data["name"], _decoded(data.get("value")))
            elif step.kind == "file":
                sandbox.put_file(data["path"], self._input(step))
            elif step.kind == "restore":
                sandbox.restore(self._input(step))
            elif step.kind in ("reset", "savepoint", "undo"):
                getattr(sandbox, step.kind)()
            elif step.kind == "lost":
                files = self._held()[1]
                sandbox.reset()
                self._bring_back((None, files))
            elif step.kind == "resumed":
                held = self._held()
                sandbox.destroy()
                self.sandbox = self._fresh()
                if self._context is not None:
                    self.sandbox.initialize(self._context)
                self._bring_back(held)
        except (ClocheError, LookupError, ValueError) as exc:
            message = exc.message if isinstance(exc, ClocheError) else str(exc)
            raise _Diverged("step", f"the step {step.kind!r}", message) from None

    def _input(self, step: Step) -> bytes:
        data = self._session.inputs.get(step.data.get("input") or "")
        if data is None:
            raise LookupError(f"its {step.data['size']} bytes were too many to be kept in the journal")
        return data

    def _held(self) -> tuple[Snapshot, dict[str, bytes]]:
        """Variables and files of now."""
        files = {info.path: self.sandbox.get_file(info.path) for info in self.sandbox.list_files()}
        return self.sandbox.snapshot(timeout_ms=patience_ms(self.sandbox)), files

    def _bring_back(self, held: tuple[Snapshot | None, dict[str, bytes]]) -> None:
        state, files = held
        for path, data in files.items():
            self.sandbox.put_file(path, data)
        if state is not None:
            self.sandbox.restore(state, timeout_ms=patience_ms(self.sandbox))


_LIMITS = frozenset({"max_output_length", "stdout_max_bytes", "stderr_max_bytes"})
_MOST_OUTPUT = 64 << 20
"""A session file says how much output was kept, but not how much memory the host may need for it."""


def _is(event: object, kind: str) -> bool:
    return isinstance(event, Step) and event.kind == kind


def _compare(cell: Cell, result: SandboxResult) -> None:
    """Raise what differs first, the more telling aspects before the others."""
    raised = None if cell.exception is None else cell.exception.type
    came = None if result.exception is None else result.exception.type
    if (cell.outcome, cell.exit_code) != (result.outcome, result.exit_code):
        raise _Diverged(
            "outcome",
            _outcome(cell.outcome, cell.exit_code, cell.error),
            _outcome(result.outcome, result.exit_code, result.error),
        )
    if raised != came:
        raise _Diverged("exception", raised or "no exception", came or "no exception")
    aspects: tuple[tuple[Aspect, str | None, str | None], ...] = (
        ("stdout", cell.stdout, result.stdout),
        ("value", cell.value, result.value),
    )
    for aspect, expected, got in aspects:
        if _ADDRESS.sub("0x", expected or "") != _ADDRESS.sub("0x", got or "") or (expected is None) != (got is None):
            raise _Diverged(aspect, *_excerpts(expected, got))


def _outcome(outcome: str, exit_code: int, error: str | None) -> str:
    text = f"{outcome} (exit code {exit_code})" if outcome == "exited" else outcome
    return _cut(f"{text}: {error}" if error else text)


def _excerpts(expected: str | None, came: str | None) -> tuple[str, str]:
    """Both from the line in which they first differ."""
    if expected is None or came is None:
        return ("nothing" if expected is None else _cut(expected)), ("nothing" if came is None else _cut(came))
    lines, others = expected.splitlines(keepends=True), came.splitlines(keepends=True)
    same = 0
    while same < min(len(lines), len(others)) and lines[same] == others[same]:
        same += 1
    if not same:
        return _cut(expected), _cut(came)
    where = f"line {same + 1}: "
    return tuple(where + (_cut("".join(rest[same:])) or "(end)") for rest in (lines, others))  # type: ignore[return-value]  # of two


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... [{len(text) - _SHOWN} characters more]"


def _shown_call(name: str, call: BridgeCall) -> str:
    parts = [json.dumps(arg, ensure_ascii=False) for arg in call.args]
    parts += [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in call.kwargs.items()]
    return _cut(f"{name}({', '.join(parts)})")


def _decoded(data: Any) -> Any:
    try:
        return decode(data)
    except (ValueError, RecursionError, OverflowError) as exc:
        raise SessionFileError("the journal has a value that cannot be read", cause=str(exc)[:200]) from None


def _canonical(data: Any) -> str:
    """A text by which wire values can be compared: sets have no order, and addresses differ each time."""
    if type(data) is list:
        return f"[{','.join(map(_canonical, data))}]"
    if type(data) is dict:
        items = {str(key): _canonical(value) for key, value in data.items()}
        if data.get("$") in ("set", "frozenset") and type(data.get("v")) is list:
            items["v"] = f"[{','.join(sorted(map(_canonical, data['v'])))}]"
        if data.get("$") == "object":
            items["repr"] = _ADDRESS.sub("0x", items.get("repr", ""))
        return f"{{{','.join(f'{json.dumps(key)}:{items[key]}' for key in sorted(items))}}}"
    return json.dumps(data)
