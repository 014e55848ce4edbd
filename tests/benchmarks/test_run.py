"""Taking samples and the command around it."""

from __future__ import annotations

import json
import xml.dom.minidom
from contextlib import AbstractContextManager

import pytest
from benchmarks import published
from benchmarks.__main__ import main
from benchmarks.discovery import find_rows, select
from benchmarks.row import Contender, NotHere, Sampler, Target
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


def test_slow_peer_takes_part_in_some_rounds_spread_among_all():
    calls: list[str] = []
    slow = row(
        ours=giving(2.0, calls=calls, name="ours"),
        peer=Contender("p", giving(4.0, calls=calls, name="peer")),
        peer_rounds=2,
    )
    measurement = measure(slow, rounds=6)
    assert calls[-8:] == ["ours", "peer", "ours", "ours", "ours", "peer", "ours", "ours"]
    assert (len(measurement.ours), len(measurement.peer)) == (6, 2)


def test_peer_is_never_asked_more_often_than_there_are_rounds():
    assert len(measure(row(peer_rounds=5), rounds=2).peer) == 2


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


def test_row_that_cannot_be_measured_here_is_said_with_its_reason(tmp_path, capsys):
    def not_on_this_machine() -> AbstractContextManager[Sampler]:
        raise NotHere("only on the moon")

    assert (
        main(["--output", str(tmp_path)], rows=[row(name="first", ours=not_on_this_machine), row(name="second")]) == 0
    )
    assert "first: not measured here: only on the moon" in capsys.readouterr().out
    assert [record["name"] for record in published.read(tmp_path)] == ["second"]


def test_update_replaces_what_was_measured_and_keeps_the_rest(tmp_path):
    rows = [row(name="first"), row(name="second"), row(name="third")]
    main(["--output", str(tmp_path), "--only", "first", "--only", "third"], rows=rows)
    rows[1:] = [row(name="second", ours=giving(3.0)), row(name="third", ours=giving(5.0))]
    main(["--output", str(tmp_path), "--update", "--only", "second"], rows=rows)
    assert [(record["name"], record["p50"]) for record in published.read(tmp_path)] == [
        ("first", 2.0), ("second", 3.0), ("third", 2.0),
    ]  # fmt: skip
    assert all(name in (tmp_path / "latest.svg").read_text() for name in ("first", "second", "third"))


@pytest.mark.parametrize("part", [["--quick"], ["--only", "made.up"]])
def test_part_of_a_run_does_not_replace_the_published_results(part, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(published, "RESULTS", tmp_path)
    assert main(part, rows=[row()]) == 0
    assert list(tmp_path.iterdir()) == []
    assert "not written" in capsys.readouterr().out


def test_whole_run_replaces_the_published_results(monkeypatch, tmp_path):
    monkeypatch.setattr(published, "RESULTS", tmp_path)
    assert main([], rows=[row()]) == 0
    assert [record["name"] for record in published.read(tmp_path)] == ["made.up"]


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
