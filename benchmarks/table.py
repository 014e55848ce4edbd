"""The table on the terminal."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.measurement import Measurement
    from benchmarks.row import Unit


def machine() -> str:
    """What a figure depends on, in a few words."""
    return (
        f"{platform.python_implementation()} {platform.python_version()}, {platform.system()} "
        f"{platform.machine()}, {os.cpu_count()} cores"
    )


def figure(value: float | None, unit: Unit | None = None) -> str:
    """Three significant digits."""
    if value is None:
        return "-"
    text = f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    return text if unit is None else f"{text} {unit}"


def build(measurements: Sequence[Measurement]) -> Table:
    """All rows. Ratios are ours by theirs."""
    table = Table(title=f"Cloche, {machine()}", title_justify="left", caption_justify="left")
    table.caption = "x ref and x peer are ours by theirs. p99 is the bad end, whichever end that is."
    table.add_column("row", no_wrap=True)
    for name in ("p50", "p99", "n", "reference", "x ref", "peer p50", "x peer"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("peer")
    table.add_column("target")
    for measurement in measurements:
        row = measurement.row
        table.add_row(
            row.name,
            figure(measurement.p50, row.unit),
            figure(measurement.p99),
            str(len(measurement.ours)),
            figure(measurement.reference_p50),
            figure(measurement.ratio),
            figure(measurement.peer_p50),
            figure(measurement.peer_ratio),
            row.peer.name if measurement.peer_trouble is None else Text("did not run", style="bold red"),
            _targets(measurement),
        )
    return table


def _targets(measurement: Measurement) -> Text:
    styles = {True: ("met", "green"), False: ("MISSED", "bold red"), None: ("unknown", "yellow")}
    parts = []
    for target in measurement.row.targets:
        word, style = styles[measurement.met(target)]
        parts.append(Text.assemble(f"{target.text(measurement.row.unit)}: ", (word, style)))
    return Text("\n").join(parts)
