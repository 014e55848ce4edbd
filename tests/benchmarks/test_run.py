"""Taking samples and the command around it."""

from __future__ import annotations

import json
import xml.dom.minidom

import pytest
from benchmarks.__main__ import main
from benchmarks.discovery import find_rows, select
from benchmarks.row import Contender, Target
from benchmarks.runner import measure
from tests.benchmarks.made_up import breaking_down, giving, not_installed, row
from tests.benchmarks.test_measurement import KEYS


def test_contenders_take_turns():
    calls: list[str] = []
    measure(
        row(
            ours=giving(2.0, calls=calls, name="ours"),
            reference=Contender("r", giving(8.0, calls=calls, name="reference")),
            peer=Contender("p", giving(4.0, calls=calls, name="peer")),
        ),
        rounds=2,
    )
    assert calls[-6:] == ["reference", "ours", "peer"] * 2


def test_warm_up_is_not_counted():
    measurement = measure(row(ours=giving(2.0, 3.0)), rounds=2)
    assert measurement.ours == [2.0, 3.0, 2.0, 3.0]


def test_progress_is_told_after_each_round():
    seen: list[int] = []
    measure(row(), 3, seen.append)
    assert seen == [1, 2, 3]


def test_peer_that_breaks_down_midway_did_not_run():
    measurement = measure(row(peer=Contender("the peer", breaking_down)), rounds=2)
    assert measurement.peer_trouble == "IndexError: pop from empty list"
    assert measurement.peer_ratio is None
    assert measurement.ours == [2.0, 2.0]


def test_command_writes_results_and_chart(tmp_path):
    assert main(["--output", str(tmp_path)], rows=[row(), row(name="made.up.too", unit="MB/s")]) == 0
    records = json.loads((tmp_path / "latest.json").read_text())
    assert [record["name"] for record in records] == ["made.up", "made.up.too"]
    assert all(list(record) == KEYS for record in records)
    picture = xml.dom.minidom.parse(str(tmp_path / "latest.svg"))
    assert picture.documentElement is not None
    assert picture.documentElement.tagName == "svg"
    assert "made.up.too" in (tmp_path / "latest.svg").read_text()


def test_command_fails_when_a_peer_is_missing_and_still_writes_the_rest(tmp_path, capsys):
    rows = [row(name="first", peer=Contender("gone", not_installed)), row(name="second")]
    assert main(["--output", str(tmp_path)], rows=rows) == 1
    assert "gone did not run" in capsys.readouterr().out
    records = json.loads((tmp_path / "latest.json").read_text())
    assert [record["peer_ratio"] for record in records] == [None, 0.5]


def test_chart_says_that_a_peer_did_not_run(tmp_path):
    main(["--output", str(tmp_path)], rows=[row(peer=Contender("gone", not_installed))])
    assert "gone did not run" in (tmp_path / "latest.svg").read_text()


def test_quick_takes_fewer_rounds(tmp_path):
    main(["--quick", "--output", str(tmp_path)], rows=[row(rounds=7, quick_rounds=3)])
    assert json.loads((tmp_path / "latest.json").read_text())[0]["n"] == 3


def test_table_shows_whether_a_target_is_met(tmp_path, capsys):
    main(
        ["--output", str(tmp_path)],
        rows=[row(targets=(Target("p50", "<=", 3),)), row(targets=(Target("ratio", "<=", 0.1),))],
    )
    printed = capsys.readouterr().out
    assert "<= 3 ms: met" in printed
    assert "<= 0.1 x reference: MISSED" in printed


def test_only_takes_a_row_and_those_below_it():
    rows = [row(name="a.b"), row(name="a.b.c"), row(name="a.bc")]
    assert [found.name for found in select(rows, ["a.b"])] == ["a.b", "a.b.c"]


def test_only_with_an_unknown_name_fails(tmp_path):
    assert main(["--only", "no.such.row", "--output", str(tmp_path)], rows=[row()]) == 1
    assert list(tmp_path.iterdir()) == []


def test_every_row_that_was_promised_is_there():
    names = {found.name for found in find_rows()}
    assert names >= {
        "native.start", "native.roundtrip", "native.bridge", "native.context_100mb", "native.output_100mb",
        "import.cloche",
    }  # fmt: skip


def test_row_names_are_unique():
    names = [found.name for found in find_rows()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", ["native.start", "native.bridge", "native.roundtrip"])
def test_our_side_of_a_row_really_runs(name):
    found = next(found for found in find_rows() if found.name == name)
    quiet = Contender("quiet", giving(1.0))
    measurement = measure(row(name=name, ours=found.ours, reference=found.reference, peer=quiet), rounds=1)
    assert measurement.p50 > 0
    assert measurement.reference_p50 > 0
