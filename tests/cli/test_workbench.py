"""`cloche repl --environment`: the bench of an agent, for a person or a pipe."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.cli.typewriter import CTRL_C, CTRL_D, ENTER, TAB

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
    assert done.stdout.endswith("FINAL: done\n"), "what was found is what a redirection keeps"
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


def test_a_root_that_is_not_there_is_refused(tmp_path):
    done = bench(tmp_path, "--root", str(tmp_path / "nowhere"))
    assert done.returncode == 1
    assert "there is no folder" in done.stderr


def test_the_deadline_is_that_of_the_command_line_and_calls_are_those_of_an_agent(tmp_path):
    cells = "for n in range(1100): peek(1)\nprint(n)\n\nwhile True: pass\n"
    done = bench(tmp_path, "--timeout", "2s", cells=cells)
    assert "ran longer than 2000 ms" in done.stdout
    assert "[ERROR] timeout" in done.stdout
    assert "bridge" not in done.stdout


def test_commands_are_those_of_the_bench(tmp_path):
    cells = "mark_finding('a'); x = 1\n:state\n:reset\n:state\n:save me\n"
    done = bench(tmp_path, cells=cells)
    assert "x (int)" in done.stdout
    assert "findings: 1, the last: a" in done.stdout
    afresh = done.stdout.partition("the session starts afresh")[2]
    assert "findings" not in afresh.partition("\n")[2]
    assert "variables: none" in afresh
    assert "there is no command :save" in done.stderr


def test_a_text_of_several_lines_is_shown_as_it_is(tmp_path):
    assert bench(tmp_path, cells="peek()\npeek(3)\n").stdout == "the quick\nbrown fox\n'the'\n"


def test_a_person_completes_waits_stops_and_leaves(typewriter, tmp_path):
    (tmp_path / "context.txt").write_text("the quick\nbrown fox\n")
    typewriter.start("repl", "--environment", "--backend", "native", "--context", str(tmp_path / "context.txt"))
    typewriter.expect("The context has 20 characters")
    typewriter.expect(">>>")
    typewriter.type("chunk_co" + TAB)
    typewriter.expect(r"ntext\(")
    typewriter.type("1)[0]['end']" + ENTER)
    typewriter.expect(r"20\r\n")
    typewriter.expect("1 host call")
    typewriter.expect(">>>")
    typewriter.type(":sta" + TAB)
    typewriter.expect("te")
    typewriter.type(ENTER)
    typewriter.expect("turns: 1, looks: 1")
    typewriter.expect(">>>")
    typewriter.type("kept = 5; import time; time.sleep(600)" + ENTER)
    typewriter.expect("still running after 2 s; Ctrl-C stops it")
    typewriter.type(CTRL_C)
    typewriter.expect("cancelled")
    typewriter.expect(">>>")
    typewriter.type("kept" + ENTER)
    typewriter.expect(r"5\r\n")
    typewriter.expect(">>>")
    typewriter.type(CTRL_D)
    assert typewriter.finish() == 0


def test_a_named_session_is_refused_with_what_to_type(tmp_path):
    done = bench(tmp_path, "--session", "x")
    assert done.returncode == 1
    assert "leave --session and --store out" in done.stderr
