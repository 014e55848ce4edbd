"""Groups by themselves: finding where they can be made, making, bounding, joining and removing them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.native.watching import has_ended

from cloche.backends.jail import hierarchies
from cloche.backends.jail.cgroups import Group, Limits, Meter, remove_groups
from cloche.backends.jail.hierarchies import Hierarchy, NoGroups, find
from cloche.backends.jail.upkeep import upkeep
from cloche.policy import ExecutionPolicy
from cloche.session.hosts import Host

UNIFIED = Path("/sys/fs/cgroup/unified")
JOIN = "import os, sys\nfor name in sys.argv[1:]: os.write(int(name), b'0')\n"


@pytest.fixture
def meter() -> Iterator[Meter]:
    found = upkeep.meter()
    if found is None:
        pytest.skip(f"no cgroups here: {upkeep.layer().purpose}")
    yield found
    upkeep.close()


@pytest.fixture
def group(meter: Meter) -> Iterator[Group]:
    made = meter.make_group()
    yield made
    made.remove()


def run_inside(group: Group, code: str) -> subprocess.Popen[str]:
    """A process that joins as a worker does, and then runs `code`."""
    joins = group.open_joins()
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", JOIN + code, *map(str, joins)],
            pass_fds=joins, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True,
        )  # fmt: skip
    finally:
        for descriptor in joins:
            os.close(descriptor)


def ask(group: Group, code: str) -> str:
    process = run_inside(group, code)
    return process.communicate(timeout=60)[0].strip()


def test_a_process_that_writes_to_the_descriptors_is_a_member(group: Group) -> None:
    process = run_inside(group, "print(1, flush=True)\ninput()")
    with process:
        assert process.stdout is not None
        process.stdout.readline()
        assert group.members() == {process.pid}
        assert group.has(process.pid)
        process.communicate("\n")
    assert group.members() == set()


def test_a_process_can_be_joined_from_outside(meter: Meter, group: Group) -> None:
    meter.stir()
    with subprocess.Popen(["sleep", "600"]) as process:
        assert not group.has(process.pid)
        group.join(process.pid)
        assert group.members() == {process.pid}
        assert group.has(process.pid)
        process.kill()


def test_no_more_processes_than_allowed_can_be_made(group: Group) -> None:
    group.limit(Limits(pids=4))
    bomb = (
        "import signal\nmade = 0\ntry:\n    while True:\n        if os.fork() == 0:\n            os.close(1)\n"
        "            signal.pause()\n        made += 1\nexcept BlockingIOError: print(made)"
    )
    assert ask(group, bomb) == "3"


def test_limits_can_be_raised_and_lowered_and_lifted(group: Group) -> None:
    room = "block = bytearray(b'x') * (96 << 20)\nprint('fits', flush=True)"
    answers = []
    for memory in (64 << 20, 256 << 20, 48 << 20, None):
        group.limit(Limits(memory=memory))
        answers.append(ask(group, room))
    assert answers == ["", "fits", "", "fits"]
    assert group.gauges.oom_kills() == 2


def test_a_limit_leaves_room_for_an_error_before_the_end() -> None:
    policy = ExecutionPolicy(memory_bytes=512 << 20, workspace_bytes=100 << 20)
    memory = Limits.of(policy).memory
    assert memory is not None
    assert memory > 612 << 20
    assert Limits.of(policy.replace(memory_bytes=None)).memory is None


def test_what_runs_in_a_group_ends_with_it(group: Group) -> None:
    process = run_inside(group, "print(1, flush=True)\nimport signal\nsignal.pause()")
    assert process.stdout is not None
    process.stdout.readline()
    handle = os.pidfd_open(process.pid)
    group.remove()
    assert has_ended(handle)
    assert process.wait() == -signal.SIGKILL
    process.communicate()


def test_the_folder_of_a_host_goes_with_all_groups_in_it(meter: Meter) -> None:
    groups = [meter.make_group() for _ in range(3)]
    process = run_inside(groups[1], "print(1, flush=True)\nimport signal\nsignal.pause()")
    assert process.stdout is not None
    process.stdout.readline()
    assert all(remove_groups(top) for top in meter.tops)
    process.communicate()
    assert not any(Path(top).exists() for top in meter.tops)


def test_a_folder_that_was_tidied_away_is_made_again(meter: Meter) -> None:
    for top in meter.tops:
        os.rmdir(top)
    group = meter.make_group(Limits(pids=5))
    assert ask(group, "print(1)") == "1"
    group.remove()


def test_a_forked_child_leaves_groups_alone(meter: Meter, group: Group) -> None:
    pid = os.fork()
    if pid == 0:
        group.remove()
        upkeep.close()
        os._exit(0)
    os.waitpid(pid, 0)
    assert ask(group, "print('here')") == "here"


# -- finding -----------------------------------------------------------------------------------------------------------


def kernel_says(monkeypatch: pytest.MonkeyPatch, mounts: list[hierarchies._Mount], own: dict[str, str]) -> None:
    monkeypatch.setattr(hierarchies, "_mounts", lambda: mounts)
    monkeypatch.setattr(hierarchies, "_own_groups", lambda: own)


def test_groups_are_made_below_our_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "memory/a/b").mkdir(parents=True)
    (tmp_path / "pids").mkdir()
    mounts = [
        # in a container the mount shows a part of the tree only
        hierarchies._Mount(1, str(tmp_path / "memory"), "/docker/x", frozenset({"rw", "memory"})),
        hierarchies._Mount(1, str(tmp_path / "pids"), "/", frozenset({"rw", "pids", "other"})),
    ]
    kernel_says(monkeypatch, mounts, {"memory": "/docker/x/a/b", "pids": "/"})
    assert find() == (
        Hierarchy(1, ("memory",), str(tmp_path / "memory/a/b")),
        Hierarchy(1, ("pids",), str(tmp_path / "pids")),
    )
    kernel_says(monkeypatch, mounts, {"memory": "/docker/y", "pids": "/"})
    with pytest.raises(NoGroups):
        find()


def test_controllers_that_share_a_tree_are_joined_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    mount = hierarchies._Mount(1, str(tmp_path), "/", frozenset({"rw", "cpu", "cpuacct", "memory", "pids"}))
    kernel_says(monkeypatch, [mount], {})
    assert find() == (Hierarchy(1, ("memory", "pids", "cpu", "cpuacct"), str(tmp_path)),)


def test_without_groups_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel_says(monkeypatch, [], {})
    with pytest.raises(NoGroups, match="no cgroups here"):
        find()


def test_a_group_of_another_is_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = tmp_path / "user.slice/session.scope"
    own.mkdir(parents=True)
    for folder in (tmp_path, own.parent, own):
        (folder / "cgroup.procs").write_text("")
        (folder / "cgroup.controllers").write_text("cpu memory pids\n")
    kernel_says(monkeypatch, [hierarchies._Mount(2, str(tmp_path), "/")], {"": "/user.slice/session.scope"})
    with pytest.raises(NoGroups, match="not delegated"):
        find()
    monkeypatch.setenv(hierarchies.PLACE_VARIABLE, str(own))
    assert find() == (Hierarchy(2, ("memory", "pids", "cpu"), str(own)),)


# -- version 2, with a controller that is free here: the memory controller is bound to version 1 -----------------------


@pytest.fixture
def delegated() -> Iterator[tuple[Path, str]]:
    """A group of version 2 that is given to us, and a controller in it."""
    free = (UNIFIED / "cgroup.controllers").read_text().split() if (UNIFIED / "cgroup.controllers").exists() else []
    if os.getuid() != 0 or not free:
        pytest.skip("no controller of cgroup version 2 is free here")
    place = UNIFIED / str(Host.here()).replace("cloche", "test")
    place.mkdir()
    (UNIFIED / "cgroup.subtree_control").write_text(f"+{free[0]}")
    os.setxattr(place, "user.delegate", b"1")
    yield place, free[0]
    for folder in sorted((path for path in place.rglob("*") if path.is_dir()), reverse=True):
        folder.rmdir()
    place.rmdir()


SECOND = """
import os, sys
from pathlib import Path
from cloche.backends.jail.cgroups import Meter
from cloche.backends.jail.hierarchies import find
from cloche.session.hosts import Host
place, controller = Path(sys.argv[1]), sys.argv[2]
(place / "cgroup.procs").write_text("0")
meter = Meter(Host.here(), find((controller,), ()))
meter.open(try_out=False)
group = meter.make_group()
joins = group.open_joins()
pid = os.fork()
if pid == 0:
    os.write(joins[0], b"0")
    print(Path("/proc/self/cgroup").read_text().split("0::")[1].strip().rpartition("/")[2], flush=True)
    os._exit(0)
os.waitpid(pid, 0)
meter.stir()
print(Path("/proc/self/cgroup").read_text().split("0::")[1].strip().rpartition("/")[2], len(group.members()))
group.remove()
meter.close()
"""


def test_version_2_makes_room_in_the_group_that_it_is_given(delegated: tuple[Path, str]) -> None:
    """Processes of the host move into a group beside those of its sessions: one that has both is not possible."""
    place, controller = delegated
    done = subprocess.run(
        [sys.executable, "-c", SECOND, place, controller], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("1\ncloche-members 0\n", "")
    assert [path.name for path in place.iterdir() if path.is_dir()] == ["cloche-members"]
