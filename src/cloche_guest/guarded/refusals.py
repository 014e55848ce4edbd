"""What the guard-rails say: every violation at once, each with its place and what to use instead."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable

MOST_SHOWN = 50
"""Violations in one message; a cell of nothing else must not fill it without end."""


class GuardrailError(SyntaxError):
    """The guard-rails refuse this code, and nothing of it was run."""

    __module__ = "builtins"  # what tracebacks and results show is the plain name


class Violation:
    """One thing that is not allowed."""

    __slots__ = ("column", "instead", "line", "what")

    def __init__(self, line: int | None, column: int | None, what: str, instead: str) -> None:
        self.line = line
        self.column = column
        self.what = what
        self.instead = instead

    def __str__(self) -> str:
        place = "" if self.line is None else "line %d, column %d: " % (self.line, self.column or 1)
        return "%s%s%s" % (place, self.what, "; instead: %s" % self.instead if self.instead else "")


def read_violations(told: Iterable[Any]) -> list[Violation]:
    """As the host sends them."""
    return [Violation(item["line"], item["column"], item["what"], item["instead"]) for item in told]


def refuse(violations: list[Violation], source: str, filename: str) -> GuardrailError:
    """The error for these, of which there is at least one."""
    count = len(violations)
    head = "the guard-rails refuse this code, and nothing of it was run"
    lines = [str(violation) for violation in violations[:MOST_SHOWN]]
    if count > MOST_SHOWN:
        lines.append("and %d more" % (count - MOST_SHOWN))
    message = "%s: %s" % (head, lines[0]) if count == 1 else "%s:\n  %s" % (head, "\n  ".join(lines))
    first = violations[0]
    text = None
    if first.line is not None:
        of_cell = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        text = of_cell[first.line - 1] + "\n" if first.line <= len(of_cell) else None
    return GuardrailError(message, (filename, first.line, first.column, text))
