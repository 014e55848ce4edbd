"""The rows of the workbench, with a context that is small."""

from __future__ import annotations

import pytest
from benchmarks.discovery import find_rows
from benchmarks.row import Target
from benchmarks.rows import environment_grep

ROWS = {found.name: found for found in find_rows() if found.name.startswith("env.grep_100mb.")}


def test_the_targets_are_a_gigabyte_a_second_for_literals_and_four_hundred_megabytes_for_every_shape():
    assert ROWS["env.grep_100mb.literal"].targets == (Target("p50", ">=", 1000),)
    assert len(environment_grep.SHAPES) == 5
    assert all(target.bound >= 400 for row in ROWS.values() for target in row.targets)


@pytest.mark.parametrize("name", ROWS)
def test_every_contender_finds_what_was_planted(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(environment_grep, "SIZE", 3_000_000)
    row = ROWS[name]
    for contender in (row.ours, row.peer.open, row.reference.open):
        with contender() as sample:
            assert sample()[0] > 0


def test_a_contender_that_misses_a_line_is_no_result(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(environment_grep, "SIZE", 3_000_000)
    with (
        environment_grep._speed(lambda data: data.count(b"needle_handler") - 1)() as sample,
        pytest.raises(RuntimeError, match="1 lines were found of 2"),
    ):
        sample()
