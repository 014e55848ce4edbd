"""``cloche demo``: a tour that runs, verifies itself, and admits it when a promise is broken."""

from __future__ import annotations

import venv
from pathlib import Path

import pytest
from tests.cli.command import Cloche
from tests.cli.typewriter import ENTER, Typewriter

from cloche.cli.demo import Stage, this_command
from cloche.cli.demo_steps import STEPS, Step
from cloche.cli.group import invoke


def test_the_tour_keeps_its_promises(cloche: Cloche) -> None:
    done = cloche("demo", "--out", "made")
    assert (done.code, done.stderr) == (0, "")
    assert f"{len(STEPS)} of {len(STEPS)} steps did what they promised" in done.stdout
    assert (cloche.cwd / "made" / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert (cloche.cwd / "made" / "harvest.json").exists()
    said = " ".join(done.stdout.split())  # long sentences are wrapped
    for step in STEPS:
        assert step.title in said
        assert step.promise in said
    assert cloche.left_behind() == []


def test_the_tour_shows_an_error_a_time_out_a_model_and_a_crash(cloche: Cloche) -> None:
    steps = {step["name"]: step for step in cloche("demo", "--json").json["steps"]}
    assert {name: step["outcomes"][0] for name, step in steps.items()} == {
        "live_state": "ok",
        "error_line": "error",
        "secrets_stay": "ok",
        "plot": "ok",
        "timeout_keeps": "timeout",
        "bridge": "ok",
        "files": "ok",
        "branches": "ok",
        "state_survives": "ok",
        "workbench": "ok",
        "crash": "exited",
    }
    assert all(step["ok"] and step["checks"] for step in steps.values())


def test_the_tour_draws_by_hand_where_matplotlib_is_missing(cloche: Cloche, tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", with_pip=False, symlinks=True)
    done = cloche("demo", "--out", "made", CLOCHE_PYTHON=str(tmp_path / "bare" / "bin" / "python"))
    assert done.code == 0
    assert "matplotlib is not installed" in done.stdout
    assert (cloche.cwd / "made" / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_a_person_is_waited_for(typewriter: Typewriter) -> None:
    typewriter.start("demo")
    for number in range(1, len(STEPS)):
        typewriter.expect(f"{number} of {len(STEPS)}  ")
        typewriter.expect("Enter goes on")
        typewriter.type(ENTER)
    assert typewriter.finish() == 0
    assert "steps did what they promised" in typewriter.rest
    assert "▀" in typewriter.raw.decode()


def test_ctrl_c_leaves_the_tour_cleanly(typewriter: Typewriter, cloche: Cloche) -> None:
    typewriter.start("demo")
    typewriter.expect("Enter goes on")
    typewriter.type("\x03")
    assert typewriter.finish() == 130
    assert "Traceback" not in typewriter.rest
    assert cloche.left_behind() == []


def broken_promise(stage: Stage) -> None:
    stage.check(stage.run("1 + 1").value == "3", "one and one is three")


def test_a_broken_promise_exits_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    steps = [Step("broken", "A broken promise", "This will fail.", broken_promise), STEPS[0]]
    monkeypatch.setattr("cloche.cli.demo.STEPS", steps)
    assert invoke(["demo", "--out", str(tmp_path / "made")]) == 2
    said = capsys.readouterr().out
    assert "✗ not so: one and one is three" in said
    assert "1 of 2 steps did what they promised" in said


def test_the_next_command_is_one_that_a_shell_here_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = tmp_path / "a b" / "bin" / "cloche"
    command.parent.mkdir(parents=True)
    command.touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [str(command)])
    monkeypatch.setenv("PATH", str(command.parent))
    assert this_command() == "cloche"
    monkeypatch.setenv("PATH", "/usr/bin")
    assert this_command() == "'a b/bin/cloche'"
    monkeypatch.chdir("/")
    monkeypatch.setattr("sys.argv", ["/elsewhere/cloche/cli/__main__.py"])
    assert this_command() == "cloche"
