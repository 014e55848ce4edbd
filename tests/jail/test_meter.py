"""Memory, processes and CPU of a session: counted and bounded as a whole, and what happens at the bound."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import cloche
from cloche.backends.interpreter import examine
from cloche.backends.jail.houses import houses
from cloche.backends.jail.upkeep import upkeep
from cloche.isolation import MASK_VARIABLE

MIB = 1 << 20


@pytest.fixture(autouse=True)
def metered() -> None:
    layer = upkeep.layer()
    if not layer.active:
        pytest.skip(f"no cgroups here: {layer.purpose}")


@pytest.fixture
def neighbour() -> Iterator[cloche.SessionSandbox]:
    """Another session of this host, which must not notice anything."""
    with jail() as sandbox:
        sandbox.execute("mine = 1").check()
        yield sandbox
        assert sandbox.execute("import subprocess\nmine, subprocess.run(['true']).returncode").value == "(1, 0)"


def jail(**options: object) -> cloche.SessionSandbox:
    return cloche.create_sandbox(backend="jail", **options)  # type: ignore[arg-type]  # options of any kind, on purpose


def groups_of(sandbox: cloche.SessionSandbox) -> dict[str, str]:
    """Controller -> group of the session's process; in version 2 it is the same for all."""
    assert sandbox.guest_pid is not None
    lines = Path(f"/proc/{sandbox.guest_pid}/cgroup").read_text().splitlines()
    found = {name: group for _, names, group in (line.split(":", 2) for line in lines) for name in names.split(",")}
    return {name: found.get(name, found.get("", "")) for name in ("memory", "pids", "cpu", "cpuacct")}


def names_of_groups(sandbox: cloche.SessionSandbox) -> set[str]:
    """In the trees that every session is in."""
    found = groups_of(sandbox)
    return {"/".join(found[name].split("/")[-2:]) for name in ("memory", "pids", "cpuacct")}


def folder_of(sandbox: cloche.SessionSandbox, controller: str) -> Path:
    """The session's group, as a folder."""
    meter = upkeep.meter()
    assert meter is not None
    top = next(top for tree, top in zip(meter.trees, meter.tops, strict=True) if controller in tree.controllers)
    return Path(top, groups_of(sandbox)[controller].rpartition("/")[2])


def gauge(sandbox: cloche.SessionSandbox, controller: str, name: str) -> dict[str, int]:
    lines = folder_of(sandbox, controller).joinpath(name).read_text().splitlines()
    return {key: int(value) for key, _, value in (line.rpartition(" ") for line in lines)}


# -- the group ---------------------------------------------------------------------------------------------------------


def test_a_metered_session_says_so() -> None:
    with jail(minimum_isolation="metered") as sandbox:
        result = sandbox.execute("1")
    assert result.isolation is cloche.Isolation.METERED
    assert "cgroup" in result.layers


def test_every_session_and_every_worker_of_it_is_in_a_group_of_its_own() -> None:
    with jail() as one, jail() as other:
        one.execute("1").check()
        other.execute("1").check()
        (first,), (second,) = names_of_groups(one), names_of_groups(other)
        assert first != second
        pid = one.guest_pid
        assert one.execute("import os; os.kill(os.getpid(), 9)").outcome == "killed"
        one.execute("1").check()
        assert one.guest_pid != pid
        assert names_of_groups(one) == {first}


def test_a_spare_is_in_a_group_before_it_is_claimed() -> None:
    houses.trial(examine(None, "jail"))
    found = set()
    for _ in range(12):
        with jail(preload=()) as sandbox:
            sandbox.execute("1").check()
            (name,) = names_of_groups(sandbox)
            found.add(name)
    assert len(found) == 12


def test_children_of_the_code_are_in_the_group_too() -> None:
    with jail() as sandbox:
        sandbox.execute("import subprocess\nchild = subprocess.Popen(['setsid', 'sleep', '600'])").check()
        for controller in ("memory", "pids"):
            members = folder_of(sandbox, controller).joinpath("cgroup.procs").read_text().split()
            assert len(members) == 2


def test_where_the_group_lies_is_not_told_inside() -> None:
    with jail() as sandbox:
        seen = sandbox.execute("{line.split(':')[2] for line in open('/proc/self/cgroup')}").value
    assert seen == r"{'/\n'}"


def test_the_layer_can_be_masked_and_then_is_really_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MASK_VARIABLE, "cgroup")
    with jail() as sandbox:
        result = sandbox.execute("import os\nhasattr(os, 'memfd_create') and os.memfd_create('x')")
        assert result.isolation is cloche.Isolation.SEALED
        assert "cgroup" not in result.layers
        assert result.outcome == "error"  # memory files would count for nobody
        assert not any(f"cloche-{os.getpid()}-" in group for group in groups_of(sandbox).values())
    with jail(minimum_isolation="metered") as sandbox, pytest.raises(cloche.IsolationError):
        sandbox.execute("1")


# -- memory ------------------------------------------------------------------------------------------------------------


def test_one_process_that_wants_too_much_gets_an_error_and_lives(neighbour: cloche.SessionSandbox) -> None:
    with jail(memory_bytes=256 * MIB) as sandbox:
        sandbox.execute("kept = 1").check()
        for code in ("[bytearray(1 << 20) for _ in range(4096)]", "bytearray(1 << 30)"):
            result = sandbox.execute(code)
            assert (result.outcome, result.session_state) == ("memory", "kept")
        assert sandbox.execute("kept").value == "1"


SHARED = """
import mmap
hoard = []
for _ in range(4096):
    piece = mmap.mmap(-1, 1 << 20)  # shared memory: no limit of one process counts it
    for page in range(0, 1 << 20, 4096):
        piece[page] = 1
    hoard.append(piece)
"""


def test_memory_that_no_limit_of_a_process_counts_is_bounded(neighbour: cloche.SessionSandbox) -> None:
    with jail(memory_bytes=64 * MIB, workspace_bytes=MIB) as sandbox:
        sandbox.execute("1").check()
        result = sandbox.execute(SHARED)
        assert (result.outcome, result.exit_code, result.session_state) == ("memory", 137, "reset")
        assert result.error is not None
        assert "memory" in result.error
        assert result.guidance is not None
        assert "64 MiB" in result.guidance
        assert sandbox.execute("2").value == "2"


def test_a_hoard_of_memory_files_is_bounded(neighbour: cloche.SessionSandbox) -> None:
    hoard = (
        "import os\nfiles = []\nwhile True:\n"
        "    files.append(os.memfd_create('x'))\n    os.write(files[-1], bytes(4 << 20))"
    )
    with jail(memory_bytes=64 * MIB, workspace_bytes=16 * MIB, open_files=4096) as sandbox:
        result = sandbox.execute(hoard)
        assert (result.outcome, result.session_state) == ("memory", "reset")
        assert sandbox.execute("2").value == "2"


def test_many_processes_share_one_bound(neighbour: cloche.SessionSandbox) -> None:
    """Each of them stays far below what one process may have; together they do not."""
    bomb = (
        "import os\nchildren = []\nfor _ in range(24):\n    pid = os.fork()\n    if pid == 0:\n"
        "        try:\n            block = bytearray(b'x') * (24 << 20)\n            os.read(0, 1)\n"
        "            import time\n            time.sleep(600)\n        finally:\n            os._exit(0)\n"
        "    children.append(pid)\n"
        "status = os.waitpid(-1, 0)[1]\nos.WTERMSIG(status)"
    )
    with jail(memory_bytes=128 * MIB, workspace_bytes=MIB) as sandbox:
        sandbox.execute("kept = 1").check()
        result = sandbox.execute(bomb)
        # The kernel takes the largest: one of the children, or the session's own process.
        if result.outcome == "ok":
            assert result.value == "9"
            assert result.metadata["oom_kills"] >= 1
            assert result.guidance is not None
            assert "memory" in result.guidance
            assert sandbox.execute("kept").value == "1"
        else:
            assert (result.outcome, result.session_state) == ("memory", "reset")
            assert sandbox.execute("2").value == "2"


def test_files_of_the_workspace_are_bounded_by_their_own_quota() -> None:
    """They are memory, but a full disk is an error and no end."""
    with jail(memory_bytes=64 * MIB, workspace_bytes=96 * MIB) as sandbox:
        result = sandbox.execute("for n in range(9):\n    open(f'f{n}', 'wb').write(bytes(16 << 20))")
        assert result.session_state == "kept"
        assert result.exception is not None
        assert "No space left" in result.exception.message


def test_memory_is_counted_for_all_processes_together() -> None:
    with jail() as sandbox:
        small = sandbox.execute("1").memory_used_bytes
        children = sandbox.execute(
            "import subprocess, sys\ncode = 'x = bytearray(b\"x\") * (48 << 20); print(1, flush=True); input()'\n"
            "command, pipes = [sys.executable, '-c', code], dict(stdin=-1, stdout=-1)\n"
            "made = [subprocess.Popen(command, **pipes) for _ in '12']\n"
            "[child.stdout.readline() for child in made]\n[child.kill() for child in made] and None"
        )
    assert small is not None
    assert children.memory_used_bytes is not None
    assert children.memory_used_bytes - small > 90 * MIB


# -- processes ---------------------------------------------------------------------------------------------------------


def test_a_fork_bomb_stays_inside(neighbour: cloche.SessionSandbox) -> None:
    bomb = "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass"
    with jail(processes=24) as sandbox:
        sandbox.execute("1").check()
        result = sandbox.execute(bomb, timeout_ms=500)
        assert result.outcome == "timeout"
        assert sandbox.execute("2").value == "2"
        assert folder_of(sandbox, "pids").joinpath("pids.max").read_text() == "24\n"


# -- CPU ---------------------------------------------------------------------------------------------------------------

BUSY = "import time\nend = time.process_time() + {seconds}\nwhile time.process_time() < end: pass"


def test_a_quota_is_measured_out_in_each_period() -> None:
    """The kernel's own count: no period had more than its share, and the code was held back in some."""
    with jail(cpus=0.2) as sandbox:
        sandbox.execute("1").check()
        before = gauge(sandbox, "cpu", "cpu.stat")
        used = sandbox.execute(BUSY.format(seconds=0.2)).check().usage.cpu_ms
        after = gauge(sandbox, "cpu", "cpu.stat")
    periods, held_back = (after[name] - before[name] for name in ("nr_periods", "nr_throttled"))
    assert held_back >= 2
    assert used is not None
    assert used >= 200
    assert used <= 20 * (periods + 3)


def test_without_a_quota_nothing_is_held_back() -> None:
    with jail() as sandbox:
        sandbox.execute(BUSY.format(seconds=0.3)).check()
        group = groups_of(sandbox)["cpu"]
        if f"cloche-{os.getpid()}-" in group:  # one that also counts something else
            assert gauge(sandbox, "cpu", "cpu.stat")["nr_throttled"] == 0


def test_a_session_with_a_quota_is_never_one_that_was_made_without() -> None:
    houses.trial(examine(None, "jail"))
    for cpus in (None, 0.5, None, 0.25, 0.5):
        with jail(preload=(), cpus=cpus) as sandbox:
            sandbox.execute("1").check()
            if cpus is not None:
                quota = folder_of(sandbox, "cpu")
                name = "cpu.cfs_quota_us" if (quota / "cpu.cfs_quota_us").exists() else "cpu.max"
                assert int((quota / name).read_text().split()[0]) == cpus * 100_000


def test_a_quota_is_refused_where_it_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MASK_VARIABLE, "cgroup")
    with pytest.raises(cloche.UnsupportedError):
        jail(cpus=0.5)
    with pytest.raises(cloche.UnsupportedError):
        cloche.create_sandbox(backend="native", cpus=0.5)


def test_cpu_time_of_child_processes_counts() -> None:
    with jail() as sandbox:
        sandbox.execute("1").check()
        code = BUSY.format(seconds=0.25)
        result = sandbox.execute(f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {code!r}])").check()
    assert result.usage.cpu_ms is not None
    assert result.usage.cpu_ms >= 250


# -- copies of a session -----------------------------------------------------------------------------------------------


def test_a_branch_has_a_group_of_its_own() -> None:
    with jail() as sandbox:
        sandbox.execute("1").check()
        with sandbox.fork() as branch, branch.fork() as leaf:
            found = [names_of_groups(one) for one in (sandbox, branch, leaf)]
            assert [len(names) for names in found] == [1, 1, 1]
            assert len(set.union(*found)) == 3
            assert leaf.execute("1").isolation is cloche.Isolation.METERED


def test_a_branch_that_does_not_join_its_group_is_put_there() -> None:
    with jail() as sandbox:
        sandbox.execute(
            "import posix; write = posix.write\n"
            "posix.write = lambda descriptor, data: 1 if data == b'0' else write(descriptor, data)"
        ).check()
        with sandbox.fork() as branch:
            branch.execute("1").check()
            assert len(names_of_groups(branch)) == 1
            assert names_of_groups(branch).isdisjoint(names_of_groups(sandbox))


def test_a_branch_that_uses_up_its_memory_ends_alone() -> None:
    with jail(memory_bytes=64 * MIB, workspace_bytes=MIB) as sandbox:
        sandbox.execute("kept = 1").check()
        with sandbox.fork() as branch, sandbox.fork() as other:
            result = branch.execute(SHARED)
            assert (result.outcome, result.session_state) == ("memory", "reset")
            assert [one.execute("kept").value for one in (sandbox, other)] == ["1", "1"]
            branch.execute("1").check()
            assert names_of_groups(branch).isdisjoint(names_of_groups(sandbox))


def test_a_protected_session_returns_to_what_it_was_before_its_memory_was_used_up() -> None:
    with jail(memory_bytes=64 * MIB, workspace_bytes=MIB, protect_state=True) as sandbox:
        sandbox.execute("kept = [1]").check()
        result = sandbox.execute("kept.append(2)\n" + SHARED)
        assert (result.outcome, result.session_state) == ("memory", "restored")
        assert sandbox.execute("kept").value == "[1]"
        assert sandbox.execute("import os; os.kill(os.getpid(), 9)").outcome == "killed"


CROWD = """
import os, signal
del state
children = []
for _ in range(24):
    children.append(os.fork())
    if not children[-1]:
        try:
            block = bytearray(b"x") * (8 << 20)
            signal.pause()
        finally:
            os._exit(0)
os.WTERMSIG(os.waitpid(-1, 0)[1])
"""


def test_a_savepoint_outlives_the_crowd_that_uses_up_the_memory() -> None:
    """Though it is the largest of them, and would be taken first."""
    if os.getuid() != 0:
        pytest.skip("only root can ask for that")
    with jail(memory_bytes=128 * MIB, workspace_bytes=MIB) as sandbox:
        sandbox.execute("state = bytearray(b'x') * (80 << 20)").check()
        sandbox.savepoint()
        result = sandbox.execute(CROWD)
        assert result.outcome == "memory" or result.metadata["oom_kills"] > 0
        sandbox.undo()
        assert sandbox.execute("len(state) >> 20").value == "80"


def test_groups_of_branches_go_with_them() -> None:
    with jail() as sandbox:
        sandbox.execute("1").check()
        top = folder_of(sandbox, "pids").parent
        before = set(top.iterdir())
        for branch in sandbox.fork_many(3):
            branch.destroy()
        assert set(top.iterdir()) == before
