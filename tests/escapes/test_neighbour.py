"""A session beside the one that a technique runs in: it notices what is done to it, and only that."""

from __future__ import annotations

import subprocess

import pytest

import cloche
from cloche.escapes import Canaries, Effect, Expectation, Technique, all_techniques, find_technique, run_technique
from cloche.escapes.neighbour import Neighbour

AIMED_AT_IT = [technique for technique in all_techniques() if technique.aim is Effect.NEIGHBOUR]
SLOWLY_NOTICED = "neighbour_stopped"
QUICKLY_NOTICED = [each for each in AIMED_AT_IT if each.name != SLOWLY_NOTICED and not each.expectation.process]


def cell(code: str) -> Technique:
    return Technique("X", "made_up", "For this test.", None, Expectation(), code)


@pytest.mark.parametrize("technique", QUICKLY_NOTICED, ids=lambda technique: technique.name)
def test_where_nothing_is_between_them_it_notices(technique: Technique, canaries: Canaries) -> None:
    outcome = run_technique(technique, canaries, backend="native")
    assert Effect.NEIGHBOUR in outcome.effects
    assert outcome.neighbour


def test_it_notices_nothing_of_an_innocent_cell(canaries: Canaries) -> None:
    outcome = run_technique(cell("open('ledger.txt', 'w').write('mine'); ledger = 'mine'"), canaries, backend="native")
    assert (outcome.effects, outcome.neighbour) == (frozenset(), ())


def test_after_something_was_done_to_it_another_takes_its_place(canaries: Canaries) -> None:
    before = canaries.neighbours.beside("native", {}).pid
    assert run_technique(find_technique("neighbour_ended"), canaries, backend="native").neighbour
    assert canaries.neighbours.beside("native", {}).pid != before
    assert not run_technique(cell("print('hello')"), canaries, backend="native").neighbour


def test_one_stays_for_all_techniques_of_a_wall(canaries: Canaries) -> None:
    run_technique(cell("print('hello')"), canaries, backend="native")
    before = canaries.neighbours.beside("native", {}).pid
    run_technique(cell("print('hello')"), canaries, backend="native")
    assert canaries.neighbours.beside("native", {}).pid == before


def test_it_is_asked_while_a_technique_runs_that_takes_time(canaries: Canaries) -> None:
    """What was put right again before the end was done all the same."""
    code = """
import os, time
own = "/proc/%d/cwd/ledger.txt" % canary["neighbour"]
kept = open(own).read()
open(own, "w").write("gone")
end = time.monotonic() + 20
while open(own).read() == "gone" and time.monotonic() < end:  # its successor writes elsewhere
    time.sleep(0.05)
open(own, "w").write(kept)
"""
    outcome = run_technique(cell(code), canaries, backend="native", timeout_ms=3_000)
    assert any(change.startswith("file: 'gone'") for change in outcome.neighbour)


def test_a_newcomer_is_compared_with_it() -> None:
    neighbour = Neighbour("native", {})
    try:
        assert neighbour.look(endless=True, newcomer=True) == ()
        neighbour._before["priority"] = 7
        assert any("priority" in change for change in neighbour._newcomer())
    finally:
        neighbour.close()


def test_a_neighbour_shares_what_real_neighbours_share(canaries: Canaries) -> None:
    if not cloche.factory.probe_backends()["jail"].available:
        pytest.skip("the jail cannot run on this machine")
    neighbour = canaries.neighbours.beside("jail", {})
    with cloche.create_sandbox(backend="jail") as sandbox:
        sandbox.execute("1").check()
        assert neighbour.pid is not None
        assert sandbox.guest_pid is not None
        assert ancestors(neighbour.pid)[-3:] == ancestors(sandbox.guest_pid)[-3:]


def ancestors(pid: int) -> list[int]:
    """Of a process, up to the first."""
    found = [pid]
    while found[-1] > 1:
        done = subprocess.run(["cat", f"/proc/{found[-1]}/stat"], capture_output=True, text=True, check=True)
        found.append(int(done.stdout.rpartition(")")[2].split()[1]))
    return found
