"""What only the jail promises: a sealed view, warm sessions, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.jail.sessions import SOURCES, USER_ID, jail

import cloche
from cloche.backends.jail.hierarchies import NoGroups, find
from cloche.conformance.waiting import wait_until
from cloche.session.processes import process_start


def test_a_result_names_the_tier_and_the_layers() -> None:
    with jail() as sandbox:
        result = sandbox.execute("1")
    assert result.isolation >= cloche.Isolation.SEALED
    assert {"namespaces", "network", "view", "seccomp", "capabilities"} <= set(result.layers)


def test_only_the_view_exists() -> None:
    with jail() as sandbox:
        seen = sandbox.execute(
            "import os\n"
            "(os.path.exists('/home'), os.path.exists('/var'), os.path.exists('/etc/shadow'), os.listdir('/run'))"
        )
    assert seen.value == "(False, False, False, ['cloche'])"


def test_system_and_libraries_cannot_be_written() -> None:
    probe = (
        "import os\n[name for name in ('/', '/usr', '/etc', os.path.dirname(os.__file__)) if os.access(name, os.W_OK)]"
    )
    with jail() as sandbox:
        assert sandbox.execute(probe).value == "[]"


def test_a_user_who_tries_the_network_is_told_that_it_is_off() -> None:
    with jail() as sandbox:
        result = sandbox.execute("import urllib.request\nurllib.request.urlopen('http://127.0.0.1:9/')")
    assert result.guidance is not None
    assert "network is off" in result.guidance


def test_sessions_do_not_see_each_other() -> None:
    with jail() as one, jail() as other:
        one.execute("open('secret', 'w').write('x'); open('/tmp/secret', 'w').write('x')").check()
        seen = other.execute("import os\nos.path.exists('secret'), os.path.exists('/tmp/secret'), os.listdir('/proc')")
        assert seen.value is not None
        assert seen.value.startswith("(False, False, ")


def test_no_session_gets_what_another_left() -> None:
    seen = set()
    for number in range(6):
        with jail() as sandbox:
            assert sandbox.list_variables() == {}
            assert sandbox.list_files() == []
            sandbox.execute(f"mine = {number}\nopen('f', 'w').write('x')").check()
            seen.add(sandbox.guest_pid)
    assert len(seen) == 6


def test_the_first_session_does_not_wait_for_imports_and_later_ones_have_them() -> None:
    pytest.importorskip("numpy")
    loaded = "import sys\n'numpy' in sys.modules"
    with jail() as sandbox:
        assert sandbox.execute(loaded).value == "False"
        assert sandbox.execute("import numpy\nint(numpy.arange(4).sum())").value == "6"

    def warm() -> bool:
        with jail() as later:
            return later.execute(loaded).value == "True"

    wait_until(warm)


def test_random_numbers_of_numpy_differ_between_sessions() -> None:
    pytest.importorskip("numpy")
    drawn = set()
    for _ in range(4):
        with jail() as sandbox:
            drawn.add(sandbox.execute("import numpy\nnumpy.random.random()").value)
    assert len(drawn) == 4


def test_the_guest_is_in_none_of_the_groups_of_the_host() -> None:
    if os.getuid() != 0:
        pytest.skip("only root can leave groups")
    code = "import cloche\nprint(cloche.run('import os; os.getgroups()', backend='jail').value)"
    done = subprocess.run(
        [sys.executable, "-c", code], extra_groups=[4, 27], env={**os.environ, "PYTHONPATH": str(SOURCES)},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout == "[]\n", done.stderr


def test_the_workspace_has_a_quota() -> None:
    with jail(workspace_bytes=1_000_000) as sandbox:
        result = sandbox.execute("for n in range(4):\n    open(f'f{n}', 'wb').write(bytes(500_000))")
    assert result.exception is not None
    assert "No space left" in result.exception.message


def test_processes_are_bounded_in_each_session() -> None:
    bomb = (
        "import os, time\nmade = 0\ntry:\n    for _ in range(200):\n"
        "        if os.fork() == 0:\n            time.sleep(60)\n"
        "            os._exit(0)\n        made += 1\nexcept OSError:\n    pass\nmade < 64"
    )
    with jail() as sandbox, jail() as other:
        assert sandbox.execute(bomb).value == "True"
        assert other.execute("import subprocess\nsubprocess.run(['true']).returncode").value == "0"


def test_files_of_a_given_folder_belong_to_its_owner(tmp_path: Path) -> None:
    with jail(workspace=tmp_path) as sandbox:
        assert sandbox.execute("open('made', 'w').write('x')").files_created == ("made",)
    assert (tmp_path / "made").stat().st_uid == tmp_path.stat().st_uid


def test_no_set_id_file_can_be_left_in_a_given_folder(tmp_path: Path) -> None:
    with jail(workspace=tmp_path) as sandbox:
        result = sandbox.execute("import os\nopen('x', 'w').close()\nos.chmod('x', 0o4755)")
    assert result.outcome == "error"
    assert not (tmp_path / "x").stat().st_mode & 0o6000


def test_a_jail_that_died_is_replaced() -> None:
    with jail() as sandbox:
        sandbox.execute("1").check()
        pid = sandbox.guest_pid
        assert pid is not None
        status = Path(f"/proc/{pid}/status").read_text()
        zygote = int(status.split("PPid:")[1].split()[0])
        init = int(Path(f"/proc/{zygote}/status").read_text().split("PPid:")[1].split()[0])
        os.kill(zygote, signal.SIGKILL)
        wait_until(lambda: process_start(pid) is None and process_start(init) is None)
        with pytest.raises(cloche.SessionLostError):
            sandbox.execute("2")
        assert sandbox.execute("3").value == "3"


HOST = """
import sys, cloche
sandbox = cloche.create_sandbox(backend="jail")
sandbox.execute("import subprocess; subprocess.Popen(['sleep', '1000.{mark}'])").check()
print(sandbox.guest_pid, flush=True)
sandbox.execute("while True: pass", timeout_ms=600_000)
"""


def test_nothing_survives_a_host_that_is_killed() -> None:
    mark = f"{os.getpid()}{time.monotonic_ns()}"
    host = subprocess.Popen(
        [sys.executable, "-c", HOST.replace("{mark}", mark)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
    )
    with host:
        assert host.stdout is not None
        pid = int(host.stdout.readline())
        host.kill()
    wait_until(lambda: process_start(pid) is None and not _running(mark))


def _running(word: str) -> bool:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in path.read_bytes():
                return True
        except OSError:
            continue
    return False


USER = """
import json, os, cloche
with cloche.create_sandbox(backend="jail") as sandbox:
    first = sandbox.execute("import os\\nprint(os.getuid(), os.getpid())")
    sandbox.put_file("in", b"x")
    second = sandbox.execute("open('out', 'w').write(open('in').read())")
os.mkdir("given")
with cloche.create_sandbox(backend="jail", workspace="given") as sandbox:
    sandbox.execute("open('theirs', 'w').write('x')").check()
    print(json.dumps([first.stdout, first.isolation.name, first.error, list(second.files_created), second.error]))
print(os.listdir("given"))
"""


def test_an_ordinary_user_gets_the_same_wall(as_user: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    done = as_user(USER)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert json.loads(first) == ["1000 2\n", "SEALED", None, ["out"], None]
    assert second == "['theirs']"


def test_an_ordinary_user_who_was_given_a_cgroup_is_metered(
    as_user: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    try:
        trees = find()
    except NoGroups as exc:
        pytest.skip(f"no cgroups here: {exc}")
    if trees[0].version != 1:
        pytest.skip("in version 2 groups are given by a manager of them")
    given = [Path(tree.parent, f"given-{os.getpid()}") for tree in trees]
    for place in given:
        place.mkdir()
        for path in (place, place / "tasks", place / "cgroup.procs"):
            os.chown(path, USER_ID, USER_ID)
    # the shell goes into the groups, and becomes the user's process
    enter = "".join(f"echo 0 > {place}/tasks; " for place in given)
    become = f'exec setpriv --reuid {USER_ID} --regid {USER_ID} --clear-groups "$@"'
    try:
        done = as_user(USER, "sh", "-c", enter + become, "sh")
        left = [path for place in given for path in place.glob("*/")]
    finally:
        for place in given:
            place.rmdir()
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[0]) == ["1000 2\n", "METERED", None, ["out"], None]
    assert left == []
