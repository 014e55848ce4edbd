"""``cloche setup pyodide``: what it fetches, checks and builds, and what it says when it cannot."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from cloche import create_sandbox
from cloche.backends.pyodide import release, runtime
from cloche.errors import BackendUnavailableError, StartError


def run_setup(cache: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """The command, with a cache of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "cloche", "setup", "pyodide", *arguments],
        env={**os.environ, "CLOCHE_CACHE_DIR": str(cache), **environment},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    cache = tmp_path / "cache"
    monkeypatch.setenv("CLOCHE_CACHE_DIR", str(cache))
    return cache


@pytest.fixture
def files(pyodide: runtime.Runtime, tmp_path: Path) -> Path:
    """A folder with the files of Pyodide, as somebody would carry them to a machine without network."""
    return Path(shutil.copytree(pyodide.folder, tmp_path / "files"))


@pytest.mark.slow
def test_two_at_once_build_one_runtime_from_files_at_hand(files: Path, tmp_path: Path):
    cache = tmp_path / "cache"
    both = [run_setup(cache, "--json", PYODIDE_DIR=str(files)) for _ in range(2)]
    reports = [json.loads(process.communicate(timeout=55)[0]) for process in both]
    steps = [step for report in reports for step in report["steps"]]
    assert sum(step.startswith("taking Pyodide") for step in steps) == 1
    assert sum(step.startswith("starting the interpreter") for step in steps) == 1
    assert reports[0]["details"] == reports[1]["details"]
    snapshot = Path(reports[0]["details"]["snapshot"])
    assert stat.S_IMODE(snapshot.stat().st_mode) == 0o600
    assert stat.S_IMODE(snapshot.parent.stat().st_mode) == 0o700
    assert [path.name for path in snapshot.parent.iterdir() if path.name.startswith(".snap")] == []


def test_what_is_set_up_already_is_left_alone(pyodide: runtime.Runtime):
    before = pyodide.snapshot.stat().st_mtime_ns
    assert runtime.set_up(pytest.fail) == pyodide
    assert pyodide.snapshot.stat().st_mtime_ns == before


def test_a_file_that_is_not_the_pinned_one_is_refused(files: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch):
    with (files / "pyodide.asm.mjs").open("a") as handle:
        handle.write("\n// one line more\n")
    monkeypatch.setenv(release.GIVEN, str(files))
    with pytest.raises(BackendUnavailableError, match=r"pyodide\.asm\.mjs is not the file"):
        runtime.set_up(lambda step: None)
    assert not (own_cache / "pyodide" / release.VERSION).exists()


def test_a_folder_without_the_files_is_refused_with_their_names(
    own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(release.GIVEN, str(tmp_path))
    with pytest.raises(BackendUnavailableError) as caught:
        runtime.set_up(lambda step: None)
    assert all(name in str(caught.value.remedy) for name in release.FILES)


@pytest.fixture
def deno_without_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "deno"
    program.write_text("#!/bin/sh\necho 'error: the registry did not answer' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.delenv(release.GIVEN, raising=False)
    monkeypatch.setattr(runtime, "find_deno", lambda: str(program))


def test_a_machine_without_a_registry_is_told_what_to_do(own_cache: Path, deno_without_registry: None):
    with pytest.raises(BackendUnavailableError) as caught:
        runtime.set_up(lambda step: None)
    assert "the registry did not answer" in str(caught.value.cause)
    assert release.GIVEN in str(caught.value.remedy)


def test_a_first_session_says_the_same(own_cache: Path, deno_without_registry: None):
    with create_sandbox(backend="pyodide") as sandbox, pytest.raises(BackendUnavailableError) as caught:
        sandbox.execute("1")
    assert release.GIVEN in str(caught.value.remedy)


def test_a_first_session_does_not_wait_for_the_set_up_beyond_its_deadline(
    own_cache: Path, pyodide: runtime.Runtime, monkeypatch: pytest.MonkeyPatch
):
    import threading

    gate = threading.Event()
    monkeypatch.setattr(runtime, "set_up", lambda tell: gate.wait(30))
    try:
        with create_sandbox(backend="pyodide") as sandbox, pytest.raises(StartError, match="still being set up"):
            sandbox.execute("1", timeout_ms=50)
    finally:
        gate.set()


def test_without_deno_the_error_names_the_extra(own_cache: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "deno", None)
    monkeypatch.setenv("PATH", "/nonexistent")
    with create_sandbox(backend="pyodide") as sandbox, pytest.raises(BackendUnavailableError) as caught:
        sandbox.execute("1")
    assert caught.value.remedy == "pip install 'cloche[pyodide]'"


def test_a_backend_that_needs_no_set_up_says_so():
    done = subprocess.run(
        [sys.executable, "-m", "cloche", "setup", "native"], capture_output=True, text=True, timeout=50
    )
    assert (done.returncode, done.stdout) == (0, "native needs no set-up\n")
