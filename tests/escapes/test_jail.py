"""The jail holds: no technique has an effect on the host, and no forbidden system call gets to the kernel."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import cloche
from cloche.escapes import Canaries, Technique, all_techniques, run_technique
from cloche.factory import probe_backends

ORDINARY_USER = 65_010
NEEDED = """anyio click idna sniffio rich pygments markdown_it mdurl numpy numpy.libs pandas dateutil pytz tzdata
typing_extensions.py six.py"""
"""What the ordinary user's copy takes along of the installed libraries."""
FILE_TRICKS = [technique for technique in all_techniques() if technique.id in ("T62", "T65", "T70", "T52", "T64")]
pytestmark = pytest.mark.skipif(not probe_backends()["jail"].available, reason="the jail cannot run on this machine")


@pytest.mark.parametrize("technique", all_techniques(), ids=lambda technique: f"{technique.id}-{technique.name}")
def test_nothing_happens_to_the_host(technique: Technique, canaries: Canaries) -> None:
    outcome = run_technique(technique, canaries, backend="jail")
    assert outcome.contained, (outcome.effects, outcome.saw)
    assert not outcome.reached, outcome.saw


def test_the_view_holds_without_landlock(canaries: Canaries, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOCHE_MASK_LAYERS", "landlock")
    cells = [technique for technique in all_techniques() if "landlock" in technique.stopped_by]
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


@pytest.fixture(scope="module")
def readable_python() -> Iterator[tuple[str, dict[str, str]]]:
    """An interpreter and a copy of this package that everybody can read, and a home for the ordinary user."""
    system = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if os.getuid() != 0 or system is None:
        pytest.skip("only root can become another user, and a system-wide Python is needed for that user")
    version = subprocess.run([system, "-c", "import sys; print(sys.version_info[:2])"], capture_output=True, text=True)
    if version.stdout.strip() != str(sys.version_info[:2]):
        pytest.skip("the system-wide Python has another version than the one that runs the tests")
    with tempfile.TemporaryDirectory(prefix="cloche-everybody-") as name:
        folder = Path(name)
        source = Path(cloche.__file__).parent.parent
        for package in ("cloche", "cloche_guest"):
            shutil.copytree(source / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
        libraries = Path(sysconfig.get_path("purelib"))
        for package in NEEDED.split():
            if (libraries / package).is_dir():
                shutil.copytree(
                    libraries / package, folder / package, ignore=shutil.ignore_patterns("tests", "__pycache__")
                )
            elif (libraries / package).is_file():
                shutil.copy(libraries / package, folder / package)
        subprocess.run(["chmod", "-R", "a+rX", name], check=True)
        home = folder / "home"
        home.mkdir()
        os.chown(home, ORDINARY_USER, ORDINARY_USER)
        yield system, {"PYTHONPATH": name, "HOME": str(home), "TMPDIR": str(home), "PATH": "/usr/bin:/bin"}


def test_nothing_happens_to_the_host_of_an_ordinary_user(readable_python: tuple[str, dict[str, str]]) -> None:
    python, environment = readable_python
    done = subprocess.run(
        [python, "-m", "cloche.cli", "escapes", "--backend", "jail", "--json"], env=environment, cwd="/",
        user=ORDINARY_USER, group=ORDINARY_USER, extra_groups=[], capture_output=True, text=True, timeout=50,
    )  # fmt: skip
    board: dict[str, Any] = json.loads(done.stdout)
    assert [found["id"] for found in board["outcomes"] if not found["contained"]] == []
    assert board["tried"] == len(all_techniques())
    assert board["probes_answered_by_the_kernel"] == 0
    assert done.returncode == 0
