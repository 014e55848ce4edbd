"""The results in the repository."""

from __future__ import annotations

from benchmarks import published
from benchmarks.discovery import find_rows
from tests.benchmarks.test_measurement import KEYS

RECORDS = published.read()


def test_published_results_have_the_documented_shape():
    assert RECORDS
    assert all(list(record) == KEYS for record in RECORDS)


def test_published_results_are_of_rows_that_exist():
    assert {record["name"] for record in RECORDS} <= {row.name for row in find_rows()}


def test_published_results_name_no_path_of_the_machine():
    said = [str(value) for record in RECORDS for name, value in record.items() if name != "unit"]  # which may be "/s"
    assert not any(value.startswith("/") for value in said)


def test_published_results_have_figures_of_every_peer():
    assert all(record["peer_ratio"] is not None for record in RECORDS)
