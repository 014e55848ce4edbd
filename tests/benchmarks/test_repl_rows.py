"""The rows of the REPL server, with little to carry."""

from __future__ import annotations

import pytest
from benchmarks.discovery import find_rows
from benchmarks.row import NotHere, Target
from benchmarks.rows import repl

from cloche.executor import REPLSettings

ROWS = {found.name: found for found in find_rows() if found.name.startswith("repl.")}


def test_the_targets_are_those_of_the_document_and_of_linear_time():
    assert ROWS["repl.request"].targets == (Target("p50", "<=", 40),)
    assert ROWS["repl.wire_100mb"].targets == (Target("ratio", "<=", 7),)


@pytest.mark.parametrize(
    "ours",
    [
        repl.carrying(lambda: 80_000),
        lambda: repl.requests(REPLSettings(preload=("math",))),
        lambda: repl.requests(REPLSettings(preload=("math",), enabled=False)),
    ],
)
def test_our_side_of_a_row_really_runs(ours):
    try:
        with ours() as sample:
            assert sample()[0] > 0
    except NotHere as exc:
        pytest.skip(f"it cannot be measured here: {exc}")
