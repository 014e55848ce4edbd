"""The results as they are published: as data and as a picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import chart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.measurement import Measurement
    from benchmarks.row import Row

RESULTS = Path(__file__).parent / "results"
DATA = "latest.json"
PICTURE = "latest.svg"


def write(measurements: Sequence[Measurement], folder: Path, keep: Sequence[Row] = ()) -> None:
    """Write them. Of `keep`, what was published earlier stays: a row's ratios are of one run, rows need not be."""
    folder.mkdir(parents=True, exist_ok=True)
    fresh = {measurement.row.name: (measurement.row, measurement.record()) for measurement in measurements}
    entries = [*fresh.values()]
    if keep:
        earlier = {record["name"]: record for record in read(folder)}
        entries = [
            fresh.get(row.name) or (row, earlier[row.name]) for row in keep if row.name in fresh or row.name in earlier
        ]
    records = [record for _, record in entries]
    (folder / DATA).write_text(json.dumps(records, indent=2) + "\n", "utf-8")
    (folder / PICTURE).write_text(chart.draw(entries), "utf-8")


def read(folder: Path = RESULTS) -> list[dict[str, Any]]:
    """The records, row by row."""
    try:
        records: list[dict[str, Any]] = json.loads((folder / DATA).read_text("utf-8"))
    except FileNotFoundError:
        return []
    return records
