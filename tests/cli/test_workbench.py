"""`cloche repl --environment`: the bench of an agent, for a person or a pipe."""

from __future__ import annotations

import json
import subprocess
import sys

CELLS = "print(peek(9)); print(grep('fox'))\nimport os\nFINAL('done')\n"


def bench(tmp_path, *arguments: str, cells: str = CELLS) -> subprocess.CompletedProcess[str]:
    (tmp_path / "context.txt").write_text("the quick\nbrown fox\n")
    command = [sys.executable, "-m", "cloche.cli", "repl", "--environment", "--backend", "native"]
    return subprocess.run(
        [*command, "--context", str(tmp_path / "context.txt"), *arguments],
        input=cells, capture_output=True, text=True, timeout=50,
    )  # fmt: skip


def test_it_looks_and_answers(tmp_path):
    done = bench(tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith("the quick\n2: brown fox\n")
    assert "FINAL: done" in done.stderr
    assert "tokens (" in done.stderr


def test_it_warns_and_runs_unless_it_is_told_to_refuse(tmp_path):
    assert "[guard-rails] line 1" in bench(tmp_path).stdout
    refused = bench(tmp_path, "--guard", "enforce")
    assert "nothing of it was executed" in refused.stdout


def test_with_json_each_turn_is_one_line(tmp_path):
    turns = [json.loads(line) for line in bench(tmp_path, "--json").stdout.splitlines()]
    assert turns[0]["output"].startswith("the quick\n")
    assert (turns[-1]["is_final"], turns[-1]["final_answer"]) == (True, "done")
    assert turns[0]["shown"]["encoding"]


def test_a_root_can_be_looked_at(tmp_path):
    (tmp_path / "notes.txt").write_text("a note")
    done = bench(tmp_path, "--root", str(tmp_path), cells="print(peek('notes.txt'))\nlist_dir('.')\n")
    assert done.stdout.startswith("a note\n")


def test_a_named_session_is_refused_with_what_to_type(tmp_path):
    done = bench(tmp_path, "--session", "x")
    assert done.returncode == 1
    assert "leave --session out" in done.stderr
