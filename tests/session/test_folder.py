"""A session's place on disk, and how it is found again."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cloche import MachineError, WorkspaceFileError
from cloche.paths import private_folder, sessions_dir
from cloche.session.folder import RECORD, SessionFolder, find_sessions
from cloche.session.hosts import FolderLock, Host
from cloche.session.processes import process_start


@pytest.fixture(autouse=True)
def sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "sessions"
    monkeypatch.setenv("CLOCHE_SESSIONS_DIR", str(folder))
    return folder


def write_record(sessions: Path, **data: Any) -> Path:
    folder = sessions_dir() / "0123456789ab"
    folder.mkdir()
    (folder / RECORD).write_text(json.dumps(data))
    return folder


def dead_host() -> Host:
    """One that had our number before us."""
    return dataclasses.replace(Host.here(), started=1)


def test_a_session_has_a_private_workspace_a_home_and_a_place_for_temporary_files(sessions):
    folder = SessionFolder("native", None)
    places = folder.workspace.places()
    assert folder.workspace.private
    assert folder.workspace.root.is_dir()
    for name in ("HOME", "TMPDIR", "PWD"):
        assert Path(places[name]).is_dir()
        assert Path(places[name]).is_relative_to(folder.path)
    assert folder.path.stat().st_mode & 0o077 == 0
    assert sessions.stat().st_mode & 0o077 == 0


def test_a_given_workspace_is_used_and_left(tmp_path):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "file").write_text("x")
    folder = SessionFolder("native", theirs)
    assert folder.workspace.root == theirs
    assert not folder.workspace.private
    folder.remove()
    assert (theirs / "file").exists()
    assert not folder.path.exists()


def test_a_given_workspace_that_is_not_there_is_refused_and_leaves_nothing(tmp_path, sessions):
    with pytest.raises(WorkspaceFileError, match="mkdir -p"):
        SessionFolder("native", tmp_path / "missing")
    assert not sessions.exists() or os.listdir(sessions) == []


def test_a_session_is_found_with_its_host_and_its_guest():
    folder = SessionFolder("native", None)
    (before,) = find_sessions()
    assert (before.id, before.backend, before.host_pid, before.guest_pid) == (folder.id, "native", os.getpid(), None)
    assert before.host_alive
    assert not before.guest_alive
    assert not before.stale
    folder.record(os.getpid())
    (after,) = find_sessions()
    assert after.guest_pid == os.getpid()
    assert after.guest_alive


def test_a_session_whose_host_is_gone_is_stale(sessions):
    code = "from cloche.session.folder import SessionFolder; import os; SessionFolder('native', None); os._exit(0)"
    subprocess.run([sys.executable, "-c", code], check=True)
    (found,) = find_sessions()
    assert found.stale
    found.clean()
    assert find_sessions() == []
    assert os.listdir(sessions) == []


def test_a_number_that_another_process_has_now_is_not_the_old_host(sessions):
    write_record(sessions, host=str(dead_host()), guest_pid=os.getpid(), guest_started=1)
    (found,) = find_sessions()
    assert found.stale
    assert not found.guest_alive
    found.clean()
    assert not found.path.exists(), "and we are still here"


def test_cleaning_ends_a_guest_that_outlived_its_host(sessions):
    guest = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], process_group=0)
    write_record(sessions, host=str(dead_host()), guest_pid=guest.pid, guest_started=process_start(guest.pid))
    (found,) = find_sessions()
    assert found.guest_alive
    found.clean()
    assert guest.wait() == -signal.SIGKILL


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", "5", '{"host": "x", "created": "yesterday"}', '{"created": [], "guest_pid": {}}',
     '{"host": "cloche--1-1-1-00000000", "guest_pid": -1}', '{"host": 99999999999999999999}', "\udcff"],
)  # fmt: skip
def test_a_damaged_record_is_a_leftover_and_no_trouble(sessions, text):
    folder = write_record(sessions)
    (folder / RECORD).write_bytes(text.encode("utf-8", "surrogateescape"))
    os.utime(folder, (1, 1))
    (found,) = find_sessions()
    assert found.stale
    assert not found.guest_alive, "cleaning would end whatever process that is"
    found.clean()
    assert not folder.exists()


def test_a_record_that_never_ends_does_not_hang_the_search(sessions):
    folder = write_record(sessions)
    (folder / RECORD).unlink()
    os.mkfifo(folder / RECORD)
    os.utime(folder, (1, 1))
    assert [found.stale for found in find_sessions()] == [True]


def test_a_folder_that_is_being_made_this_moment_is_not_yet_a_leftover(sessions):
    folder = sessions_dir() / "0123456789ab"
    folder.mkdir()
    assert find_sessions() == []
    os.utime(folder, (time.time() - 100, time.time() - 100))
    assert [found.stale for found in find_sessions()] == [True]


def test_what_is_not_ours_is_not_touched(sessions):
    (sessions_dir() / "photos").mkdir()
    (sessions_dir() / "notes.txt").write_text("x")
    for name in ("photos", "notes.txt"):
        os.utime(sessions_dir() / name, (1, 1))
    assert find_sessions() == []


def test_sessions_are_listed_oldest_first():
    made = [SessionFolder("native", None).id for _ in range(5)]
    assert [found.id for found in find_sessions()] == made


def test_a_forked_child_does_not_remove_its_parents_session():
    folder = SessionFolder("native", None)
    child = os.fork()
    if child == 0:
        folder.remove()
        os._exit(0)
    os.waitpid(child, 0)
    assert folder.workspace.root.is_dir()


def test_the_start_of_a_process_tells_it_from_another():
    assert process_start(os.getpid()) == process_start(os.getpid())
    ended = subprocess.Popen([sys.executable, "-c", "pass"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    assert process_start(ended.pid) is None, "a zombie is no process any more"
    ended.wait()
    assert process_start(ended.pid) is None


def test_a_folder_of_somebody_else_is_refused(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "file").write_text("")
    for name in ("link", "file"):
        with pytest.raises(MachineError, match="not a folder of ours"):
            private_folder(tmp_path / name)


def test_a_folder_that_others_could_enter_is_closed(tmp_path):
    open_folder = tmp_path / "open"
    open_folder.mkdir()
    open_folder.chmod(0o777)
    assert private_folder(open_folder).stat().st_mode & 0o077 == 0


def test_an_open_folder_with_something_in_it_is_refused_and_left_as_it_is(tmp_path):
    shared = tmp_path / "project"
    shared.mkdir()
    shared.chmod(0o755)
    (shared / "theirs").write_text("")
    with pytest.raises(MachineError, match="open to others") as caught:
        private_folder(shared, variable="CLOCHE_STATE_DIR", foreign=True)
    assert shared.stat().st_mode & 0o777 == 0o755
    assert f"CLOCHE_STATE_DIR to a folder of your own, such as {shared / 'cloche'}" in str(caught.value.remedy)


def test_a_folder_below_a_file_is_refused_with_the_variable_to_set(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CLOCHE_SESSIONS_DIR", str(tmp_path / "file" / "below"))
    with pytest.raises(MachineError, match="Not a directory") as caught:
        sessions_dir()
    assert "CLOCHE_SESSIONS_DIR" in str(caught.value.remedy)


def test_a_session_of_another_container_lives_as_long_as_its_lock_is_held(sessions):
    other = dataclasses.replace(Host.here(), space=1, pid=2)
    folder = write_record(sessions, host=str(other), guest_pid=os.getpid(), guest_started=process_start(os.getpid()))
    os.utime(folder, (1, 1))
    lock = FolderLock(str(folder))
    (found,) = find_sessions()
    assert not found.stale
    assert not found.guest_alive, "the number is that of another process here"
    lock.close()
    assert [found.stale for found in find_sessions()] == [True]


def test_a_forked_child_does_not_hold_its_parents_sessions(sessions):
    code = (
        "from cloche.session.folder import SessionFolder; import os, sys, time; SessionFolder('native', None)\n"
        "if os.fork() == 0: time.sleep(600)\nos._exit(0)"
    )
    with subprocess.Popen([sys.executable, "-c", code], process_group=0) as host:
        try:
            host.wait()
            assert [found.stale for found in find_sessions()] == [True]
        finally:
            os.killpg(host.pid, signal.SIGKILL)
