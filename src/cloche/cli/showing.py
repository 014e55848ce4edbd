"""Showing one result to a person: output as it comes, then the value, what was saved, and what went wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cloche.cli.outputs import printable_displays

if TYPE_CHECKING:
    from cloche.cli.terminal import Terminal
    from cloche.result import SandboxResult


_CUT = "\n... [truncated, "


class LiveOutput:
    """Prints what the guest prints, and remembers how much of it, so that the rest can follow."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._seen = {"stdout": 0, "stderr": 0}

    def __call__(self, stream: str, text: str) -> None:
        """Listener for `execute(on_output=...)`."""
        self._seen[stream] += len(text)
        self._write(stream, text)

    def finish(self, result: SandboxResult) -> None:
        """What the result holds beyond the stream: a traceback, or the news that something was cut."""
        for stream, text, cut in (
            ("stdout", result.stdout, result.stdout_truncated),
            ("stderr", result.stderr, result.stderr_truncated),
        ):
            kept = text[: text.rfind(_CUT)] if cut else text
            self._write(stream, kept[self._seen[stream] :])
            if cut:
                self._terminal.note(f"{stream} was cut after {len(kept)} characters (--max-output SIZE keeps more)")

    def _write(self, stream: str, text: str) -> None:
        if stream == "stdout":
            self._terminal.out(text)
        else:
            self._terminal.err(text)


def show_value(terminal: Terminal, result: SandboxResult) -> None:
    """The value of a last expression, and displays that are text."""
    for text in printable_displays(result):
        terminal.out_line(text)
    if result.value is not None:
        terminal.out_line(result.value)


def show_trouble(terminal: Terminal, result: SandboxResult) -> None:
    """Why it did not succeed, unless a traceback has said so, and one sentence of what to do."""
    if result.outcome == "cancelled":
        terminal.note("cancelled")
    elif result.error is not None and (result.exception is None or result.stderr_truncated):
        terminal.note(f"error: {result.error}")
    if result.guidance is not None:
        terminal.note(f"hint: {' '.join(result.guidance.split())}")
