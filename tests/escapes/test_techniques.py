"""The collection itself: complete, told apart, and honest about a backend that is hardly a wall."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from cloche import Isolation
from cloche.escapes import Canaries, Effect, all_techniques, find_technique, run_technique, run_techniques

AIMS = (
    r"\bcanary\[|\blookup\b|libc\.syscall|inotify|environ|memory|/proc|mkfifo|PRIO_PGRP|\btook\b|\bwrite\(number|page"
)
"""What every cell has to do with."""


def test_every_technique_of_the_catalogue_is_there() -> None:
    numbers = {technique.id for technique in all_techniques()}
    assert {f"T{number:02}" for number in range(1, 71)} <= numbers


def test_names_are_unique() -> None:
    names = [technique.name for technique in all_techniques()]
    assert len(names) == len(set(names))


def test_every_cell_compiles() -> None:
    for technique in all_techniques():
        compile(technique.code, technique.name, "exec")
        assert re.search(AIMS, technique.code), technique.name


@pytest.mark.timeout(200)
def test_the_native_backend_is_shown_as_the_thin_wall_it_is(canaries: Canaries) -> None:
    cells = [
        found for found in all_techniques() if not found.is_probe and found.aim not in (Effect.STATE, Effect.EXHAUSTED)
    ]
    # test_controls shows of each that it reaches its aim where there is no wall.
    outcomes = [run_technique(technique, canaries, backend="native") for technique in cells[::3]]
    assert [(found.technique.name, found.effects) for found in outcomes if not found.as_expected] == []
    assert sum(not found.contained for found in outcomes) > len(outcomes) / 2


def test_what_would_change_this_machine_is_not_tried_without_a_boundary() -> None:
    assert run_techniques("native", techniques=[find_technique("host_renamed")]) == []


def test_every_tier_is_expected_to_hold_what_a_weaker_one_holds() -> None:
    for technique in all_techniques():
        found = technique.expectation
        assert found.sealed, technique.name
        assert found.confined, technique.name
        assert found.at(Isolation.METERED) == found.at(Isolation.SEALED)


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
