"""``cloche replay``: the journal of a session again, and the first thing that comes out otherwise."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from cloche.cli.failure import USER_ERROR
from cloche.cli.interrupts import tidy_ending
from cloche.cli.options import Choices, json_option, store_option, wall_options
from cloche.cli.session import read_target
from cloche.cli.terminal import Terminal, write_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cloche.journal.replay import Divergence


@click.command()
@click.argument("target", metavar="FILE|NAME")
@wall_options
@store_option
@json_option
def command(choices: Choices, target: str, store: str | None, as_json: bool) -> int:
    """Run a session's cells again in a fresh sandbox, and report the first that comes out otherwise.

    Outcome, output, value and type of exception are compared. Host functions are not called: cells get the answers
    that were recorded. Exit code 1 when something differs.

    \b
    cloche replay analysis.cloche
    cloche replay analysis --backend wasm --json
    """
    from cloche.journal.replay import replay

    session = read_target(target, store)
    with tidy_ending(), _progress(len(session.summary.cells), shown=not as_json) as on_progress:
        report = replay(session, choices.sandbox, on_progress=on_progress)
    if as_json:
        write_json({**asdict(report), "faithful": report.faithful})
        return 0 if report.faithful else USER_ERROR
    terminal = Terminal()
    answered = f" ({report.calls} bridge calls answered from the journal)" if report.calls else ""
    if report.divergence is None:
        cells = "1 cell" if report.cells == 1 else f"{report.cells} cells"
        terminal.out_line(f"{cells} came out as recorded{answered}")
        return 0
    for line in _told(report.divergence):
        terminal.out_line(line)
    terminal.out_line(f"{report.replayed} of {report.cells} cells came out as recorded{answered}")
    return USER_ERROR


def _told(found: Divergence) -> list[str]:
    lines = [f"cell {found.cell} came out otherwise: {found.aspect}"]
    for title, text in (("code", found.code), ("recorded", found.expected), ("came", found.came), ("why", found.hint)):
        if text:
            first, *rest = text.splitlines() or [""]
            lines += [f"  {title + ':':<10}{first}", *(f"  {'':<10}{line}" for line in rest)]
    return lines


@contextmanager
def _progress(cells: int, *, shown: bool) -> Iterator[Callable[[int, int], object] | None]:
    """A bar for whoever waits."""
    if not shown or cells < 2 or sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("replaying"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("cells", total=cells)
        yield lambda done, _total: bar.update(task, completed=done)
