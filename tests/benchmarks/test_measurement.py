"""From samples to the numbers of a row."""

from __future__ import annotations

import pytest
from benchmarks.measurement import Measurement, percentile
from benchmarks.row import Target
from tests.benchmarks.made_up import row

KEYS = [
    "name", "unit", "p50", "p99", "n", "reference", "reference_p50", "ratio", "peer", "peer_p50", "peer_ratio",
]  # fmt: skip


def measured(*ours: float, **changes) -> Measurement:
    return Measurement(row(**changes), ours=list(ours), reference=[8.0, 8.0, 90.0], peer=[4.0, 4.0, 1.0])


@pytest.mark.parametrize(
    ("percent", "expected"), [(50, 50.0), (99, 99.0), (100, 100.0), (1, 1.0)], ids=["p50", "p99", "max", "p1"]
)
def test_percentile_is_the_nearest_rank(percent, expected):
    assert percentile([float(number) for number in range(100, 0, -1)], percent) == expected


def test_percentile_of_few_samples_is_one_of_them():
    assert percentile([3.0, 1.0, 2.0], 99) == 3.0
    assert percentile([3.0, 1.0, 2.0], 50) == 2.0


def test_percentile_of_nothing_is_refused():
    with pytest.raises(ValueError, match="no samples"):
        percentile([], 50)


def test_ratios_are_our_median_by_theirs():
    measurement = measured(1.0, 2.0, 40.0)
    assert measurement.ratio == 0.25
    assert measurement.peer_ratio == 0.5


def test_p99_is_the_slow_end_of_a_time():
    assert measured(1.0, 2.0, 40.0).p99 == 40.0


def test_p99_is_the_slow_end_of_a_speed_too():
    assert measured(1.0, 2.0, 40.0, unit="MB/s", higher_is_better=True).p99 == 1.0


def test_record_has_the_documented_keys_in_order():
    assert list(measured(2.0).record()) == KEYS


def test_record_says_who_was_measured():
    record = measured(2.0, 2.0).record()
    assert (record["reference"], record["peer"], record["n"]) == ("the reference", "the peer", 2)
    assert (record["reference_p50"], record["peer_p50"]) == (8.0, 4.0)


def test_record_of_a_row_whose_peer_did_not_run_has_no_peer_figures():
    measurement = measured(2.0)
    measurement.peer_trouble = "not installed"
    record = measurement.record()
    assert record["peer"] == "the peer"
    assert record["peer_p50"] is None
    assert record["peer_ratio"] is None


@pytest.mark.parametrize(
    ("target", "met"),
    [
        (Target("p50", "<=", 2.0), True),
        (Target("p50", "<=", 1.9), False),
        (Target("ratio", "<=", 0.25), True),
        (Target("ratio", ">=", 0.26), False),
        (Target("peer_ratio", "<=", 0.5), True),
        (Target("peer_ratio", "<=", 0.4), False),
    ],
)
def test_target_compares_the_quantity_that_it_names(target, met):
    assert measured(2.0).met(target) is met


def test_target_against_a_peer_that_did_not_run_is_unknown():
    measurement = measured(2.0)
    measurement.peer_trouble = "not installed"
    assert measurement.met(Target("peer_ratio", "<=", 1.0)) is None


def test_target_text_speaks_of_speed_against_a_peer():
    assert Target("peer_ratio", "<=", 1 / 20).text("us") == "20 x faster than the peer"
    assert Target("peer_ratio", "<=", 1.5).text("ms") == "<= 1.5 x peer"
    assert Target("p50", ">=", 500).text("MB/s") == ">= 500 MB/s"
    assert Target("ratio", "<=", 1.5).text("ms") == "<= 1.5 x reference"
