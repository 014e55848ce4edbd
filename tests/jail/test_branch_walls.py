"""What a branch is protected from, and what not: exactly what SECURITY.md says of branches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
from tests.jail.sessions import jail, value

import cloche

LAYERS = 15
"""How often a process can step into one more Landlock domain, after its first."""
PROGRAM = """
import os, subprocess
open('/app/secret', 'w').write('in a file')
program = subprocess.Popen(['sleep', '600'], env={'SECRET': 'in the environment'}, cwd='/app')
"""
LOOK = """
import glob, os
def attempt(function, *args):
    try:
        return function(*args)
    except OSError:
        return None
def read(path):
    with open(path, 'rb') as file:
        return file.read(4096)
def write(path):
    os.close(os.open(path, os.O_RDWR))
    return b'SECRET'
seen = []
for process in glob.glob('/proc/[0-9]*'):
    for name in ('environ', 'mem', 'maps', 'root/app/secret', 'cwd/secret'):
        action = write if name == 'mem' else read
        found = attempt(action, process + '/' + name)
        if found is not None and (b'SECRET' in found or b'in a file' in found or b'sleep' in found):
            seen.append(name)
"""
IMPOSTOR = """
import gc, os
gc.unfreeze()
branches = next(each for each in gc.get_objects() if type(each).__name__ == 'Branches')
def fork_here(namespaces, key):
    pid = os.fork()
    if not pid:
        os.setsid()
    return pid
type(branches).branch.__globals__['syscalls'].fork_away = fork_here
"""


@pytest.fixture
def session() -> Iterator[cloche.SessionSandbox]:
    with jail() as sandbox:
        if "landlock" not in sandbox.execute("kept = 7").check().layers:
            pytest.skip("there is no Landlock here")
        yield sandbox


def test_a_session_cannot_look_into_what_its_branch_started(session: cloche.SessionSandbox) -> None:
    with session.fork() as branch:
        branch.execute(PROGRAM).check()
        assert value(session, LOOK + "seen") == "[]"


def test_nor_after_it_has_returned_to_a_savepoint_from_before_the_branch(session: cloche.SessionSandbox) -> None:
    session.savepoint()
    with session.fork() as branch:
        branch.execute(PROGRAM).check()
        session.execute("kept = 8").check()
        session.undo()
        assert value(session, "kept") == "7"
        assert value(session, LOOK + "seen") == "[]"


def test_a_session_still_looks_into_what_it_starts_itself(session: cloche.SessionSandbox) -> None:
    with session.fork():
        session.execute(PROGRAM).check()
        assert set(eval(value(session, LOOK + "seen") or "")) >= {"environ", "root/app/secret", "cwd/secret"}


def test_a_session_ends_what_it_had_started_before_it_was_branched(session: cloche.SessionSandbox) -> None:
    session.execute(PROGRAM).check()
    with session.fork():
        assert value(session, "program.kill(), program.wait()") == "(None, -9)"


def test_files_are_moved_and_programs_started_as_before_a_branch(session: cloche.SessionSandbox) -> None:
    with session.fork():
        session.execute("import os, subprocess\nos.makedirs('a'); os.makedirs('b'); open('a/x', 'w').close()").check()
        session.execute("os.rename('a/x', 'b/x'); os.link('b/x', 'a/y')").check()
        assert value(session, "subprocess.run(['ls', 'a'], capture_output=True).stdout") == r"b'y\n'"


def test_any_number_of_branches_between_two_cells_is_one_step(session: cloche.SessionSandbox) -> None:
    for _ in range(2):
        branches = [session.fork() for _ in range(LAYERS + 1)]
        assert value(session, "kept") == "7"
        for branch in branches:
            branch.destroy()


def test_branches_that_have_ended_cost_no_step(session: cloche.SessionSandbox) -> None:
    for _ in range(LAYERS + 2):
        with session.fork() as branch:
            assert value(branch, "kept") == "7"
        assert value(session, "kept") == "7"


def test_a_session_that_can_step_away_no_further_is_not_branched_and_told_what_to_do(
    session: cloche.SessionSandbox,
) -> None:
    branches = []
    for _ in range(LAYERS):
        branches.append(session.fork())
        assert value(session, "kept") == "7"
    with pytest.raises(cloche.BranchError, match="no more layers") as raised:
        session.fork()
    assert "branch from an earlier branch" in str(raised.value.remedy)
    assert value(session, "kept") == "7"
    with branches[0].fork() as again:
        assert value(again, "kept") == "7"
    for branch in branches:
        branch.destroy()


def test_a_process_in_the_sessions_own_seat_is_not_taken_for_a_branch(session: cloche.SessionSandbox) -> None:
    with session.fork() as branch:
        for sandbox in (session, branch):
            sandbox.execute(IMPOSTOR).check()
            with pytest.raises(cloche.BranchError, match="not what was asked for"):
                sandbox.fork()
            assert value(sandbox, "kept") == "7"


def test_a_copy_that_shares_a_process_group_is_not_accepted(session: cloche.SessionSandbox) -> None:
    session.execute(IMPOSTOR.replace("os.setsid()", "pass")).check()
    with pytest.raises(cloche.BranchError):
        session.savepoint()


def test_returning_beside_a_living_branch_is_one_step_however_often(session: cloche.SessionSandbox) -> None:
    session.savepoint()
    with session.fork() as branch:
        for number in range(LAYERS + 2):
            session.execute(f"kept = {number}").check()
            session.undo()
        assert value(session, "kept") == "7"
        branch.execute(PROGRAM).check()
        assert value(session, LOOK + "seen") == "[]"


@pytest.mark.parametrize("folder", ["/", "/app", "/run", "/app/gone"])
def test_an_open_folder_leads_into_the_branchs_own_files(session: cloche.SessionSandbox, folder: str) -> None:
    session.execute(
        f"import os\nos.makedirs('/app/gone'); open('/app/mine', 'w').write('the session')\n"
        f"folder = os.open({folder!r}, os.O_RDONLY); place = os.open({folder!r}, os.O_PATH); os.rmdir('/app/gone')"
    ).check()
    way = {"/": "app/mine", "/app": "mine", "/run": "../app/mine", "/app/gone": "../mine"}[folder]
    with session.fork() as branch:
        branch.execute("open('/app/mine', 'w').write('the branch')").check()
        code = (
            "def look(folder):\n"
            "    try:\n"
            f"        return open(os.open({way!r}, os.O_RDONLY, dir_fd=folder)).read()\n"
            "    except OSError:\n"
            "        return 'nothing'\n"
            "look(folder), look(place)"
        )
        expected = "nothing" if folder == "/app/gone" else "the branch"
        assert value(branch, code) == repr((expected, expected))
        assert session.get_file("mine") == b"the session"


def test_a_file_without_a_name_is_copied(session: cloche.SessionSandbox) -> None:
    session.execute("import tempfile; t = tempfile.TemporaryFile(); t.write(b'abc' * 9); t.flush(); t.seek(3)").check()
    with session.fork() as branch:
        assert value(branch, "t.read(3), t.tell(), t.write(b'branch'), t.flush()") == "(b'abc', 6, 6, None)"
        assert value(session, "t.tell(), t.read()") == repr((3, b"abc" * 8))


# -- what stays open ---------------------------------------------------------------------------------------------------


def test_a_session_can_signal_its_branch(session: cloche.SessionSandbox) -> None:
    with session.fork() as branch:
        branch.execute(PROGRAM).check()
        session.execute("import os, signal; os.kill(-1, signal.SIGKILL)").check()
        with suppress(cloche.SessionLostError):
            assert branch.execute("kept").outcome == "killed"
        assert value(session, "kept") == "7"


def test_what_was_open_at_the_fork_is_one_object(session: cloche.SessionSandbox) -> None:
    session.execute(
        "import mmap, os\nreader, writer = os.pipe()\n"
        "with open('mapped', 'wb+') as file:\n"
        "    file.truncate(4096); shared = mmap.mmap(file.fileno(), 4096)"
    ).check()
    with session.fork() as branch:
        branch.execute("os.write(writer, b'through the pipe'); shared[:3] = b'map'").check()
        assert value(session, "os.read(reader, 99), shared[:3]") == "(b'through the pipe', b'map')"


def test_a_program_from_before_the_branch_can_look_into_what_the_branch_started(session: cloche.SessionSandbox) -> None:
    session.execute(
        "import subprocess\n"
        "shell = subprocess.Popen(['sh'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)"
    ).check()
    with session.fork() as branch:
        branch.execute(PROGRAM).check()
        ask = "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\\\0' '\\\\n' | grep -c SECRET; echo end"
        assert value(session, f"print({ask!r}, file=shell.stdin), shell.stdout.readline()") == r"(None, '1\n')"


LISTEN = "import socket; listener = socket.socket(socket.AF_UNIX); listener.bind('\\0meeting'); listener.listen()"
CONNECT = """
import socket
with socket.socket(socket.AF_UNIX) as line:
    outcome = line.connect_ex('\\0meeting')
"""


def test_names_of_abstract_sockets_lead_neither_to_a_branch_nor_out_of_it(session):
    with session.fork() as branch, session.fork() as other, branch.fork() as below:
        branch.execute(LISTEN).check()
        for each in (session, other, below):
            each.execute(CONNECT).check()
            assert each.get_variable("outcome") != 0
            each.execute(LISTEN).check()  # the name is not taken


def test_a_branch_that_begins_anew_has_its_own_network(session):
    with session.fork() as branch:
        network = value(branch, "import os; os.readlink('/proc/self/ns/net')")
        branch.execute("os._exit(1)")
        assert value(branch, "import os; os.readlink('/proc/self/ns/net')") == network
        assert value(session, "import os; os.readlink('/proc/self/ns/net')") != network
