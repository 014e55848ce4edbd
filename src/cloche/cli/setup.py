"""``cloche setup``: fetch and build what a backend needs, ahead of its first session."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from cloche.cli.options import json_option
from cloche.cli.terminal import Terminal, write_json
from cloche.factory import find_backend

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from rich.progress import Progress, TaskID


@click.command()
@click.argument("backend")
@json_option
def command(backend: str, as_json: bool) -> None:
    """Set up BACKEND on this machine, for this user. Its first session would do it too, and take that much longer.

    Says on standard error what it is doing. Does nothing where everything is there.
    """
    found = find_backend(backend)
    terminal = Terminal()
    began = time.monotonic()
    with Bars(backend, terminal) as bars:
        details = found.set_up(bars.tell, bars.advance)
    steps = bars.steps
    seconds = round(time.monotonic() - began, 1)
    if as_json:
        write_json({"backend": backend, "steps": steps, "seconds": seconds, "details": dict(details or {})})
        return
    if details is None:
        terminal.out_line(f"{backend} needs no set-up")
        return
    terminal.out_line(f"{backend} is ready" + (f" ({seconds} s)" if steps else ""))
    for name, value in details.items():
        terminal.out_line(f"  {name}: {value}")


class Bars:
    """How far it is, on standard error: a bar for each step on a terminal, a line for each elsewhere."""

    def __init__(self, backend: str, terminal: Terminal) -> None:
        self.steps: list[str] = []
        """What was done."""
        self._backend = backend
        self._terminal = terminal
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if sys.stderr is not None and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            text = TextColumn("{task.description}", markup=False)
            self._progress = Progress(text, BarColumn(), TimeElapsedColumn(), console=Console(stderr=True))
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._finish()
            self._progress.stop()

    def tell(self, step: str) -> None:
        """A step begins."""
        self.steps.append(step)
        if self._progress is None:
            self._terminal.note(f"{self._backend}: {step} ...")
            return
        self._finish()
        self._task = self._progress.add_task(step, total=None)

    def advance(self, fraction: float) -> None:
        """The step is so far."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, total=1.0, completed=fraction)

    def _finish(self) -> None:
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, total=1.0, completed=1.0)
