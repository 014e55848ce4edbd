"""Errors as people and programs read them: what happened, why, and the next thing to type."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from cloche.cli.terminal import Terminal, write_json
from cloche.errors import ClocheError, RequestError

if TYPE_CHECKING:
    from cloche.result import SandboxResult

USER_ERROR = 1
CODE_FAILED = 2
INTERRUPTED = 130
READER_GONE = 141
_OPTIONS = {"backend": "--backend", "minimum_isolation": "--min-isolation", "python": "--python"}
_ARGUMENT = re.compile(rf"\b({'|'.join(_OPTIONS)})='?([\w/.-]+)'?")


def exit_code_for(exc: ClocheError) -> int:
    """1 when the request was wrong, 2 when the run failed."""
    return USER_ERROR if isinstance(exc, RequestError) else CODE_FAILED


def exit_code_of(result: SandboxResult) -> int:
    """0 when the code ran to its end (or left with status 0), 130 when it was cancelled, else 2."""
    if result.outcome == "ok" or (result.outcome == "exited" and result.exit_code == 0):
        return 0
    return INTERRUPTED if result.outcome == "cancelled" else CODE_FAILED


def _as_typed(remedy: str | None) -> str | None:
    """Arguments of `create_sandbox` as the options that they are here."""
    return remedy and _ARGUMENT.sub(lambda found: f"{_OPTIONS[found[1]]} {found[2]}", remedy)


def as_data(exc: ClocheError) -> dict[str, Any]:
    """An error in place of a result; `success` and `error` mean the same as there."""
    return {
        "success": False,
        "error": exc.message,
        "error_code": exc.code,
        "cause": exc.cause,
        "remedy": _as_typed(exc.remedy),
    }


def lines_of(exc: ClocheError) -> list[str]:
    """What happened, why, remedy."""
    lines = [f"error: {exc.message}"]
    if exc.cause:
        lines.append(f"  why: {exc.cause}")
    if exc.remedy:
        lines.append(f"  remedy: {_as_typed(exc.remedy)}")
    return lines


def report(exc: ClocheError, *, as_json: bool, terminal: Terminal | None = None) -> None:
    """Tell the user."""
    if as_json:
        write_json(as_data(exc))
        return
    terminal = terminal or Terminal()
    for line in lines_of(exc):
        terminal.note(line)
