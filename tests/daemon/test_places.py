"""Where a daemon and its clients meet."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cloche.backends.daemon.places import PIPE, SOCKET_VARIABLE, Places

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_the_socket_lies_where_the_specification_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(SOCKET_VARIABLE)
    monkeypatch.setenv("HOME", str(tmp_path))
    places = Places.default()
    assert (places.socket, places.pid) == (tmp_path / ".rlm" / "daemon.sock", tmp_path / ".rlm" / "daemon.pid")


def test_the_pipe_has_the_name_of_the_specification_and_is_for_windows_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(SOCKET_VARIABLE)
    monkeypatch.setenv("HOME", str(tmp_path))
    places = Places.default()
    assert places.address("linux") == places.address("darwin") == places.socket
    assert places.address("win32") == PIPE == r"\\.\pipe\rlm-daemon"


def test_another_place_has_a_pipe_of_its_own() -> None:
    pipes = [Places(Path(f"/elsewhere/{name}.sock")).address("win32") for name in "ab"]
    assert all(str(pipe).startswith(PIPE + "-") for pipe in pipes)
    assert len(set(pipes)) == 2


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_token_that_others_can_read_is_none(tmp_path: Path, mode: int) -> None:
    places = Places(tmp_path / "daemon.sock")
    places.token.write_text("secret\n")
    places.token.chmod(mode)
    assert places.read_token() is None
    places.token.chmod(0o600)
    assert places.read_token() == "secret"


def test_a_token_that_is_a_link_is_none(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("secret")
    (tmp_path / "other").chmod(0o600)
    places = Places(tmp_path / "daemon.sock")
    places.token.symlink_to(tmp_path / "other")
    assert places.read_token() is None


def test_a_client_in_another_language_works_from_the_page_alone(house: Places) -> None:
    deno = shutil.which("deno", path=os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]))
    if deno is None:
        pytest.skip("there is no Deno here (pip install 'cloche[pyodide]')")
    done = subprocess.run(
        [deno, "run", "--no-prompt", "--allow-net", "--allow-read", "--allow-write", "--allow-env",
         str(EXAMPLES / "daemon_client.js")],
        capture_output=True, text=True, timeout=50, check=False, env={**os.environ, "NO_COLOR": "1"},
    )  # fmt: skip
    assert done.stdout.splitlines() == [
        "stdout: working",
        "x = 42",
        "'you said: hello'",
        "error ZeroDivisionError: division by zero",
    ], done.stderr
