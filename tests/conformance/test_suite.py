"""The suite itself: how much it covers, and that others can run it."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from cloche.backends.native import NativeBackend
from cloche.conformance import load_behaviours
from cloche.conformance.limits import MOST, cannot
from cloche.errors import IsolationError, UnsupportedError
from cloche.testing import FakeBackend

PASSING_TEST = "def test_it(cloche_sandbox):\n    assert cloche_sandbox.execute('1 + 1').value == '2'\n"


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """pytest in a process of its own, in a folder of its own."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=50)


def test_there_are_at_least_120_behaviours():
    assert len(load_behaviours()) >= 120


def test_each_behaviour_is_run_on_the_backend_under_test():
    """One that does not go through the fixtures would be run once and be called a behaviour of every backend."""
    through = {"sandbox", "open_sandbox", "cloche_api"}
    behaviours = load_behaviours().items()
    assert [name for name, test in behaviours if not through & set(inspect.signature(test).parameters)] == []


@pytest.mark.parametrize("backend", [NativeBackend, FakeBackend])
def test_the_list_of_what_a_backend_cannot_do_is_short_and_known(backend: type[NativeBackend]):
    assert cannot(backend) == {
        "fork": UnsupportedError,
        "fork_many": UnsupportedError,
        "savepoint": UnsupportedError,
        "undo": UnsupportedError,
        "fuel_budget": UnsupportedError,
        "network=False": UnsupportedError,
        "deterministic": UnsupportedError,
        "mounts": UnsupportedError,
        "protect_state": UnsupportedError,
        "minimum_isolation": IsolationError,
    }
    assert len(cannot(backend)) <= MOST


def test_anybody_can_run_the_suite_on_a_backend_by_name(tmp_path: Path):
    done = run_pytest(tmp_path, "--pyargs", "cloche.conformance", "--backend=native", "-k", "printed_text_is_in_stdout")
    assert "2 passed" in done.stdout, done.stdout + done.stderr


def test_a_backend_nobody_knows_is_an_error_and_not_a_green_run(tmp_path: Path):
    done = run_pytest(tmp_path, "--pyargs", "cloche.conformance", "--backend=nonesuch", "-k", "printed_text")
    assert done.returncode != 0
    assert "there is no backend 'nonesuch'" in done.stdout


def test_the_fixture_gives_a_sandbox(tmp_path: Path):
    (tmp_path / "test_it.py").write_text(PASSING_TEST)
    assert "1 passed" in run_pytest(tmp_path).stdout


def test_the_fixture_runs_on_each_backend_that_is_named(tmp_path: Path):
    (tmp_path / "test_it.py").write_text(PASSING_TEST)
    done = run_pytest(tmp_path, "--backend", "native", "--backend=fake", "-v")
    assert "2 passed" in done.stdout, done.stdout + done.stderr
    assert "test_it[native]" in done.stdout
    assert "test_it[fake]" in done.stdout


def test_an_option_of_the_same_name_in_a_conftest_is_left_alone(tmp_path: Path):
    (tmp_path / "conftest.py").write_text(
        "def pytest_addoption(parser): parser.addoption('--backend', choices=['numpy', 'torch'])\n"
    )
    (tmp_path / "test_it.py").write_text(
        f"def test_theirs(request): assert request.config.getoption('--backend') == 'torch'\n{PASSING_TEST}"
    )
    done = run_pytest(tmp_path, "--backend=torch", "--cloche-backend=fake", "-v")
    assert "2 passed" in done.stdout, done.stdout + done.stderr
    assert "test_it[fake]" in done.stdout


def test_an_option_of_the_same_name_in_a_plugin_is_left_alone(tmp_path: Path):
    (tmp_path / "theirs.py").write_text(
        "def pytest_addoption(parser): parser.getgroup('theirs').addoption('--backend', type=int, dest='theirs')\n"
    )
    (tmp_path / "test_it.py").write_text(
        "def test_theirs(request): assert request.config.getoption('--backend') == 5\n"
    )
    done = run_pytest(tmp_path, "-p", "theirs", "--backend=5")
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_the_plugin_imports_nothing_that_a_run_without_it_would_not(tmp_path: Path):
    (tmp_path / "test_it.py").write_text(
        "import sys\ndef test_it():\n    loaded = {n for n in sys.modules if n.split('.')[0].startswith('cloche')}\n"
        "    assert loaded == {'cloche', 'cloche.pytest_plugin'}\n"
    )
    assert "1 passed" in run_pytest(tmp_path).stdout
