"""The command in a folder in which the code of an earlier session could write: nothing there is run."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.command import DEADLINE, Cloche, Finished

import cloche as package


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    return tmp_path / "ran"


def plant(folder: Path, mark: Path) -> None:
    """Modules that the command imports, and a program, all of which leave a mark when they run."""
    text = f"open({str(mark)!r}, 'a').close()\n"
    for name in ("cloche", "pip"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(text)
        (folder / name / "__main__.py").write_text(text)
    for name in ("anyio", "click", "json", "sitecustomize"):
        (folder / f"{name}.py").write_text(text)
    evil = folder / "evil.sh"
    evil.write_text(f"#!/bin/sh\ntouch {mark}\n")
    evil.chmod(0o755)


def as_installed(cloche: Cloche, *arguments: str, **variables: str) -> Finished:
    """The command as its script starts it: the current folder is not on the search path."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "cloche.cli", *arguments], cwd=cloche.cwd, timeout=DEADLINE,
        env={**cloche.environment, **variables}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return Finished(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("arguments", [("run", "-c", "1"), ("doctor",), ("config",)])
def test_a_program_that_a_found_file_names_is_not_run(cloche: Cloche, mark: Path, arguments: tuple[str, ...]) -> None:
    plant(cloche.cwd, mark)
    (cloche.cwd / "cloche.toml").write_text('python = "./evil.sh"\n')
    done = as_installed(cloche, *arguments)
    assert not mark.exists()
    assert done.code == 1
    assert f"{cloche.cwd / 'cloche.toml'} may not set python" in done.stderr


def test_the_file_that_was_found_is_named_on_standard_error_once(cloche: Cloche) -> None:
    (cloche.cwd / "cloche.toml").write_text("timeout = 20000\n")
    done = cloche("run", "--json", "-c", "1")
    assert done.json["outcome"] == "ok"
    assert done.stderr.count(str(cloche.cwd / "cloche.toml")) == 1
    assert "cloche.toml" not in cloche("run", "-c", "1", CLOCHE_CONFIG=str(cloche.cwd / "cloche.toml")).stderr


def test_a_file_that_others_can_write_is_not_obeyed_and_that_is_said(cloche: Cloche) -> None:
    (cloche.cwd / "cloche.toml").write_text("timeout = 1\n")
    (cloche.cwd / "cloche.toml").chmod(0o666)
    done = cloche("run", "-c", "import time; time.sleep(0.05); print('whole')")
    assert done.stdout == "whole\n"
    assert "is not used: others can write it" in done.stderr


def test_a_daemon_in_the_foreground_imports_nothing_of_the_folder(cloche: Cloche, mark: Path, tmp_path: Path) -> None:
    plant(cloche.cwd, mark)
    (tmp_path / "daemon.sock").write_text("no socket: the daemon ends at once, after all its imports")
    done = as_installed(cloche, "daemon", "start", "--foreground", CLOCHE_DAEMON_SOCKET=str(tmp_path / "daemon.sock"))
    assert not mark.exists()
    assert "is no socket" in done.stderr
    assert done.code == 2


def test_every_interpreter_that_we_start_leaves_the_current_folder_alone() -> None:
    starts = []
    for path in Path(package.__file__).parent.rglob("*.py"):
        if path.parent.name == "techniques":
            continue  # what guests run
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.List | ast.Tuple) and node.elts and "sys.executable" in ast.unparse(node.elts[0]):
                flag = node.elts[1].value if len(node.elts) > 1 and isinstance(node.elts[1], ast.Constant) else None
                starts.append((path.name, node.lineno, flag))
    assert len(starts) > 3
    assert [start for start in starts if start[2] not in ("-I", "-P")] == []
