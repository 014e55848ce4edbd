"""The collection itself: complete, told apart, and honest about a backend that is hardly a wall."""

from __future__ import annotations

import json
import re
import subprocess
import sys

from cloche.escapes import Canaries, all_techniques, find_technique, run_technique


def test_every_technique_of_the_catalogue_is_there() -> None:
    numbers = {technique.id for technique in all_techniques()}
    assert {f"T{number:02}" for number in range(1, 71)} <= numbers


def test_names_are_unique() -> None:
    names = [technique.name for technique in all_techniques()]
    assert len(names) == len(set(names))


def test_every_cell_compiles() -> None:
    for technique in all_techniques():
        compile(technique.code, technique.name, "exec")
        assert re.search(r"\bcanary\[|\blookup\b|libc\.syscall|inotify|environ|memory|/proc", technique.code), (
            technique.name
        )


def test_the_native_backend_is_shown_as_the_thin_wall_it_is(canaries: Canaries) -> None:
    outcome = run_technique(find_technique("foreign_functions"), canaries, backend="native")
    assert not outcome.contained


def test_a_secret_of_the_host_is_not_in_what_a_cell_is_told(canaries: Canaries) -> None:
    told = canaries.preamble()
    assert canaries.memory.decode() not in told
    assert canaries.secret_file.read_text() not in told


def test_the_command_ends_with_2_when_something_got_out() -> None:
    command = [sys.executable, "-m", "cloche.cli", "escapes", "--json", "--only", "T54", "--backend"]
    native = subprocess.run([*command, "native"], capture_output=True, text=True)
    assert native.returncode == 2
    board = json.loads(native.stdout)
    assert (board["backend"], board["ok"]) == ("native", False)
    assert board["effects"] == {"written": 3}


def test_the_command_refuses_an_unknown_technique() -> None:
    command = [sys.executable, "-m", "cloche.cli", "escapes", "--only", "T99"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "T99" in done.stderr
