"""The jail holds: no technique has an effect on the host, and no forbidden system call gets to the kernel."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from tests.ordinary_user import readable_interpreter
from tests.poorer_kernel import run_on

import cloche
from cloche import Isolation
from cloche.escapes import Canaries, Effect, Technique, all_techniques, run_technique
from cloche.factory import probe_backends

ALWAYS = ("process", "host")
"""Not layers of a wall: that the guest is another process, and that the host does nothing foolish."""
TECHNIQUES = [technique for technique in all_techniques() if technique.aim is not Effect.EXHAUSTED]
"""Those of resources have a file of their own."""
CELLS = [technique for technique in TECHNIQUES if not technique.is_probe]
FILE_TRICKS = [technique for technique in all_techniques() if technique.id in ("T62", "T65", "T70", "T52", "T64")]
pytestmark = pytest.mark.skipif(not probe_backends()["jail"].available, reason="the jail cannot run on this machine")


@pytest.mark.parametrize("technique", TECHNIQUES, ids=lambda technique: f"{technique.id}-{technique.name}")
def test_nothing_happens_to_the_host(technique: Technique, canaries: Canaries) -> None:
    outcome = run_technique(technique, canaries, backend="jail")
    assert outcome.contained, (outcome.effects, outcome.saw)
    assert not outcome.reached, outcome.saw
    assert set(outcome.expected) <= {*outcome.layers, *ALWAYS}


@pytest.mark.timeout(200)
def test_nothing_happens_to_the_host_where_sessions_are_not_metered(
    canaries: Canaries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOCHE_MASK_LAYERS", "cgroup")
    # An ordinary user's sessions are not metered either: tests/ordinary tries every one on them.
    outcomes = [run_technique(technique, canaries, backend="jail") for technique in CELLS[::3]]
    assert {outcome.isolation for outcome in outcomes} == {Isolation.SEALED}
    assert [outcome.technique.name for outcome in outcomes if not outcome.contained] == []


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_nothing_happens_to_the_host_where_there_are_no_namespaces() -> None:
    python = sys.executable if os.getuid() != 0 else readable_interpreter()
    if python is None:
        pytest.skip("no interpreter here that every user can read")
    command = ("-m", "cloche.cli", "escapes", "--backend", "jail", "--json")
    done = run_on("no-namespaces", *command, timeout=180, CLOCHE_PYTHON=str(python))
    board = json.loads(done.stdout)
    assert (board["isolation"], board["tried"]) == ("CONFINED", len(all_techniques()))
    assert [found["name"] for found in board["outcomes"] if not found["contained"]] == []
    assert board["probes_answered_by_the_kernel"] == 0
    assert {layer for found in board["outcomes"] for layer in found["stopped_by"]} <= {*board["layers"], *ALWAYS}
    assert done.returncode == 0


def test_the_view_holds_without_landlock(canaries: Canaries, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOCHE_MASK_LAYERS", "landlock")
    cells = [technique for technique in all_techniques() if "landlock" in technique.expectation.sealed]
    outcomes = [run_technique(technique, canaries, backend="jail") for technique in cells]
    assert outcomes
    assert all("landlock" not in outcome.layers for outcome in outcomes)
    assert [outcome.technique.name for outcome in outcomes if not outcome.contained] == []


@pytest.mark.parametrize("technique", FILE_TRICKS, ids=lambda technique: technique.name)
def test_a_given_workspace_is_no_way_out(technique: Technique, canaries: Canaries, tmp_path: Path) -> None:
    outcome = run_technique(technique, canaries, backend="jail", workspace=tmp_path)
    assert outcome.contained, (outcome.effects, outcome.saw)


@pytest.mark.parametrize("mask", ["", "landlock"], ids=["all layers", "without landlock"])
def test_a_session_does_not_reach_another(mask: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOCHE_MASK_LAYERS", mask)
    service = (
        "import socket, os; s = socket.socket(socket.AF_UNIX); s.bind('\\0meeting'); s.listen(); open('/tmp/note', 'w')"
    )
    look = """
import os, socket
print(sorted(pid for pid in os.listdir("/proc") if pid.isdigit() and int(pid) not in (1, os.getpid())))
print(os.path.exists("/tmp/note"))
try:
    socket.socket(socket.AF_UNIX).connect("\\0meeting")
    print("connected")
except OSError:
    print("alone")
"""
    with cloche.create_sandbox(backend="jail") as one, cloche.create_sandbox(backend="jail") as other:
        one.execute(service).check()
        assert one.execute("os.path.exists('/tmp/note')").value == "True"
        assert other.execute(look).check().stdout.split() == ["[]", "False", "alone"]


def test_no_file_of_a_given_workspace_runs_as_another(tmp_path: Path) -> None:
    code = "import os, contextlib; open('x', 'w').close()\nwith contextlib.suppress(OSError): os.chmod('x', 0o6755)"
    with cloche.create_sandbox(backend="jail", workspace=tmp_path) as sandbox:
        sandbox.execute(code).check()
    assert (tmp_path / "x").stat().st_mode & 0o6000 == 0
