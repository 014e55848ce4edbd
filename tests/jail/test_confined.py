"""The confined tier: what Landlock and seccomp hold where there are no namespaces, and who ends what is left behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.jail.sessions import jail, value
from tests.ordinary_user import readable_interpreter

import cloche
from cloche import Isolation
from cloche.backends.jail.walls import walls
from cloche.conformance.waiting import wait_until
from cloche.factory import probe_backends
from cloche.session.processes import cpu_seconds, process_start

SOURCES = Path(cloche.__file__).resolve().parent.parent
KINDS = """
import errno
def attempt(function, *args):
    try:
        return function(*args)
    except OSError as exc:
        return errno.errorcode[exc.errno]
"""
Confined = Callable[..., cloche.SessionSandbox]


@pytest.fixture(scope="module")
def python() -> str:
    """An interpreter that the guest can read: as root the guest becomes somebody else."""
    if os.getuid() != 0:
        return sys.executable
    found = readable_interpreter()
    if found is None:
        pytest.skip("no interpreter here that every user can read")
    return str(found)


@pytest.fixture
def confined(python: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Confined]:
    """Makes sandboxes of this tier."""
    folder = tempfile.mkdtemp(prefix="cloche-confined-", dir="/tmp" if os.getuid() == 0 else None)
    monkeypatch.setenv("CLOCHE_MASK_LAYERS", "namespaces")
    monkeypatch.setenv("CLOCHE_SESSIONS_DIR", folder)
    yield lambda **options: jail(python=python, **options)
    walls.forget()
    shutil.rmtree(folder, ignore_errors=True)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_a_result_names_the_tier_and_only_the_layers_that_are_there(confined: Confined) -> None:
    with confined() as sandbox:
        result = sandbox.execute("1")
    assert result.isolation is Isolation.CONFINED
    assert {"landlock", "seccomp", "capabilities", "network", "rlimits"} <= set(result.layers)
    assert not {"namespaces", "view"} & set(result.layers)


def test_a_guest_is_never_root_and_has_no_capabilities(confined: Confined) -> None:
    code = "import os\nstatus = open('/proc/self/status').read()\n"
    code += (
        "(0 in os.getresuid() + os.getresgid(), [line for line in status.splitlines() if line[:3] in ('Cap', 'NoN')])"
    )
    with confined() as sandbox:
        is_root, lines = eval(value(sandbox, code) or "")
    found = {name: int(amount, 16) for name, amount in (line.split(":\t") for line in lines)}
    assert not is_root
    assert (found["CapEff"], found["CapPrm"], found["CapInh"], found["CapAmb"], found["NoNewPrivs"]) == (0, 0, 0, 0, 1)


def test_processes_of_the_host_cannot_be_read_or_signalled(confined: Confined) -> None:
    code = KINDS + (
        "import os, signal\n"
        "[[attempt(open, f'/proc/{{pid}}/{{name}}') for name in ('environ', 'mem', 'cmdline', 'maps')]"
        " + [attempt(os.listdir, f'/proc/{{pid}}/{{name}}') for name in ('cwd', 'root', 'fd')]"
        " + [attempt(os.kill, pid, 0)] for pid in ({host}, os.getppid())]"
    )
    with confined() as sandbox:
        for answers in eval(value(sandbox, code.format(host=os.getpid())) or ""):
            assert set(answers) <= {"EACCES", "EPERM"}, answers


def test_limits_and_priorities_of_other_processes_cannot_be_changed(confined: Confined) -> None:
    code = KINDS + (
        "import os, resource\nhost = {host}\n(attempt(resource.prlimit, host, resource.RLIMIT_CORE, (0, 0)),"
        " attempt(os.setpriority, os.PRIO_PROCESS, host, 19), attempt(os.setpriority, os.PRIO_USER, 0, 19),"
        " attempt(os.sched_setaffinity, host, [0]))"
    )
    with confined() as sandbox:
        assert value(sandbox, code.format(host=os.getpid())) == "('EPERM', 'EPERM', 'EPERM', 'EPERM')"


def test_no_socket_leads_out_but_event_loops_work(confined: Confined) -> None:
    code = KINDS + (
        "import asyncio, socket\nkinds = [(socket.AF_UNIX, 1), (socket.AF_UNIX, 2), (socket.AF_INET, 1), (40, 1)]\n"
        "[attempt(socket.socket, *kind) for kind in kinds] + [attempt(socket.socketpair, socket.AF_UNIX, 2)]"
    )
    with confined() as sandbox:
        assert value(sandbox, code) == "['EPERM', 'EPERM', 'EAFNOSUPPORT', 'EAFNOSUPPORT', 'EPERM']"
        assert value(sandbox, "await asyncio.sleep(0, 'done')") == "'done'"


def test_only_the_sessions_own_folders_can_be_written(confined: Confined, tmp_path: Path) -> None:
    places = f"('/tmp', '/dev/shm', '/var/tmp', {str(tmp_path)!r}, {str(Path.home())!r}, os.path.dirname(os.__file__))"
    code = KINDS + f"import os, tempfile\n[attempt(open, place + '/cloche-test', 'w') for place in {places}]"
    with confined() as sandbox:
        assert set(eval(value(sandbox, code) or "")) <= {"EACCES", "ENOENT"}
        assert value(sandbox, "open('x', 'w').write('1'), tempfile.TemporaryFile().write(b'2')") == "(1, 1)"


def test_only_the_interpreter_and_the_system_can_be_read(confined: Confined, tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text("secret")
    paths = ("/etc/passwd", "/", "/home", "/var/log", "/proc", "/proc/net/tcp", "/proc/self/net/tcp", "/sys")
    code = KINDS + (
        f"import os\n[attempt(os.listdir if os.path.isdir(path) else open, path) for path in {paths}"
        f" + ({str(tmp_path / 'theirs')!r},)]"
    )
    with confined() as sandbox:
        assert set(eval(value(sandbox, code) or "")) == {"EACCES"}
        assert value(sandbox, "import json, subprocess; subprocess.run(['/bin/true']).returncode") == "0"


def test_rights_and_times_of_own_files_can_be_set(confined: Confined) -> None:
    code = (
        "import os, shutil\nopen('x', 'w').close()\nos.chmod('x', 0o741)\nos.utime('x', (1, 2))\nos.mkdir('d')\n"
        "shutil.copy2('x', 'd/y')\nhandle = os.open('d', os.O_RDONLY)\nos.chmod('y', 0o640, dir_fd=handle)\n"
        "with open('x') as file:\n    os.fchmod(file.fileno(), 0o700)\n"
        "[(oct(os.stat(name).st_mode)[-3:], os.stat(name).st_mtime) for name in ('x', 'd/y')]"
    )
    with confined() as sandbox:
        assert value(sandbox, code) == "[('700', 2.0), ('640', 2.0)]"


def test_rights_and_times_of_the_hosts_files_cannot_be_set(confined: Confined) -> None:
    theirs = Path(os.environ["CLOCHE_SESSIONS_DIR"], "theirs")  # a folder that the guest's user can pass through
    theirs.write_text("x")
    theirs.chmod(0o600)
    before = theirs.stat()
    code = KINDS + (
        f"import os\npath = {str(theirs)!r}\nos.symlink(path, 'link')\nhandle = os.open(path, os.O_PATH)\n"
        "library = os.open(os.__file__, os.O_RDONLY)\nfolder = os.open(os.path.dirname(path), os.O_PATH)\n"
        "[attempt(os.chmod, path, 0o777), attempt(os.chmod, 'link', 0o777), attempt(os.utime, path, (1, 2)),"
        " attempt(os.chmod, f'/proc/self/fd/{handle}', 0o777), attempt(os.fchmod, library, 0o777),"
        " attempt(lambda: os.chmod('theirs', 0o777, dir_fd=folder)), attempt(os.chown, path, -1, -1),"
        " attempt(os.getxattr, path, 'user.x')]"
    )
    with confined() as sandbox:
        answers = eval(value(sandbox, code) or "")
    assert set(answers[:-1]) == {"EPERM"}
    assert answers[-1] == "ENOTSUP"
    after = theirs.stat()
    assert (after.st_mode, after.st_mtime_ns, after.st_ctime_ns) == (
        before.st_mode,
        before.st_mtime_ns,
        before.st_ctime_ns,
    )


def test_no_set_id_file_can_be_made(confined: Confined) -> None:
    code = (
        KINDS
        + "import os\nopen('x', 'w').close()\nattempt(os.chmod, 'x', 0o4755), attempt(os.open, 'y', 0o101, 0o4755)"
    )
    with confined() as sandbox:
        assert value(sandbox, code) == "('EPERM', 'EPERM')"


def test_sessions_do_not_reach_each_other(confined: Confined) -> None:
    with confined() as one, confined() as other:
        place = value(one, "import os\nopen('secret', 'w').write('x')\nos.getpid(), os.getcwd()")
        pid, folder = eval(place or "")
        code = KINDS + (
            f"import os, signal\n[attempt(open, {folder!r} + '/secret'), attempt(os.listdir, {folder!r}),"
            f" attempt(open, '/proc/{pid}/mem'), attempt(os.kill, {pid}, signal.SIGKILL)]"
        )
        assert set(eval(value(other, code) or "")) <= {"EACCES", "EPERM"}
        assert value(one, "open('secret').read()") == "'x'"


def test_nothing_that_a_cell_started_can_leave_its_group(confined: Confined) -> None:
    code = (
        "import os, subprocess\nos.setsid()\nos.setpgid(0, 0)\n"
        "child = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        "os.getpgid(child.pid) == os.getpgid(0) == os.getpid()"
    )
    with confined() as sandbox:
        assert value(sandbox, code) == "True"


STRAYS = """
import os, subprocess, time
def stray():
    subprocess.Popen(["sleep", "{seconds}"], start_new_session=True, stdout=subprocess.DEVNULL)
stray()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        stray()
        while os.getppid() != 1:
            time.sleep(0.01)
            if os.fork():
                os._exit(0)
    os._exit(0)
"""
"""Two that left their parents, and one that never stays the same process."""


def strays_of(seconds: str) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if seconds.encode() in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def test_each_session_has_a_keeper_that_leads_a_session_of_its_own(confined: Confined) -> None:
    with confined() as one, confined() as other:
        for sandbox in (one, other):
            pid = int(value(sandbox, "import os; os.getpid()") or 0)
            assert os.getsid(pid) == os.getsid(parent_of(pid)) == parent_of(pid)
            assert os.getpgid(pid) == pid


@pytest.mark.parametrize("end", ["destroy", "kill", "crash", "reset"])
def test_what_a_session_left_running_ends_with_it(confined: Confined, end: str) -> None:
    seconds = f"1000.{time.monotonic_ns()}"
    with confined(grace_ms=50) as sandbox:
        sandbox.execute(STRAYS.replace("{seconds}", seconds)).check()
        pid = sandbox.guest_pid
        assert pid is not None
        wait_until(lambda: len(strays_of(seconds)) >= 2)
        if end == "kill":
            deaf = "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\nwhile True: pass"
            assert sandbox.execute(deaf, timeout_ms=100).session_state == "reset"
        elif end == "crash":
            assert sandbox.execute("os._exit(3)").session_state == "reset"
        elif end == "reset":
            sandbox.reset()
        else:
            sandbox.destroy()
        if end != "destroy":
            assert value(sandbox, "1 + 1") == "2"
        assert strays_of(seconds) == []
        assert group_of(pid) == []


def group_of(pgid: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(path.read_text().rpartition(")")[2].split()[2]) == pgid:
                found.append(int(path.parent.name))
        except (OSError, ValueError):
            continue
    return found


HOST = """
import sys, cloche
sandbox = cloche.create_sandbox(backend="jail", python=sys.argv[1])
result = sandbox.execute(sys.argv[2]).check()
print(sandbox.guest_pid, flush=True)
sandbox.execute("while True: pass", timeout_ms=600_000)
"""


def test_nothing_survives_a_host_that_is_killed(confined: Confined, python: str) -> None:
    seconds = f"1000.{time.monotonic_ns()}"
    command = [sys.executable, "-c", HOST, python, STRAYS.replace("{seconds}", seconds)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(SOURCES)}
    ) as host:
        assert host.stdout is not None
        said = host.stdout.readline()
        assert said, "the host ended early; its complaint is above"
        pid = int(said)
        keeper = parent_of(pid)
        zygote = parent_of(keeper)
        wait_until(lambda: len(strays_of(seconds)) >= 2)
        host.kill()
    wait_until(lambda: all(process_start(each) is None for each in (pid, keeper, zygote)))
    wait_until(lambda: not strays_of(seconds) and not group_of(pid))


def test_a_keeper_that_is_killed_leaves_nothing_and_the_next_session_works(confined: Confined) -> None:
    seconds = f"1000.{time.monotonic_ns()}"
    with confined() as sandbox, confined() as other:
        sandbox.execute(STRAYS.replace("{seconds}", seconds)).check()
        other.execute("kept = 1").check()
        pid = sandbox.guest_pid
        assert pid is not None
        os.kill(parent_of(pid), signal.SIGKILL)
        wait_until(lambda: process_start(pid) is None and not strays_of(seconds) and not group_of(pid))
        with pytest.raises(cloche.SessionLostError):
            sandbox.execute("1")
        assert value(sandbox, "2") == "2"
        assert value(other, "kept") == "1"


def test_a_zygote_that_is_killed_is_replaced_and_its_sessions_end(confined: Confined) -> None:
    with confined() as sandbox:
        sandbox.execute("1").check()
        pid = sandbox.guest_pid
        assert pid is not None
        keeper = parent_of(pid)
        os.kill(parent_of(keeper), signal.SIGKILL)
        wait_until(lambda: process_start(pid) is None and process_start(keeper) is None)
        with pytest.raises(cloche.SessionLostError):
            sandbox.execute("1")
        assert value(sandbox, "2") == "2"


def test_a_fork_bomb_is_bounded_and_leaves_the_user_room(confined: Confined) -> None:
    bomb = (
        "import os, time\nmade = 0\ntry:\n    for _ in range(400):\n        if os.fork() == 0:\n"
        "            time.sleep(60)\n            os._exit(0)\n        made += 1\nexcept OSError:\n    pass\nmade < 200"
    )
    with confined() as sandbox:
        assert value(sandbox, bomb) == "True"
        assert subprocess.run(["/bin/true"]).returncode == 0


def test_a_file_cannot_grow_over_the_quota(confined: Confined) -> None:
    with confined(workspace_bytes=100_000) as sandbox:
        result = sandbox.execute("open('x', 'wb', 0).write(bytes(200_000))\nopen('x', 'ab', 0).write(b'more')")
    assert result.exception is not None
    assert "too large" in result.exception.message


def test_a_worker_that_crashes_leaves_its_files(confined: Confined) -> None:
    with confined() as sandbox:
        sandbox.execute("import os\nopen('x', 'w').write('kept')\nos._exit(1)")
        assert value(sandbox, "open('x').read()") == "'kept'"
        sandbox.reset()
        assert value(sandbox, "import os\nos.listdir('.')") == "[]"


def test_a_given_folder_is_the_workspace_of_an_ordinary_user(confined: Confined, tmp_path: Path) -> None:
    sandbox = confined(workspace=tmp_path)
    if os.getuid() == 0:
        with sandbox, pytest.raises(cloche.StartError, match="cannot be given to the jail") as caught:
            sandbox.execute("1")
        assert "ordinary user" in str(caught.value.remedy)
        return
    with sandbox:
        assert sandbox.execute("open('made', 'w').write('x')").files_created == ("made",)
    assert (tmp_path / "made").read_text() == "x"


def test_a_stronger_wall_is_refused_with_what_to_do(confined: Confined) -> None:
    with confined(minimum_isolation="sealed") as sandbox:
        with pytest.raises(
            cloche.IsolationError, match="jail gives CONFINED here; the policy demands SEALED"
        ) as caught:
            sandbox.execute("1")
        assert "CLOCHE_MASK_LAYERS" in str(caught.value.remedy)
    assert confined(minimum_isolation="confined").execute("1").value == "1"


def test_preloaded_modules_leave_no_files(confined: Confined, tmp_path: Path) -> None:
    with confined() as sandbox:
        sandbox.execute("1").check()
    with confined(preload=("json", "sqlite3")) as sandbox:
        wait_until(lambda: value(sandbox, "1") == "1")
        before = set(Path(tempfile.gettempdir()).glob("cloche-imports-*"))

    def imported() -> bool:
        with confined(preload=("json", "sqlite3")) as later:
            return value(later, "import sys\n'sqlite3' in sys.modules") == "True"

    wait_until(imported)
    assert set(Path(tempfile.gettempdir()).glob("cloche-imports-*")) <= before


def test_sessions_start_again_after_their_folder_was_cleared_away(confined: Confined) -> None:
    with confined() as sandbox:
        sandbox.execute("1").check()
        shutil.rmtree(os.environ["CLOCHE_SESSIONS_DIR"])
        with confined() as later:
            assert value(later, "open('x', 'w').write('1')") == "1"


@pytest.mark.skipif(os.getuid() != 0, reason="an ordinary user needs no rights over others")
def test_a_root_whose_namespace_knows_no_other_user_is_told(python: str) -> None:
    code = f"import cloche\ntry:\n    cloche.create_sandbox(backend='jail', python={python!r}).execute('1')\n"
    code += "except cloche.StartError as error:\n    print(error)"
    run = subprocess.run(
        ["unshare", "--user", "--map-root-user", sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(SOURCES)}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert "knows no other user" in run.stdout, run.stderr
    assert "remedy: run as an ordinary user" in run.stdout


def test_what_the_keeper_does_for_a_guest_of_bounded_cpu_is_bounded_too(confined: Confined) -> None:
    if "cpus" in probe_backends()["jail"].lacking:
        pytest.skip("the CPU of a session cannot be bounded here")
    spend = """
import os, time
open("f", "w").close()
end = time.monotonic() + 1.0
while time.monotonic() < end:
    os.chmod("f", 0o600)
"""
    with confined(cpus=0.25) as sandbox:
        sandbox.execute("1").check()
        pid = sandbox._session.guest.channel.pid  # type: ignore[union-attr]  # the worker, whose parent is the keeper
        keeper = parent_of(pid or 0)
        before, began = cpu_seconds(keeper) or 0.0, time.monotonic()
        sandbox.execute(spend).check()
        share = ((cpu_seconds(keeper) or 0.0) - before) / (time.monotonic() - began)
    assert share < 0.15, share
