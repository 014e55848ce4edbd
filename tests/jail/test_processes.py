"""What processes share: each of the jail's leads a session of its own, so that nothing that is meant for a process
group, or for whoever asks next, reaches another."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.jail.sessions import jail, value
from tests.ordinary_user import readable_interpreter
from tests.poorer_kernel import run_on

import cloche

ATTEMPT = """
import os, errno
def attempt(function, *args):
    try:
        return function(*args)
    except OSError as exc:
        return errno.errorcode[exc.errno]
"""
SPENDER = """
import ctypes, os
KINDS = (0x10000000, 0x00020000, 0x20000000)
child = os.fork()
if child == 0:
    call = ctypes.CDLL(None).syscall
    while os.getppid() != 1:
        for kind in KINDS:
            call(308, 0, kind, 12345)
        call(126, None, None, 12345)
    os._exit(0)
"""


def sessions_of(pid: int) -> dict[int, int]:
    """Of every process below `pid` (and of itself): the session that it is in."""
    found, parents = {}, {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(name)], found[int(name)] = int(fields[1]), int(fields[3])
    below = {pid}
    while more := {each for each, parent in parents.items() if parent in below} - below:
        below |= more
    return {each: found[each] for each in below}


def top_of(pid: int) -> int:
    """The child of ours that this process descends from."""
    while (parent := int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])) != os.getpid():
        pid = parent
    return pid


def test_every_process_of_a_jail_leads_a_session_of_its_own() -> None:
    with jail() as one, jail() as other:
        for sandbox in (one, other):
            sandbox.execute("1").check()
        with one.fork() as branch:
            branch.execute("1").check()
            one.savepoint()
            assert one.guest_pid is not None
            found = sessions_of(top_of(one.guest_pid))
            assert len(found) >= 9
            assert {pid: session for pid, session in found.items() if pid != session} == {}


def test_priorities_limits_and_processors_are_set_of_oneself_only() -> None:
    with jail() as sandbox, jail() as neighbour:
        neighbour.execute("import os").check()
        sandbox.execute(ATTEMPT + "import resource, subprocess; child = subprocess.Popen(['sleep', '60'])").check()
        for which, who in (("PGRP", "0"), ("USER", "0"), ("PROCESS", "child.pid")):
            assert value(sandbox, f"attempt(os.setpriority, os.PRIO_{which}, {who}, 19)") == "'EPERM'"
        assert value(sandbox, "attempt(os.sched_setaffinity, child.pid, {0})") == "'EPERM'"
        assert value(sandbox, "attempt(resource.prlimit, child.pid, resource.RLIMIT_CPU, (1, 1))") == "'EPERM'"
        assert value(neighbour, "os.getpriority(os.PRIO_PROCESS, 0)") == "0"
        assert value(sandbox, "os.nice(3), os.sched_setaffinity(0, {0}), resource.getrlimit(resource.RLIMIT_CPU)[0]")
        assert value(neighbour, "os.getpriority(os.PRIO_PROCESS, 0)") == "0"


@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="this kernel has no groups by session")
def test_a_session_slows_down_no_other_by_the_group_that_the_scheduler_made_of_it() -> None:
    with jail() as sandbox, jail() as neighbour:
        for each in (sandbox, neighbour):
            each.execute("import subprocess").check()
        with sandbox.fork() as branch:
            write = (
                "subprocess.run(['sh', '-c', 'echo 19 > /proc/self/autogroup && cat /proc/self/autogroup'], text=True"
            )
            assert "nice 19" in str(value(branch, write + ", capture_output=True).stdout"))
            for other in (sandbox, neighbour):
                assert Path(f"/proc/{other.guest_pid}/autogroup").read_text().endswith("nice 0\n")


NEIGHBOURS = """
import json, sys, cloche
def session():
    return cloche.create_sandbox(backend="jail", python=sys.argv[1])
with session() as one, session() as other:
    other.execute("kept = 7").check()
    ended = one.execute("import os, signal\\nos.kill(0, signal.%s)", timeout_ms=3000)
    with session() as third:
        print(json.dumps([ended.outcome, other.execute("kept").value, third.execute("1 + 1").value,
                          sorted(other.execute("1").layers)]))
"""


@pytest.mark.parametrize("kernel", ["old-landlock", "no-landlock"])
@pytest.mark.parametrize("number", ["SIGKILL", "SIGSTOP"])
def test_a_signal_to_the_own_group_reaches_no_other_session_without_landlocks_scope(kernel: str, number: str) -> None:
    done = run_on(kernel, "-c", NEIGHBOURS % number, sys.executable)
    assert done.stdout, done.stderr
    found: Any = json.loads(done.stdout)
    assert found[:3] == ["killed" if number == "SIGKILL" else "timeout", "7", "2"]
    assert "scope" not in found[3]
    assert ("landlock" in found[3]) is (kernel == "old-landlock")


def test_a_kernel_with_the_scope_says_so() -> None:
    result = cloche.run("1", backend="jail")
    assert {"landlock", "scope"} <= set(result.layers)


def test_a_branch_that_signals_its_group_leaves_its_session_alone() -> None:
    with jail() as session:
        session.execute("import os, signal; kept = 7").check()
        with session.fork() as branch:
            assert branch.execute("os.kill(0, signal.SIGKILL)").outcome == "killed"
            assert value(session, "kept") == "7"


def test_a_session_that_signals_its_group_leaves_its_savepoint_alone() -> None:
    with jail() as session:
        session.execute("import os, signal; kept = 7").check()
        session.savepoint()
        assert session.execute("os.kill(0, signal.SIGKILL)").outcome == "killed"
        session.undo()
        assert value(session, "kept") == "7"


def test_no_process_but_the_one_that_is_meant_can_spend_what_is_approved_for_a_branch() -> None:
    with jail() as session:
        session.execute(SPENDER + "kept = 7").check()
        for _ in range(50):
            with session.fork() as branch:
                assert value(branch, "kept") == "7"
        assert value(session, "os.waitpid(child, os.WNOHANG)") == "(0, 0)", "the spender has ended early"


@pytest.mark.parametrize("number", ["SIGKILL", "SIGSTOP"])
def test_a_confined_session_signals_its_own_group_alone(number: str) -> None:
    python = sys.executable if os.getuid() != 0 else readable_interpreter()
    if python is None:
        pytest.skip("no interpreter here that every user can read")
    done = run_on("no-namespaces", "-c", NEIGHBOURS % number, str(python))
    assert done.stdout, done.stderr
    assert json.loads(done.stdout)[1:3] == ["7", "2"]
