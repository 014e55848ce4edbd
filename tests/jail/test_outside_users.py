"""As root each session is a user of its own to the kernel, from a block of numbers that no other host has."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.jail.sessions import jail, value

import cloche
from cloche.backends.jail.outside_users import _RANGES, LOCK_FOLDER, outside_users

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root has other users to give")
CLAIM = "from cloche.backends.jail.outside_users import outside_users as users; print(users.jail[0], users.count)"


def user_of(sandbox: cloche.SessionSandbox) -> int:
    """Who a session's worker is to this process."""
    value(sandbox, "0")
    return int(_status(sandbox.guest_pid, "Uid").split()[0])


def _status(pid: int | None, field: str) -> str:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.split(":", 1)[1] for line in lines if line.startswith(field + ":"))


def test_each_session_has_a_user_of_its_own() -> None:
    with jail() as one, jail() as other:
        users = {user_of(one), user_of(other), outside_users.jail[0], 0}
        assert len(users) == 4


def test_a_session_keeps_its_user_when_its_worker_is_replaced() -> None:
    with jail() as sandbox:
        before = user_of(sandbox)
        sandbox.execute("import os; os._exit(1)")
        assert user_of(sandbox) == before


def test_a_branch_has_the_user_of_its_session() -> None:
    with jail() as sandbox, sandbox.fork() as branch, branch.fork() as below:
        assert user_of(branch) == user_of(below) == user_of(sandbox)


def test_files_of_a_given_workspace_belong_to_their_owner_outside(tmp_path: Path) -> None:
    os.chown(tmp_path, 12_345, 12_345)
    with jail(workspace=str(tmp_path)) as sandbox:
        value(sandbox, "open('made.txt', 'w').write('by the guest')")
    status = (tmp_path / "made.txt").stat()
    assert (status.st_uid, status.st_gid) == (12_345, 12_345)


def test_the_numbers_lie_outside_of_those_that_systems_give_away() -> None:
    first, last, size = _RANGES[0]
    assert first > 2_000_200_000  # sssd's last
    assert last < 0x7FFE0000  # systemd's range for images of others
    assert first % size == 0
    assert outside_users.count == size


def test_two_hosts_have_different_users() -> None:
    other = subprocess.run([sys.executable, "-c", CLAIM], capture_output=True, text=True, check=True)
    first, count = map(int, other.stdout.split())
    assert first != outside_users.jail[0]
    assert count == outside_users.count


def test_the_lock_on_a_block_ends_with_its_host() -> None:
    told = subprocess.run(
        [sys.executable, "-c", CLAIM + "; import os, signal; os.sys.stdout.flush(); os.kill(os.getpid(), 9)"],
        capture_output=True, text=True,
    )  # fmt: skip
    with open(Path(LOCK_FOLDER, told.stdout.split()[0])) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_forked_child_has_a_block_of_its_own_and_leaves_its_parents() -> None:
    mine = outside_users.jail[0]
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writer, str(outside_users.jail[0]).encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(pid, 0)
    assert int(os.read(reader, 32)) != mine
    os.close(reader)
    with open(Path(LOCK_FOLDER, str(mine))) as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_signals_that_a_guest_queues_are_not_counted_for_root() -> None:
    queue = "import ctypes, os, signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [40])\n"
    queue += "sent = 0\nwhile sent < 5000 and not ctypes.CDLL(None).sigqueue(os.getpid(), 40, 0):\n    sent += 1\nsent"
    before = int(_status(os.getpid(), "SigQ").split("/")[0])
    with jail() as sandbox:
        assert value(sandbox, queue) == "256"
        assert int(_status(os.getpid(), "SigQ").split("/")[0]) - before < 50
