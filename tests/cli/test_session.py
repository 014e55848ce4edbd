"""Sessions that have a name: worked in, listed, shown, carried elsewhere, removed, and replayed."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.command import Cloche, Finished

from cloche.cli.group import invoke

Call = Callable[..., Finished]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """The command in this process, with places of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CLOCHE_STORE", raising=False)
    monkeypatch.setenv("CLOCHE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("CLOCHE_SESSIONS_DIR", str(tmp_path / "sessions"))
    monkeypatch.setenv("CLOCHE_BACKEND", "native")

    def run(*arguments: str | Path) -> Finished:
        capsys.readouterr()
        code = invoke([str(argument) for argument in arguments])
        streams = capsys.readouterr()
        return Finished(code, streams.out, streams.err)

    return run


@pytest.fixture
def work(call: Call) -> Call:
    """With a session of that name."""
    assert call("run", "--session", "work", "-c", "x = 41; open('out.txt', 'w').write('hi')").code == 0
    return call


# -- working in one --------------------------------------------------------------------------------


def test_variables_and_files_come_back_in_the_next_run(work: Call) -> None:
    done = work("run", "--session", "work", "-c", "print(open('out.txt').read()); x + 1")
    assert (done.code, done.stdout, done.stderr) == (0, "hi\n42\n", "")


def test_a_run_without_a_session_knows_nothing_of_it(work: Call) -> None:
    assert "NameError" in work("run", "-c", "x").stderr


def test_files_that_stay_with_the_session_are_not_said_to_be_lost(call: Call) -> None:
    code = "open('out.txt', 'w').close()"
    assert "not kept" in call("run", "-c", code).stderr
    assert call("run", "--session", "s", "-c", code).stderr == ""


def test_what_cannot_be_saved_is_said_once_with_the_reason(call: Call) -> None:
    done = call("run", "--session", "s", "-c", "gen = (i for i in []); y = 1")
    assert "not saved: gen (" in done.stderr
    assert "generator" in done.stderr
    again = call("run", "--session", "s", "-c", "gen2 = 1; y")
    assert (again.stdout, again.stderr) == ("1\n", "")


def test_a_cell_that_raised_is_saved_too(work: Call) -> None:
    done = work("run", "--session", "work", "-c", "x = 5; 1/0")
    assert done.code == 2
    assert work("run", "--session", "work", "-c", "x").stdout == "5\n"


def test_a_cell_that_ended_the_session_leaves_what_was_saved_before_it(work: Call) -> None:
    done = work("run", "--session", "work", "-c", "x = 5; open('out.txt', 'w').close(); import os; os._exit(7)")
    assert done.code == 2
    assert "it is back as it was when it was last saved" in done.stderr
    assert work("run", "--session", "work", "-c", "x, open('out.txt').read()").stdout == "(41, 'hi')\n"
    assert work("replay", "work").code == 0


def test_json_says_what_became_of_the_session(work: Call) -> None:
    done = work("run", "--session", "work", "--json", "-c", "gen = (i for i in [])")
    said = done.json["session"]
    assert (said["name"], said["saved"], said["cells"], said["variables"]) == ("work", True, 2, ["x"])
    assert [it["name"] for it in said["skipped"]] == ["gen"]
    assert "session" not in work("run", "--json", "-c", "1").json


def test_a_context_stays_with_the_session(call: Call, tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"some\r\ntext")
    call("run", "--session", "s", "--context", "text", "-c", "1")
    assert call("run", "--session", "s", "-c", "context").stdout == "'some\\r\\ntext'\n"


def test_a_folder_of_the_users_own_is_left_alone(work: Call, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "out.txt").write_text("mine")
    done = work("run", "--session", "work", "-w", own, "-c", "open('out.txt').read()")
    assert done.stdout == "'mine'\n"
    assert "not brought back: out.txt" in done.stderr
    assert work("run", "--session", "work", "-c", "open('out.txt').read()").stdout == "'hi'\n"


@pytest.mark.parametrize("name", ["", "a b", "../x", "-x", "x" * 101, "a/b"])
def test_what_is_no_name_is_refused_before_anything_runs(call: Call, name: str) -> None:
    done = call("run", f"--session={name}", "-c", "print('ran')")
    assert (done.code, done.stdout) == (1, "")
    assert "letters, digits" in done.stderr


def test_a_store_without_a_session_is_refused(call: Call) -> None:
    done = call("run", "--store", "sqlite:///x", "-c", "1")
    assert done.code == 1
    assert "--session NAME" in done.stderr


def test_a_session_can_be_kept_elsewhere(call: Call, tmp_path: Path) -> None:
    place = f"sqlite://{tmp_path}/elsewhere"
    call("run", "--session", "s", "--store", place, "-c", "x = 1")
    assert call("session", "list", "--json").json == []
    assert [it["name"] for it in call("session", "list", "--store", place, "--json").json] == ["s"]


# -- at a prompt -----------------------------------------------------------------------------------


def lines(done: Finished) -> list[str]:
    return done.stdout.splitlines()


def test_a_prompt_goes_on_in_a_session(cloche: Cloche) -> None:
    options = ("repl", "-b", "native", "--session", "s")
    cloche(*options, stdin=b"x = 1\nopen('f', 'w').write('a')\n")
    done = cloche(*options, stdin=b"x += 1\n:reset\nx\n:put /dev/null\nopen('null').read()\n")
    assert "NameError" in done.stderr
    last = cloche(*options, stdin=b"sorted(n for n in globals() if n == 'x'), __import__('os').listdir()\n")
    assert lines(last) == ["([], ['null'])"]


def test_a_prompt_becomes_a_session_when_it_is_given_a_name(cloche: Cloche) -> None:
    done = cloche("repl", "-b", "native", stdin=b"x = 20\n:save mine\nx += 1\n:save mine\n")
    assert "this is the session 'mine' now" in done.stdout
    assert "there is a session 'mine' already" in done.stderr
    again = cloche("repl", "-b", "native", "--session", "mine", "--json", stdin=b"x\n")
    assert (again.json["value"], again.json["session"]["cells"]) == ("21", 3)


def test_a_guest_that_dies_between_cells_costs_nothing_that_was_saved(cloche: Cloche) -> None:
    code = b"x = 1\nimport os, threading; threading.Timer(0.05, os._exit, [1]).start()\n"
    prompt = cloche.start("repl", "-b", "native", "--session", "s", "--json")
    assert prompt.stdin is not None
    assert prompt.stdout is not None
    assert prompt.stderr is not None
    with prompt.stdin, prompt.stdout, prompt.stderr:
        prompt.stdin.write(code)
        prompt.stdin.flush()
        saved = [json.loads(prompt.stdout.readline()) for _ in range(2)]
        assert saved[0]["session"]["saved"]
        while True:  # until it is gone
            prompt.stdin.write(b"'x' in globals()\n")
            prompt.stdin.flush()
            said = json.loads(prompt.stdout.readline())
            if "session" not in said or said["session_state"] == "reset" or not said["session"]["saved"]:
                break
        prompt.stdin.write(b"x\n")
        prompt.stdin.flush()
        assert json.loads(prompt.stdout.readline())["value"] == "1"
        prompt.stdin.close()
        prompt.wait()
    assert cloche("run", "-b", "native", "--session", "s", "-c", "x").stdout == "1\n"


def test_two_processes_in_one_session_conflict_and_lose_nothing(cloche: Cloche) -> None:
    run = ("run", "-b", "native", "--session", "shared", "-c")
    assert cloche(*run, "x = 1").code == 0
    prompt = cloche.start("repl", "-b", "native", "--session", "shared", "--json")
    assert prompt.stdin is not None
    assert prompt.stdout is not None
    with prompt.stdin, prompt.stdout:
        prompt.stdin.write(b"x += 1\n")
        prompt.stdin.flush()
        assert json.loads(prompt.stdout.readline())["session"]["saved"]
        assert cloche(*run, "x += 100").code == 0  # the other one, between two cells
        prompt.stdin.write(b"x += 1\n:save mine\n")
        prompt.stdin.flush()
        said = json.loads(prompt.stdout.readline())
        assert not said["session"]["saved"]
        assert "somebody else" in said["session"]["error"]
        assert json.loads(prompt.stdout.readline())["session"]["saved"]
        prompt.stdin.close()
        assert prompt.wait() == 0
    if prompt.stderr is not None:
        prompt.stderr.close()
    assert cloche(*run, "x").stdout == "102\n"
    assert cloche("run", "-b", "native", "--session", "mine", "-c", "x").stdout == "3\n"


def test_a_run_that_is_killed_leaves_the_session_as_it_was(cloche: Cloche, tmp_path: Path) -> None:
    run = ("run", "-b", "native", "--session", "s", "-c")
    assert cloche(*run, "x = [1]; open('kept.txt', 'w').write('whole')").code == 0
    met = tmp_path / "here" / "met"
    code = f"x.append(2); open('kept.txt', 'w').close(); open({str(met)!r}, 'w').close()\nwhile True: pass"
    running = cloche.start(*run, code)
    while not met.exists():
        assert running.poll() is None
    running.kill()
    running.communicate()
    assert cloche(*run, "x, open('kept.txt').read()").stdout == "([1], 'whole')\n"
    assert len(cloche("session", "show", "s", "--json").json["journal"]) == 3  # two cells, and that it was resumed


def test_a_run_that_lost_the_race_says_so_and_changes_nothing(cloche: Cloche, tmp_path: Path) -> None:
    """The cell waits until the other one has saved."""
    assert cloche("run", "-b", "native", "--session", "s", "-c", "x = 1").code == 0
    fence, met = tmp_path / "here" / "fence", tmp_path / "here" / "met"
    code = f"import os\nopen({str(met)!r}, 'w').close()\nwhile not os.path.exists({str(fence)!r}): pass\nx = 'slow'"
    slow = cloche.start("run", "-b", "native", "--session", "s", "-c", code)
    while not met.exists():
        assert slow.poll() is None
    assert cloche("run", "-b", "native", "--session", "s", "-c", "x = 'quick'").code == 0
    fence.touch()
    _, stderr = slow.communicate()
    assert slow.returncode == 1
    assert b"changed by somebody else" in stderr
    assert b"run it again" in stderr
    assert cloche("run", "-b", "native", "--session", "s", "-c", "x").stdout == "'quick'\n"


# -- looking, carrying, removing -------------------------------------------------------------------


def test_sessions_are_listed(work: Call) -> None:
    assert "no sessions yet" not in work("session", "list").stdout
    (row,) = work("session", "list", "--json").json
    assert (row["name"], row["cells"], row["variables"], row["files"]) == ("work", 1, 1, 1)


def test_an_empty_list_says_how_to_begin(call: Call) -> None:
    assert "cloche run --session NAME" in call("session", "list").stdout
    assert call("session", "list", "--json").json == []


def test_show_says_what_is_inside(work: Call) -> None:
    work("run", "--session", "work", "-c", "gen = (i for i in [])\nimport cloudpickle\n1/0")
    shown = work("session", "show", "work").stdout
    for text in (
        "work: 2 cells",
        "cpython 3.",
        "cloudpickle",
        "x = 41",
        "ZeroDivisionError",
        "int",
        "out.txt  2 bytes",
    ):
        assert text in shown, text
    data = work("session", "show", "work", "--json").json
    assert [it["name"] for it in data["skipped"]] == ["gen"]
    assert data["files"] == {"out.txt": 2}
    assert data["journal"][0]["code"].startswith("x = 41")
    assert {"name": "cloudpickle", "type": "module"}.items() <= data["variables"][-1].items()


def test_show_loads_nothing(work: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work("session", "save", "work")

    def never(*_: object, **__: object) -> None:
        raise AssertionError("a sandbox was made")

    monkeypatch.setattr("cloche.factory.create_sandbox", never)
    for target in ("work", "work.cloche", tmp_path / "work.cloche"):
        assert "x = 41" in work("session", "show", target).stdout


def test_show_hides_early_cells_unless_all_are_wanted(call: Call, tmp_path: Path) -> None:
    from cloche.journal import Cell, SessionFile
    from cloche.journal.session_file import SessionSummary
    from cloche.session.operations import GuestVersions

    cells = tuple(
        Cell(code=f"cell_{number}\nmore", outcome="ok", stdout=f"\x1b[2Jout {number}\n") for number in range(30)
    )
    summary = SessionSummary(
        name="long", created=1.0, saved=2.0, cloche="0", backend="native", isolation="PROCESS",
        versions=GuestVersions("3.11.0", "cpython", "linux", {}), journal=cells,
    )  # fmt: skip
    SessionFile(summary).write(tmp_path / "long.cloche")
    shown = call("session", "show", "long.cloche").stdout
    assert "10 earlier cells" in shown
    assert "cell_9 " not in shown
    everything = call("session", "show", "long.cloche", "--all").stdout
    assert "cell_9" in everything
    assert "out 29" in everything
    assert "\x1b" not in everything, "what a guest wrote steers no terminal"


def test_a_session_is_carried_to_another_store(work: Call, tmp_path: Path) -> None:
    done = work("session", "save", "work")
    assert "cloche session load work.cloche" in done.stdout
    other = ("--store", f"sqlite://{tmp_path}/other")
    done = work("session", "load", "work.cloche", *other)
    assert "cloche repl --session work" in done.stdout
    assert work("run", "--session", "work", *other, "-c", "x, open('out.txt').read()").stdout == "(41, 'hi')\n"
    assert work("session", "load", "work.cloche", "again", *other, "--json").json == {"name": "again", "cells": 1}


def test_nothing_is_overwritten_unless_that_was_said(work: Call, tmp_path: Path) -> None:
    (tmp_path / "f.cloche").write_text("mine")
    refused = work("session", "save", "work", "f.cloche")
    assert (refused.code, (tmp_path / "f.cloche").read_text()) == (1, "mine")
    assert "--force" in refused.stderr
    assert work("session", "save", "work", "f.cloche", "--force").code == 0
    work("run", "--session", "work", "-c", "x = 'newer'")
    refused = work("session", "load", "f.cloche")
    assert refused.code == 1
    assert "ANOTHER-NAME" in refused.stderr
    assert work("run", "--session", "work", "-c", "x").stdout == "'newer'\n"
    assert work("session", "load", "f.cloche", "--force").code == 0
    assert work("run", "--session", "work", "-c", "x").stdout == "41\n"


def test_a_damaged_file_is_refused_and_nothing_is_taken_in(work: Call, tmp_path: Path) -> None:
    work("session", "save", "work", "f.cloche")
    whole = (tmp_path / "f.cloche").read_bytes()
    (tmp_path / "f.cloche").write_bytes(whole[:-10])
    done = work("session", "load", "f.cloche", "new")
    assert done.code == 1
    assert "not a whole session file" in done.stderr
    with zipfile.ZipFile(tmp_path / "other.cloche", "w") as archive:
        archive.writestr("a", "b")
    assert work("session", "show", "other.cloche", "--json").json["error_code"] == "session_file"
    assert [it["name"] for it in work("session", "list", "--json").json] == ["work"]


def test_a_removed_session_is_gone(work: Call) -> None:
    work("run", "--session", "two", "-c", "1")
    refused = work("session", "rm", "two", "wrok")
    assert refused.code == 1
    assert "the nearest is 'work'" in refused.stderr
    assert len(work("session", "list", "--json").json) == 2, "all or none"
    assert work("session", "rm", "two", "work", "--json").json == {"removed": ["two", "work"]}
    assert work("session", "list", "--json").json == []


@pytest.mark.parametrize("command", [("session", "show"), ("session", "save"), ("session", "rm"), ("replay",)])
def test_an_unknown_session_is_an_error_that_says_what_to_type(call: Call, command: tuple[str, ...]) -> None:
    done = call(*command, "nothing")
    assert done.code == 1
    assert "cloche session list" in done.stderr
    assert call(*command, "nothing", "--json").json["error_code"] == "unknown_session"
    if command[-1] in ("show", "replay"):
        assert "there is no file" in call(*command, "no/where.cloche").stderr


# -- replaying -------------------------------------------------------------------------------------


def test_a_session_is_replayed_by_name_and_by_file(work: Call) -> None:
    work("run", "--session", "work", "-c", "x + 1")
    work("session", "save", "work")
    for target in ("work", "work.cloche"):
        done = work("replay", target)
        assert (done.code, done.stdout, done.stderr) == (0, "2 cells came out as recorded\n", "")
    assert work("replay", "work", "--json").json == {
        "cells": 2, "replayed": 2, "calls": 0, "divergence": None, "faithful": True,
    }  # fmt: skip


def test_the_first_difference_is_reported_and_the_exit_code_is_one(work: Call) -> None:
    work("run", "--session", "work", "-c", "import os\nprint('same')\nprint(os.urandom(8).hex())")
    done = work("replay", "work")
    assert done.code == 1
    assert done.stdout.startswith("cell 2 came out otherwise: stdout\n  code:     import os\n")
    assert "  recorded: line 2: " in done.stdout
    assert done.stdout.endswith("1 of 2 cells came out as recorded\n")
    found = work("replay", "work", "--json").json
    assert (found["faithful"], found["divergence"]["cell"], found["divergence"]["aspect"]) == (False, 2, "stdout")


def test_replaying_changes_nothing(work: Call) -> None:
    before = work("session", "show", "work", "--json").json
    work("replay", "work")
    assert work("session", "show", "work", "--json").json == before
