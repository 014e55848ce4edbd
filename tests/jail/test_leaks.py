"""What a session can find out about the host and about other sessions, and what it can make the host's side do."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.jail.sessions import jail, value

import cloche

ALL_MOUNTS = """
import glob
told = ""
for path in ("/proc/self/mountinfo", "/proc/self/mounts", "/proc/self/mountstats", "/proc/thread-self/mountinfo",
             *glob.glob("/proc/self/task/*/mountinfo"), *glob.glob("/proc/[0-9]*/mountinfo")):
    try:
        told += open(path).read()
    except OSError:
        pass
told
"""
REFUSED_CALLS = """
import ctypes, time
libc = ctypes.CDLL(None, use_errno=True)
began, count = time.monotonic(), 0
while time.monotonic() < began + 0.6:
    assert libc.syscall(308, -1, 0) == -1 and ctypes.get_errno() == 1
    count += 1
windows = (time.monotonic() - began) / 0.1
count <= 20 * (windows + 2)
"""
TAKEN_NAME = "import socket; taken = socket.socket(socket.AF_UNIX); taken.bind('\\0meeting'); taken.listen()"


def test_the_list_of_mounts_names_nothing_of_the_host(tmp_path: Path) -> None:
    folder, workspace = tmp_path / "given-folder", tmp_path / "given-workspace"
    folder.mkdir()
    workspace.mkdir()
    with jail(workspace=workspace, mounts=[cloche.Mount(str(folder), "/mnt/data")]) as session:
        assert value(session, ALL_MOUNTS) == "''"
        child = "import subprocess; subprocess.run(['cat', '/proc/self/mountinfo'])"
        assert session.execute(child).check().stdout == ""
        assert value(session, "import os; (os.getcwd(), os.listdir('/mnt/data'))") == "('/app', [])"


def test_a_branch_is_told_nothing_of_its_mounts_either(tmp_path: Path) -> None:
    with jail(workspace=tmp_path) as session, session.fork() as branch, branch.fork() as second:
        assert [value(each, ALL_MOUNTS) for each in (branch, second)] == ["''", "''"]
        branch.execute("import os; os._exit(1)")
        assert value(branch, ALL_MOUNTS) == "''"  # another worker in the seat of a branch


def test_programs_that_ask_for_free_space_and_mount_points_work() -> None:
    with jail() as session:
        assert value(session, "import os, shutil; (shutil.disk_usage('.').total > 0, os.path.ismount('/app'))") == (
            "(True, True)"
        )


@pytest.mark.parametrize("mask", ["", "landlock"], ids=["all layers", "without landlock"])
def test_names_of_abstract_sockets_are_a_sessions_own(mask: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOCHE_MASK_LAYERS", mask)
    with jail() as one, jail() as other:
        one.execute(TAKEN_NAME).check()
        assert "meeting" not in str(value(other, "open('/proc/self/net/unix').read()"))
        other.execute(TAKEN_NAME).check()
        networks = {value(session, "import os; os.stat('/proc/self/net/dev').st_ino") for session in (one, other)}
        assert len(networks) == 2


def test_many_sessions_at_once_have_networks_of_their_own() -> None:
    sessions = [jail() for _ in range(8)]  # more than are made ahead
    try:
        for session in sessions:
            session.execute(TAKEN_NAME).check()
    finally:
        for session in sessions:
            session.destroy()


def test_calls_that_pid_one_refuses_do_not_use_up_the_hosts_time() -> None:
    with jail() as session:
        assert value(session, REFUSED_CALLS) == "True"
