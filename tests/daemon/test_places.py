"""Where a daemon and its clients meet."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cloche import BackendUnavailableError, MachineError, create_sandbox
from cloche.backends.daemon.backend import DaemonBackend
from cloche.backends.daemon.places import PIPE, SOCKET_VARIABLE, Places
from cloche.daemon import lifecycle

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


def test_a_relative_path_means_the_same_to_the_daemon_in_its_own_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(SOCKET_VARIABLE, "house/daemon.sock")
    assert Places.default().socket == tmp_path / "house" / "daemon.sock"


def test_what_lies_at_the_path_and_is_no_socket_is_not_removed(tmp_path: Path) -> None:
    places = Places(tmp_path / "notes")
    places.socket.write_text("mine")
    with pytest.raises(MachineError, match="is no socket"):
        lifecycle.start(places, [])
    assert places.socket.read_text() == "mine"


def test_a_folder_that_others_use_is_not_taken_from_them(tmp_path: Path) -> None:
    places = Places(tmp_path / "run" / "daemon.sock")
    places.folder.mkdir()
    places.folder.chmod(0o755)
    (places.folder / "theirs").write_text("")
    with pytest.raises(MachineError, match="open to others") as caught:
        lifecycle.start(places, [])
    assert places.folder.stat().st_mode & 0o777 == 0o755
    assert str(places.folder / "cloche" / "daemon.sock") in str(caught.value.remedy)


def test_a_path_that_is_too_long_for_a_socket_is_refused_with_both_figures(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="the system takes 107"):
        lifecycle.start(Places(tmp_path / ("x" * 200) / "daemon.sock"), [])


def test_a_socket_that_cannot_be_looked_at_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.setenv(SOCKET_VARIABLE, str(tmp_path / "loop" / "daemon.sock"))
    found = DaemonBackend.probe()
    assert not found.available
    assert "cannot be reached" in found.reason


def test_a_daemon_of_another_version_is_not_used_and_the_remedy_replaces_it(
    house: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cloche.backends.daemon.backend.__version__", "9.9")
    assert "is of version" in DaemonBackend.probe().reason
    with create_sandbox(backend="daemon") as sandbox, pytest.raises(BackendUnavailableError) as caught:
        sandbox.execute("1")
    assert caught.value.remedy == "cloche daemon stop && cloche daemon start"


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
