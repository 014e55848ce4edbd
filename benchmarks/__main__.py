"""``python -m benchmarks [--quick] [--only NAME] [--update] [--output FOLDER]``: measure, print, write the results.

Only a whole run replaces the published results; ``--update`` replaces the rows that were measured and keeps the others.
Exits with 1 when a peer did not run: a ratio that nobody measured is not a result.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from benchmarks import discovery, published, table
from benchmarks.row import NotHere
from benchmarks.runner import measure
from cloche.backends.jail.programs import describe_programs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.measurement import Measurement
    from benchmarks.row import Row


def main(argv: Sequence[str] | None = None, rows: Sequence[Row] | None = None) -> int:
    """The command. `rows` replaces those that are found."""
    options = _parse(argv)
    console = Console(width=None if sys.stdout.isatty() else 190)
    known = list(discovery.find_rows() if rows is None else rows)
    chosen = discovery.select(known, options.only)
    if not chosen:
        console.print(f"no row is called {', '.join(options.only)}; try --list", style="red")
        return 1
    if options.list:
        for row in chosen:
            console.print(f"{row.name:32} {row.what}", highlight=False)
        return 0
    measurements, skipped = _measure_all(chosen, console, quick=options.quick)
    if measurements:
        console.print(table.build(measurements))
        if any(measurement.row.name.startswith("jail.") for measurement in measurements):
            console.print(f"The jail's own processes: {describe_programs()}.", highlight=False)
        _publish(measurements, known, options, console)
    for name, reason in skipped.items():
        console.print(f"{name}: not measured here: {reason}", style="yellow", highlight=False)
    return _report_trouble(measurements, console)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure Cloche beside its peers.")
    parser.add_argument("--quick", action="store_true", help="a few rounds only: does everything run?")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="only this row, or rows below it")
    parser.add_argument("--list", action="store_true", help="name the rows and stop")
    parser.add_argument("--update", action="store_true", help="write these rows, keep the others of the results")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="where results are written")
    return parser.parse_args(argv)


def _measure_all(rows: Sequence[Row], console: Console, *, quick: bool) -> tuple[list[Measurement], dict[str, str]]:
    """What was measured, and why the other rows were not."""
    measurements = []
    skipped = {}
    columns = (TextColumn("{task.description:32}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    # Drawn between rounds only: a thread that draws by itself would run during the samples.
    with Progress(*columns, console=console, auto_refresh=False) as progress:
        for row in rows:
            rounds = row.quick_rounds if quick else row.rounds
            show = partial(_show, progress, progress.add_task(row.name, total=rounds))
            try:
                measurements.append(measure(row, rounds, show))
            except NotHere as exc:
                skipped[row.name] = str(exc)
    return measurements, skipped


def _show(progress: Progress, task: TaskID, done: int) -> None:
    progress.update(task, completed=done, refresh=True)


def _publish(
    measurements: Sequence[Measurement], known: Sequence[Row], options: argparse.Namespace, console: Console
) -> None:
    if options.output is None and (options.quick or options.only) and not options.update:
        console.print("not written: this was no whole run (--update writes these rows, --output FOLDER elsewhere)")
        return
    folder: Path = options.output or published.RESULTS
    published.write(measurements, folder, keep=known if options.update else ())
    console.print(f"written: {folder}/latest.json, latest.svg", highlight=False)


def _report_trouble(measurements: Sequence[Measurement], console: Console) -> int:
    trouble = [measurement for measurement in measurements if measurement.peer_trouble is not None]
    for measurement in trouble:
        console.print(
            f"{measurement.row.name}: {measurement.row.peer.name} did not run: {measurement.peer_trouble}",
            style="red",
            highlight=False,
        )
    if trouble:
        console.print(
            "The peers come with `make bench`, or: pip install 'cloche[bench]'", highlight=False, markup=False
        )
    return 1 if trouble else 0


if __name__ == "__main__":
    sys.exit(main())
