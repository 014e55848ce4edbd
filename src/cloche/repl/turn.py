"""What a turn gave: the one value that a loop reads."""

from __future__ import annotations

import threading
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from cloche.errors import RequestError
from cloche_guest.values import encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloche.repl.ahead import Ahead, Slot
    from cloche.repl.tokens import Tokens
    from cloche.result import SandboxResult

LONGEST_ERROR = 2000
AFTERWARDS = {
    "reset": "it ended with this turn: variables and imports are gone; findings and stored outputs are there",
    "restored": "it ended with this turn, and is again as it was before it",
}
"""What code that goes on has to know, by the state of the session after a turn."""


@dataclass(frozen=True, slots=True)
class HostCall:
    """One call of a builtin or a tool in a turn."""

    name: str
    arguments: str
    """Shortened."""
    characters: int
    """Of what it gave back, as it is printed."""
    bytes: int
    tokens: Tokens
    """What that costs a model, if all of it is printed."""
    failed: str | None
    seconds: float
    ahead: bool = False
    """It was made before the code asked for it, beside others."""


@dataclass(slots=True)
class Answer:
    """The last word of a turn."""

    text: str
    value: Any = None


class OpenTurn:
    """What happens in one turn, until it is over."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.started = time.perf_counter()
        self.calls: list[HostCall] = []
        self.answer: Answer | None = None
        self.ahead: Ahead | None = None
        self.under_way: list[Ahead] = []
        """Batches that somebody waits for."""
        self.over = False
        self._lock = threading.Lock()

    def conclude_with(self, answer: Answer) -> None:
        """The first answer is the last word, whoever comes with another."""
        with self._lock:
            if self.over or self.answer is not None:
                raise RequestError("the turn has its answer already" if self.answer else "the turn is over")
            self.answer = answer

    def check(self) -> None:
        """For what takes long: nobody waits for it when the turn is over."""
        if self.over:
            raise RequestError("the turn is over")

    def while_it_lasts(self, slot: Slot) -> Any:
        """What a call of a batch gives."""
        self.check()
        return slot.result()

    def end(self) -> None:
        """From now on nothing is begun for it, and nothing counts any more."""
        with self._lock:
            self.over = True
        for ahead in (self.ahead, *self.under_way):
            if ahead is not None:
                ahead.forget()


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnResult:
    """One `execute`. `output` is what a model is to be shown."""

    output: str
    is_final: bool = False
    final_answer: str | None = None
    final_value: Any = None
    """The answer itself where it is plain data."""
    error: str | None = None
    elapsed_seconds: float = 0.0
    turn: int = 0
    spilled: str | None = None
    """Handle of the whole output, where only a summary is shown."""
    notes: tuple[str, ...] = ()
    """What was done to the code before it ran, and what the guard-rails had to say."""
    calls: tuple[HostCall, ...] = ()
    shown: Tokens | None = None
    """What `output` costs a model, and by which count."""
    shown_bytes: int = 0
    result: SandboxResult | None = field(default=None, repr=False)
    """What the sandbox said; None when the code was not run."""

    @property
    def ok(self) -> bool:
        """True when the code ran to its end, or gave its answer."""
        return self.error is None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON. In `final_value` what JSON does not have is tagged, as on the wire."""
        plain = {name: getattr(self, name) for name in self.__slots__ if name not in ("result", "shown", "calls")}
        return {
            **plain,
            "final_value": encode(self.final_value),
            "notes": list(self.notes),
            "calls": [asdict(call) for call in self.calls],
            "shown": None if self.shown is None else asdict(self.shown),
            "session_state": None if self.result is None else self.result.session_state,
        }


def describe_failure(result: SandboxResult, clean: Callable[[str], str] = str) -> str | None:
    """The error of a cell as a model can use it: type, message, and the line it points at.

    `clean` masks secrets. It comes before anything is cut: of half a secret nobody knows that it is one.
    """
    exception = result.exception
    if exception is None:
        return None if result.error is None else clean(result.error)
    text = clean(f"{exception.type}: {exception.message}").rstrip(": ")
    if len(text) > LONGEST_ERROR:  # the whole of it is in `result`
        text = f"{text[:LONGEST_ERROR]}... [{len(text) - LONGEST_ERROR} more]"
    lines = result.code.splitlines()
    if exception.line is not None and 0 < exception.line <= len(lines):
        between = "\n  " if "\n" in text else " "  # a remedy on the last line ends where it ends
        text += f"{between}(line {exception.line}: {clean(lines[exception.line - 1]).strip()[:120]})"
    return text


def compose_output(result: SandboxResult, error: str | None) -> str:
    """What was printed, the value of a last expression, and how the turn ended."""
    parts = [result.stdout]
    if result.value is not None:
        parts.append(result.value)
    stderr = result.stderr
    if result.exception is not None:
        stderr = stderr.removesuffix(result.exception.traceback)
    if stderr.strip():
        parts.append(f"[STDERR]\n{stderr.rstrip()}")
    parts.append(compose_ending(result, error))
    return "\n".join(part.rstrip("\n") for part in parts if part)


def compose_ending(result: SandboxResult, error: str | None) -> str:
    """The error, what to do about it, and what became of the session: what is said of however long a turn."""
    parts = []
    if error is not None:
        parts.append(f"[ERROR] {error}")
        if result.guidance:
            parts.append(f"[HINT] {result.guidance}")
    if result.session_state in AFTERWARDS:
        parts.append(f"[SESSION] {AFTERWARDS[result.session_state]}")
    return "\n".join(parts)
