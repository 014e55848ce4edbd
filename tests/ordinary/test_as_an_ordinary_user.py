"""The jail as an ordinary user has it, who was made for this, from an environment that everybody can read.

Where the tests run as an ordinary user, they do so everywhere, and nothing has to be done again here.
"""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

import pytest
from tests.ordinary_user import OrdinaryUser

from cloche.escapes import all_techniques

PATIENCE = 280
"""Seconds; for a hang only."""
pytestmark = pytest.mark.timeout(PATIENCE + 20)
WALL = ("test_jail.py", "test_branch_walls.py", "test_confined.py", "test_tiers.py", "test_clean_up.py")
"""Of the tests of the jail, those whose outcome depends on who runs them."""
WALL_TOPICS = ("cancel", "files", "isolation", "lifecycle", "limits", "time")
CONFORMANCE = tuple(f"cloche.conformance.test_{topic}" for topic in WALL_TOPICS)
NO_NAMESPACES = ("tests/poorer_kernel.py", "no-namespaces")


def passed(done: subprocess.CompletedProcess[str]) -> int:
    """How many tests passed; none may have failed."""
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    found = re.search(r"(\d+) passed", done.stdout)
    assert found is not None, done.stdout[-2000:]
    return int(found[1])


def test_the_jail_keeps_its_promises(ordinary: OrdinaryUser) -> None:
    assert passed(ordinary.pytest(*(f"tests/jail/{name}" for name in WALL), timeout=PATIENCE)) > 60


def test_the_jail_conforms(ordinary: OrdinaryUser) -> None:
    """In what the wall has a part in, on one of the two APIs, which differ in nothing that knows who runs them."""
    done = ordinary.pytest("--pyargs", *CONFORMANCE, "--backend=jail", "-k", "jail-sync", timeout=PATIENCE)
    assert passed(done) > 150


@pytest.mark.slow
def test_the_jail_conforms_without_namespaces(ordinary: OrdinaryUser) -> None:
    """In what the wall has a part in; ``tests/poorer_kernel.py no-namespaces`` before the suite runs all of it."""
    tests = ("-m", "pytest", *ordinary.pytest_options, "--pyargs", *CONFORMANCE, "--backend=jail", "-k", "jail-sync")
    done = ordinary.run(*NO_NAMESPACES, str(ordinary.python), *tests, timeout=PATIENCE)
    assert passed(done) > 150


@pytest.mark.parametrize(
    ("kernel", "tier"),
    [
        pytest.param((), "SEALED", id="sealed"),
        pytest.param(NO_NAMESPACES, "CONFINED", id="confined", marks=pytest.mark.slow),
    ],
)
def test_nothing_happens_to_the_host(ordinary: OrdinaryUser, kernel: tuple[str, ...], tier: str) -> None:
    command = ("-m", "cloche.cli", "escapes", "--backend", "jail", "--json")
    before = (*kernel, str(ordinary.python)) if kernel else ()
    done = ordinary.run(*before, *command, timeout=PATIENCE, environment={"CLOCHE_MASK_LAYERS": "cgroup"})
    assert done.stdout, done.stderr[-2000:]
    board: dict[str, Any] = json.loads(done.stdout)
    assert (board["isolation"], board["tried"]) == (tier, len(all_techniques()))
    assert [found["name"] for found in board["outcomes"] if not found["contained"]] == []
    assert board["probes_answered_by_the_kernel"] == 0
    assert done.returncode == 0
