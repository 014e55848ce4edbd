"""Violations as a text for whoever wrote the code, most often a model."""

from __future__ import annotations

from collections.abc import Sequence

from cloche.guardrails.visitor import Violation

_MOST_SHOWN = 20
_LONGEST_LINE = 120


def explain(violations: Sequence[Violation], code: str = "") -> str:
    """All of `violations` at once, each with its place, its line of `code`, and what to write instead."""
    if not violations:
        return ""
    count = len(violations)
    heading = f"The guard-rails did not let this cell run; nothing of it was executed. {count} "
    parts = [heading + ("place" if count == 1 else "places") + " to change:"]
    lines = code.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for violation in violations[:_MOST_SHOWN]:
        parts.append(f"line {violation.line}, column {violation.column}: {violation.what}")
        source = lines[violation.line - 1].strip() if code and violation.line <= len(lines) else ""
        if source:
            parts.append("    " + (source if len(source) <= _LONGEST_LINE else source[: _LONGEST_LINE - 3] + "..."))
        parts.append(f"  instead: {violation.instead}")
    if count > _MOST_SHOWN:
        parts.append(f"... and {count - _MOST_SHOWN} more")
    return "\n".join(parts)
