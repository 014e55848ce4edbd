"""The rows of saved state, with little of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from benchmarks import warm_jail
from benchmarks.discovery import find_rows
from benchmarks.row import NotHere, Target
from benchmarks.rows import state, state_memory

from cloche.backends.jail.houses import houses

ROWS = {found.name: found for found in find_rows() if found.name.startswith("state.")}


@pytest.fixture(autouse=True)
def little(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(warm_jail, "PRELOAD", ("json",))
    monkeypatch.setattr(state, "MEGABYTE", 1 << 16)
    monkeypatch.setattr(state_memory, "SIZE", 1 << 25)
    yield
    houses.close()


def test_every_row_that_was_promised_is_there():
    sizes = ("1mb", "16mb", "100mb")
    promised = {f"state.{verb}_{size}" for verb in ("save", "load") for size in sizes} | {"state.incremental"}
    assert ROWS.keys() >= promised


def test_targets_are_those_that_were_promised():
    assert {name: row.targets for name, row in ROWS.items() if row.targets} == {
        "state.save_16mb": (Target("ratio", "<=", 1.3),),
        "state.incremental": (Target("p50", "<=", 60),),
        "state.guest_memory_100mb": (Target("p50", "<=", 20),),
        "state.host_memory_100mb": (Target("p50", "<=", 120),),
    }


@pytest.mark.parametrize(
    "ours",
    [
        state.saving(state.FLOATS, 1 << 16),
        state.saving(state.STRINGS, 1 << 12, portable=True),
        state.loading(state.FLOATS, 1 << 16),
        state.saving_what_changed,
        state_memory.in_the_guest,
        state_memory.in_the_host,
    ],
)
def test_our_side_of_a_row_really_runs(ours):
    try:
        with ours() as sample:
            assert sample()[0] > 0
    except NotHere as exc:
        pytest.skip(f"it cannot be measured here: {exc}")
