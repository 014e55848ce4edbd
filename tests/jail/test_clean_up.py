"""Nothing survives: no process, no mount, no cgroup, no file, however a host ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.native.watching import has_ended, open_process, read_line

from cloche.backends.jail.hierarchies import NoGroups, find
from cloche.backends.jail.upkeep import leftovers, upkeep
from cloche.conformance.waiting import PATIENCE, wait_until
from cloche.session.folder import find_sessions
from cloche.session.hosts import Host

# What each session leaves running: a child, a daemon in a session of its own, and something that never stops forking.
LEAVE = """
import os, subprocess, sys
for command in (["sleep", "1000.MARK"], ["setsid", "sleep", "1001.MARK"]):
    subprocess.Popen(command)
if os.fork() == 0:
    os.setsid()
    while True:
        try:
            if os.fork() == 0:
                os._exit(0)
            os.waitpid(-1, 0)
        except OSError:
            pass
"""
HOST = f"""
LEAVE = {LEAVE!r}
import json, os, subprocess, sys, time
import cloche
from cloche.backends.jail.upkeep import upkeep
mark, count = sys.argv[1], int(sys.argv[2])
sandboxes = [cloche.create_sandbox(backend="jail") for _ in range(count)]
for sandbox in sandboxes:
    sandbox.execute(LEAVE.replace("MARK", mark)).check()
reaper = upkeep._reaper
print(json.dumps([[sandbox.guest_pid for sandbox in sandboxes], reaper._process.pid]), flush=True)
"""
WAIT = "\ninput()\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every file that anybody makes here is in this one."""
    for name, variable in (("sessions", "CLOCHE_SESSIONS_DIR"), ("tmp", "TMPDIR")):
        (tmp_path / name).mkdir(mode=0o700)
        monkeypatch.setenv(variable, str(tmp_path / name))
    return tmp_path


class Other:
    """Another host, with sessions in the jail."""

    def __init__(self, script: str = WAIT, count: int = 3, within: list[Path] | None = None) -> None:
        """`within`: cgroups in which it is to live."""
        self.mark = f"{os.getpid()}{time.monotonic_ns()}"
        self._places = within or places()
        enter = "".join(f"echo 0 > '{place}/tasks'; " for place in within or ())
        self.process = subprocess.Popen(
            ["sh", "-c", enter + 'exec "$@"', "sh", sys.executable, "-c", HOST + script, self.mark, str(count)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        guests, self.reaper_pid = json.loads(read_line(self.process))
        self.pid = self.process.pid
        self.guests = [open_process(pid) for pid in guests]
        self.reaper = open_process(self.reaper_pid)

    def groups(self) -> list[Path]:
        """Folders of its cgroups, in every tree."""
        return [path for place in self._places for path in place.glob(f"cloche-{self.pid}-*")]

    def end(self, how: Callable[[subprocess.Popen[str]], object]) -> None:
        how(self.process)
        self.process.communicate(timeout=PATIENCE)

    def kill_reaper(self) -> None:
        signal.pidfd_send_signal(self.reaper, signal.SIGKILL)
        assert has_ended(self.reaper)

    def assert_gone(self, folder: Path) -> None:
        assert [has_ended(guest) for guest in self.guests] == [True] * len(self.guests)
        wait_until(lambda: not running(self.mark))
        wait_until(lambda: not self.groups())
        wait_until(lambda: files_in(folder) == [])


def places() -> list[Path]:
    try:
        return [Path(tree.parent) for tree in find()]
    except NoGroups:
        return []


def running(word: str) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in path.read_bytes() and b"-c" not in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def files_in(folder: Path) -> list[str]:
    return sorted(str(path) for name in ("sessions", "tmp") for path in (folder / name).rglob("*"))


def mounts() -> list[str]:
    return Path("/proc/self/mountinfo").read_text().splitlines()


# -- the end of a host -------------------------------------------------------------------------------------------------


def test_nothing_survives_a_host_that_is_killed_with_many_sessions(folder: Path) -> None:
    before = mounts()
    other = Other(count=6)
    assert running(other.mark)
    other.end(subprocess.Popen.kill)
    other.assert_gone(folder)
    assert has_ended(other.reaper)
    assert mounts() == before


def test_nothing_survives_where_there_are_no_cgroups(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOCHE_MASK_LAYERS", "cgroup")
    other = Other()
    other.end(subprocess.Popen.kill)
    other.assert_gone(folder)
    assert has_ended(other.reaper)


@pytest.mark.parametrize(
    "last", ["", "raise SystemExit(3)", "os._exit(0)", "os.abort()", "[s.destroy() for s in sandboxes]"]
)
def test_a_host_that_ends_in_whatever_way_leaves_nothing(folder: Path, last: str) -> None:
    other = Other(script=f"{WAIT}{last}", count=2)
    other.end(lambda process: process.stdin and process.stdin.write("\n"))
    other.assert_gone(folder)
    assert has_ended(other.reaper)


def test_an_orderly_end_leaves_nothing_for_the_reaper(folder: Path) -> None:
    other = Other(count=2)
    other.kill_reaper()
    other.end(lambda process: process.stdin and process.stdin.write("\n"))
    assert other.groups() == []
    assert files_in(folder) == []
    other.assert_gone(folder)


def test_a_host_that_becomes_another_program_leaves_nothing(folder: Path) -> None:
    other = Other(script=f"{WAIT}os.execvp('sleep', ['sleep', '600'])", count=2)
    other.process.stdin.write("\n")  # type: ignore[union-attr]
    other.process.stdin.flush()  # type: ignore[union-attr]
    try:
        other.assert_gone(folder)
        assert other.process.poll() is None
    finally:
        other.end(subprocess.Popen.kill)


FORKS = """
child = os.fork()
if child == 0:
    os.close(1)
    {child}
"""


@pytest.mark.parametrize("child", ["raise SystemExit(0)", "os._exit(0)", "os.kill(os.getpid(), 9)"])
def test_a_child_of_the_host_that_ends_takes_nothing_along(folder: Path, child: str) -> None:
    script = (
        FORKS.format(child=child)
        + "os.waitpid(child, 0)\nprint([s.execute('1 + 1').value for s in sandboxes], flush=True)\ninput()"
    )
    other = Other(script=script, count=2)
    assert read_line(other.process) == "['2', '2']"
    other.end(subprocess.Popen.kill)
    other.assert_gone(folder)


def test_a_child_that_outlives_the_host_keeps_nothing_alive(folder: Path) -> None:
    other = Other(script=FORKS.format(child="time.sleep(600)") + "print(child, flush=True)\ninput()", count=2)
    child = int(read_line(other.process))
    try:
        other.end(subprocess.Popen.kill)
        other.assert_gone(folder)
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_child_has_sessions_of_its_own(folder: Path) -> None:
    child = "print(cloche.run('1 + 2', backend='jail').value, os.getpid(), flush=True)\n    os._exit(0)"
    script = FORKS.format(child=child).replace("os.close(1)", "") + "os.waitpid(child, 0)\ninput()"
    other = Other(script=script, count=1)
    value, child_pid = read_line(other.process).split()
    assert value == "3"
    other.end(subprocess.Popen.kill)
    other.assert_gone(folder)
    wait_until(lambda: not [path for place in places() for path in place.glob(f"cloche-{child_pid}-*")])


def test_the_reaper_is_a_shell_where_the_programs_are_not_installed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = "from cloche.backends.jail import reaper\nreaper.programs = lambda: None\n"
    monkeypatch.setattr(sys.modules[__name__], "HOST", without + HOST)
    other = Other(count=2)
    command = Path(f"/proc/{other.reaper_pid}/cmdline").read_bytes().split(b"\0")[0]
    assert command == b"/bin/sh"
    other.end(subprocess.Popen.kill)
    other.assert_gone(folder)
    assert has_ended(other.reaper)


# -- when the reaper is gone too ---------------------------------------------------------------------------------------


@pytest.fixture
def apart() -> Iterator[list[Path]]:
    """Cgroups for one host alone: what lies in ours may be swept by any other host of this machine."""
    made = [place / f"apart-{os.getpid()}-{time.monotonic_ns()}" for place in places()]
    if made and find()[0].version == 2:
        made = []  # there a host needs more than a folder
    for place in made:
        place.mkdir()
    yield made
    for place in made:
        place.rmdir()


@pytest.fixture
def abandoned(folder: Path, apart: list[Path]) -> Iterator[Other]:
    """A host that was killed, and its reaper before it."""
    other = Other(count=2, within=apart)
    other.kill_reaper()
    other.end(subprocess.Popen.kill)
    assert [has_ended(guest) for guest in other.guests] == [True, True]
    assert len(other.groups()) == len(places())
    assert len(files_in(folder)) == 1
    yield other
    assert other.groups() == []
    assert files_in(folder) == []


def test_the_next_start_sweeps_what_the_dead_left(abandoned: Other, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "_swept", False)
    upkeep.close()
    upkeep.meter()
    wait_until(lambda: not abandoned.groups() and leftovers(()) == [])
    upkeep.close()
    assert abandoned.groups() == []


def test_groups_of_the_dead_are_found_beside_our_own(folder: Path) -> None:
    """Where their register is lost. Whoever starts on this machine removes them: we, or somebody else before us."""
    other = Other(count=1)
    other.kill_reaper()
    other.end(subprocess.Popen.kill)
    assert [has_ended(guest) for guest in other.guests] == [True]
    for name in files_in(folder):
        os.unlink(name)
    for left in leftovers():
        left.remove()
    assert other.groups() == []


def test_clean_removes_what_the_dead_left_and_says_so(abandoned: Other) -> None:
    assert {session.host_pid for session in find_sessions()} == {abandoned.pid}
    listed = cloche_command("ps", "--json")
    assert [(session["state"], session["backend"]) for session in listed] == [("left over", "jail")] * 2
    assert len(cloche_command("clean", "--dry-run", "--json")["removed"]) == 2
    expected = {str(path) for path in abandoned.groups()}
    done = cloche_command("clean", "--json")
    assert [session["host_pid"] for session in done["removed"]] == [abandoned.pid] * 2
    assert expected <= set(done["groups"])
    assert cloche_command("clean", "--json")["removed"] == []


def cloche_command(*words: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "cloche", *words], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# -- the living --------------------------------------------------------------------------------------------------------


@pytest.fixture
def live(folder: Path) -> Iterator[Other]:
    other = Other(script="\nfor line in sys.stdin: print(sandboxes[0].execute('1 + 1').value, flush=True)", count=1)
    yield other
    assert other.process.stdin is not None
    other.process.stdin.write("\n")
    other.process.stdin.flush()
    assert read_line(other.process) == "2"
    other.end(subprocess.Popen.kill)
    other.assert_gone(folder)


def test_a_live_session_is_listed_with_its_process(live: Other) -> None:
    (session,) = cloche_command("ps", "--json")
    assert (session["state"], session["backend"], session["host_pid"]) == ("live", "jail", live.pid)
    assert session["guest_alive"]
    assert session["guest_pid"] in running_guests(live)


def running_guests(other: Other) -> list[int]:
    found = []
    for guest in other.guests:
        lines = Path(f"/proc/self/fdinfo/{guest}").read_text().splitlines()
        found += [int(line.split()[1]) for line in lines if line.startswith("Pid:")]
    return found


def test_the_living_are_left_alone(live: Other) -> None:
    assert cloche_command("clean", "--json")["live"] == 1
    assert not any(f"cloche-{live.pid}-" in left.path for left in leftovers())


def test_the_living_are_left_alone_from_another_pid_namespace(live: Other) -> None:
    """There its number means nothing, or somebody else."""
    if os.getuid() != 0:
        pytest.skip("needs the right to make a pid namespace")
    code = (
        "import cloche.session.hosts as hosts\nhosts.JUST_MADE = -1.0\n"
        "from cloche.backends.jail.upkeep import leftovers\nprint(leftovers())"
    )
    done = subprocess.run(
        ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", code],
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    assert f"cloche-{live.pid}-" not in done.stdout


def test_what_a_dead_host_of_another_pid_namespace_left_is_swept_when_it_is_old(folder: Path) -> None:
    host = Host(pid=os.getpid(), started=1, space=7, token="0123abcd")
    path = folder / "sessions" / str(host)
    path.write_text("")
    assert leftovers(()) == []  # it may be about to be locked
    os.utime(path, (0, 0))
    assert [left.path for left in leftovers(())] == [str(path)]


def test_a_register_cannot_name_folders_that_are_not_groups_of_its_host(folder: Path) -> None:
    victim = folder / "victim"
    victim.mkdir()
    (victim / "cgroup.procs").write_text(str(os.getpid()))
    host = Host(pid=1 << 22, started=1, space=os.stat("/proc/self/ns/pid").st_ino, token="0123abcd")
    path = folder / "sessions" / str(host)
    path.write_text(json.dumps({"groups": [str(victim), "/", 7, None]}) + "\n")
    (found,) = leftovers(())
    assert found.path == str(path)
    assert found.remove()
