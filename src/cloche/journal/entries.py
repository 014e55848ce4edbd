"""What a journal is made of: cells with what came of them, and the host's own steps between them.

Each has a form in JSON. Reading it believes nothing: every field is of its type, or the journal is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeVar, get_args

from cloche.errors import SessionFileError
from cloche.result import ExceptionInfo, Outcome, SessionState

T = TypeVar("T")

StepKind = Literal[
    "context",
    "variable",
    "file",
    "restore",
    "reset",
    "savepoint",
    "undo",
    "lost",
    "began_late",
    "resumed",
    "rolled_back",
]
_OUTCOMES, _STATES, _STEPS = (frozenset(get_args(kind)) for kind in (Outcome, SessionState, StepKind))

_STEP_FIELDS: dict[str, dict[str, type]] = {
    "variable": {"name": str},
    "file": {"path": str, "size": int},
    "restore": {"size": int},
}


@dataclass(frozen=True, slots=True)
class BridgeCall:
    """A call of a host function, and its answer; values in the form that they have on the wire."""

    name: str
    args: list[Any]
    kwargs: dict[str, Any]
    result: Any = None
    failure: tuple[str, str] | None = None
    """Type and message of what the function raised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A cell that was run."""

    code: str
    outcome: Outcome
    stdout: str = ""
    stderr: str = ""
    value: str | None = None
    error: str | None = None
    exception: ExceptionInfo | None = None
    exit_code: int = 0
    session_state: SessionState = "kept"
    ended: float = 0.0
    """Seconds since the epoch."""
    duration_ms: float = 0.0
    timeout_ms: int = 0
    files: tuple[str, ...] = ()
    """Created, modified or deleted."""
    calls: tuple[BridgeCall, ...] = ()
    stdin: str | None = None

    def to_data(self) -> dict[str, Any]:
        """As JSON."""
        return {"kind": "cell", **asdict(self)}


@dataclass(frozen=True, slots=True)
class Step:
    """Something that the host did to the session.

    ``context`` (`text`: digest of an input, or `value`), ``variable`` (`name`, `value`), ``file`` (`path`, `size`,
    `input`), ``restore`` (`size`, `input`), ``reset``, ``savepoint``, ``undo``; ``lost``: the guest died between cells,
    and the variables with it; ``began_late``: the session had a past when recording began; ``resumed``: saved, and
    brought back in another sandbox; ``rolled_back``: the cell before ended the session, and the state from before that
    cell was brought back.
    """

    kind: StepKind
    data: Mapping[str, Any] = field(default_factory=dict)

    def to_data(self) -> dict[str, Any]:
        """As JSON."""
        return {"kind": self.kind, **self.data}


Event = Cell | Step


def read_event(data: Any) -> Event:
    """An event from JSON."""
    kind = required(data, "kind", str)
    if kind == "cell":
        return _read_cell(data)
    if kind not in _STEPS:
        raise SessionFileError("the journal has an event that this version does not know", cause=repr(kind[:60]))
    known: Any = kind
    for name, needed in _STEP_FIELDS.get(kind, {}).items():
        required(data, name, needed)
    for name in ("text", "input"):
        optional(data, name, str)
    return Step(known, {name: value for name, value in data.items() if name != "kind"})


def _read_cell(data: Mapping[str, Any]) -> Cell:
    raised = optional(data, "exception", dict)
    outcome, state = required(data, "outcome", str), required(data, "session_state", str)
    if outcome not in _OUTCOMES or state not in _STATES:
        raise SessionFileError("the journal has a cell with an outcome that there is not", cause=repr(outcome[:60]))
    known_outcome: Any = outcome
    known_state: Any = state
    return Cell(
        code=required(data, "code", str),
        outcome=known_outcome,
        stdout=required(data, "stdout", str),
        stderr=required(data, "stderr", str),
        value=optional(data, "value", str),
        error=optional(data, "error", str),
        exception=None if raised is None else _read_exception(raised),
        exit_code=required(data, "exit_code", int),
        session_state=known_state,
        ended=number(data, "ended"),
        duration_ms=number(data, "duration_ms"),
        timeout_ms=required(data, "timeout_ms", int),
        files=tuple(strings(data, "files")),
        calls=tuple(_read_call(call) for call in required(data, "calls", list)),
        stdin=optional(data, "stdin", str),
    )


def _read_exception(data: Mapping[str, Any]) -> ExceptionInfo:
    return ExceptionInfo(
        required(data, "type", str),
        required(data, "message", str),
        optional(data, "line", int),
        required(data, "traceback", str),
    )


def _read_call(data: Any) -> BridgeCall:
    failure = optional(data, "failure", list)
    if failure is not None and (len(failure) != 2 or not all(type(part) is str for part in failure)):
        raise SessionFileError("the journal has a bridge call whose failure is not a type and a message")
    return BridgeCall(
        required(data, "name", str),
        required(data, "args", list),
        required(data, "kwargs", dict),
        data.get("result"),
        None if failure is None else (failure[0], failure[1]),
    )


# -- fields of JSON that somebody else may have written --------------------------------------------


def required(data: Any, name: str, kind: type[T]) -> T:
    """`data[name]`, which must be there and of that very type."""
    value = optional(data, name, kind)
    if value is None:
        raise SessionFileError(f"the session file has no {name!r} where there must be one")
    return value


def optional(data: Any, name: str, kind: type[T]) -> T | None:
    """`data[name]`, of that very type; None when it is absent."""
    if type(data) is not dict:
        raise SessionFileError("the session file has something else where an object must be")
    value = data.get(name)
    if value is not None and type(value) is not kind:
        raise SessionFileError(f"the session file has a {name!r} that is not of type {kind.__name__}")
    return value


def number(data: Any, name: str) -> float:
    """A finite number."""
    value: Any = data.get(name) if type(data) is dict else None
    if type(value) not in (int, float) or not -1e300 < value < 1e300:
        raise SessionFileError(f"the session file has a {name!r} that is not a number")
    return float(value)


def strings(data: Any, name: str) -> list[str]:
    """A list of texts."""
    items = required(data, name, list)
    if not all(type(item) is str for item in items):
        raise SessionFileError(f"the session file has a {name!r} that is not a list of texts")
    return items
