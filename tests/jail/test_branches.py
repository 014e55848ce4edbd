"""A live session is branched: its state goes along, and from then on nothing is shared."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from tests.jail.sessions import jail, value

import cloche
from cloche.backends.jail.branching import MAX_LEVEL
from cloche.conformance.waiting import wait_until

KILL_ITSELF = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"


@pytest.fixture
def session() -> Iterator[cloche.SessionSandbox]:
    with jail() as sandbox:
        sandbox.execute("numbers = [1, 2]").check()
        yield sandbox


def test_a_branch_has_the_variables_and_changes_stay_on_their_side(session: cloche.SessionSandbox) -> None:
    with session.fork() as branch:
        branch.execute("numbers.append(3)").check()
        session.execute("numbers.append(9)").check()
        assert value(branch, "numbers") == "[1, 2, 3]"
        assert value(session, "numbers") == "[1, 2, 9]"


def test_a_branch_has_a_copy_of_the_files(session: cloche.SessionSandbox) -> None:
    session.execute("import os; os.makedirs('deep/er'); open('deep/er/a', 'w').write('one')").check()
    with session.fork() as branch:
        result = branch.execute("open('deep/er/a', 'a').write(' two'); open('own', 'w').close()").check()
        assert result.files_created == ("own",)
        assert result.files_modified == ("deep/er/a",)
        assert branch.get_file("deep/er/a") == b"one two"
        assert session.get_file("deep/er/a") == b"one"
        assert [file.path for file in session.list_files()] == ["deep/er/a"]


def test_a_file_that_is_open_goes_on_in_the_copy(session: cloche.SessionSandbox) -> None:
    session.execute("log = open('log', 'w'); log.write('start;')").check()
    with session.fork() as branch:
        branch.execute("log.write('branch;'); log.flush()").check()
        session.execute("log.write('session;'); log.flush()").check()
        assert branch.get_file("log") == b"start;branch;"
        assert session.get_file("log") == b"start;session;"


def test_a_temporary_file_goes_along(session: cloche.SessionSandbox) -> None:
    session.execute("import tempfile; t = tempfile.NamedTemporaryFile('w+'); t.write('kept'); t.flush()").check()
    with session.fork() as branch:
        assert value(branch, "open(t.name).read()") == "'kept'"
        branch.execute("open(t.name, 'w').write('other')").check()
        assert value(session, "open(t.name).read()") == "'kept'"


def test_odd_files_are_copied_as_they_are(session: cloche.SessionSandbox) -> None:
    session.execute(
        "import os\n"
        "os.symlink('/etc/passwd', 'link'); os.mkfifo('fifo'); open('new\\nline', 'w').write('x')\n"
        "with open('sparse', 'wb') as f: f.truncate(200 << 20)\n"
        "os.chmod(os.open('tool', os.O_CREAT), 0o755)"
    ).check()
    with session.fork() as branch:
        assert value(branch, "os.readlink('link')") == "'/etc/passwd'"
        assert value(branch, "import stat; stat.S_ISFIFO(os.stat('fifo').st_mode)") == "True"
        assert value(branch, "open('new\\nline').read()") == "'x'"
        assert value(branch, "(os.stat('sparse').st_size, os.stat('sparse').st_blocks)") == f"({200 << 20}, 0)"
        assert value(branch, "oct(os.stat('tool').st_mode & 0o777)") == "'0o755'"


def test_the_working_directory_goes_along(session: cloche.SessionSandbox) -> None:
    session.execute("import os; os.mkdir('inner'); os.chdir('inner')").check()
    with session.fork() as branch:
        assert value(branch, "os.getcwd()") == "'/app/inner'"


def test_several_branches_are_made_at_once_and_can_run_side_by_side(session: cloche.SessionSandbox) -> None:
    branches = session.fork_many(5)
    answers: dict[int, str | None] = {}

    def work(number: int) -> None:
        answers[number] = value(branches[number], f"numbers.append({number}); sum(numbers)")

    workers = [threading.Thread(target=work, args=(number,)) for number in range(5)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for branch in branches:
        branch.destroy()
    assert answers == {number: str(3 + number) for number in range(5)}


def test_a_session_has_more_branches_than_processes_where_a_group_counts_those() -> None:
    with jail(processes=8) as session:
        session.execute("x = 1").check()
        if session.isolation < cloche.Isolation.METERED:
            pytest.skip("there are no cgroups here")
        branches = session.fork_many(10)
        assert value(branches[-1], "x") == "1"
        bomb = "import subprocess\nkept = [subprocess.Popen(['sleep', '60']) for _ in range(12)]"
        assert branches[0].execute(bomb).exception is not None, "what a branch may have itself is bounded as before"
        for branch in branches:
            branch.destroy()


def test_too_many_branches_for_a_wall_without_groups_name_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOCHE_MASK_LAYERS", "cgroup")
    with jail(processes=8) as session:
        session.execute("x = 1").check()
        with pytest.raises(cloche.BranchError, match="each branch counts as two") as caught:
            session.fork_many(10)
        assert "policy.processes" in str(caught.value.remedy)
        assert value(session, "x") == "1"


def test_a_branch_can_be_branched(session: cloche.SessionSandbox) -> None:
    with session.fork() as child:
        child.execute("numbers.append(3); open('f', 'w').write('child')").check()
        with child.fork() as grandchild:
            grandchild.execute("numbers.append(4)").check()
            assert value(grandchild, "(numbers, open('f').read())") == "([1, 2, 3, 4], 'child')"
            assert value(child, "numbers") == "[1, 2, 3]"


def test_branches_outlive_the_session_that_they_came_from(session: cloche.SessionSandbox) -> None:
    child = session.fork()
    grandchild = child.fork()
    session.destroy()
    child.destroy()
    assert value(grandchild, "sum(numbers)") == "3"
    with grandchild.fork() as another:
        assert value(another, "numbers") == "[1, 2]"
    grandchild.destroy()


@pytest.mark.parametrize("end", [KILL_ITSELF, "import ctypes; ctypes.string_at(0)", "import os; os._exit(3)"])
def test_a_branch_that_dies_leaves_the_others(end: str) -> None:
    with jail() as session:
        session.execute("numbers = [1, 2]").check()
        first, second = session.fork_many(2)
        with first, second:
            died = first.execute(end)
            assert died.session_state == "reset"
            assert value(second, "numbers") == "[1, 2]"
            assert value(session, "numbers") == "[1, 2]"


def test_how_a_branch_died_is_told(session: cloche.SessionSandbox) -> None:
    with session.fork() as branch, branch.fork() as inner:
        assert "SIGKILL" in (inner.execute(KILL_ITSELF).error or "")
        assert branch.execute("import os; os._exit(7)").exit_code == 7


def test_a_session_that_dies_leaves_its_branches(session: cloche.SessionSandbox) -> None:
    with session.fork() as branch:
        assert session.execute(KILL_ITSELF).session_state == "reset"
        assert value(branch, "numbers") == "[1, 2]"
        assert value(session, "1 + 1") == "2"


def test_a_branch_that_died_starts_again_among_its_files_and_can_be_branched(session: cloche.SessionSandbox) -> None:
    with session.fork() as branch:
        branch.execute("open('kept', 'w').write('yes')").check()
        branch.execute(KILL_ITSELF)
        assert value(branch, "again = 5; open('kept').read()") == "'yes'"
        with branch.fork() as inner:
            assert value(inner, "(again, open('kept').read())") == "(5, 'yes')"


def test_a_branch_that_runs_too_long_is_stopped_alone(session: cloche.SessionSandbox) -> None:
    with session.fork() as branch:
        assert branch.execute("while True: pass", timeout_ms=200).outcome == "timeout"
        assert value(branch, "numbers") == "[1, 2]"
        hopeless = "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))\nwhile True: pass"
        assert branch.execute(hopeless, timeout_ms=200).session_state == "reset"
        assert value(session, "numbers") == "[1, 2]"


def test_processes_that_a_branch_left_end_with_it(session: cloche.SessionSandbox) -> None:
    branch = session.fork()
    branch.execute(
        "import subprocess\nfor _ in range(3): subprocess.Popen(['sleep', '1000'], start_new_session=True)"
    ).check()
    pid = branch.guest_pid
    left = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    assert len(left) == 3
    branch.destroy()
    assert not [child for child in (pid, *left) if Path(f"/proc/{child}").exists()]


def test_a_session_with_threads_is_not_branched_and_goes_on(session: cloche.SessionSandbox) -> None:
    session.execute(
        "import threading; over = threading.Event()\nt = threading.Thread(target=over.wait, name='watcher'); t.start()"
    ).check()
    with pytest.raises(cloche.BranchError) as caught:
        session.fork()
    assert "watcher" in str(caught.value.cause)
    assert caught.value.remedy
    session.execute("over.set(); t.join()").check()
    with session.fork() as branch:
        assert value(branch, "numbers") == "[1, 2]"


def test_files_that_do_not_fit_are_refused_and_nothing_is_lost() -> None:
    with jail(workspace_bytes=1 << 20) as session:
        session.execute("import tempfile; open('a', 'wb').write(bytes(900_000))").check()
        with session.fork() as branch:  # just fits
            assert len(branch.get_file("a")) == 900_000


def test_too_many_files_are_refused_and_nothing_is_lost(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(3 << 20))
    with jail(workspace=tmp_path, workspace_bytes=1 << 20) as session:
        session.execute("x = 1").check()
        with pytest.raises(cloche.BranchError, match="do not fit"):
            session.fork()
        assert value(session, "x") == "1"


def test_a_branch_of_a_given_folder_works_on_a_copy_of_it(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("original")
    with jail(workspace=tmp_path) as session, session.fork() as branch:
        branch.execute("open('data', 'w').write('changed'); open('new', 'w').close()").check()
        assert branch.get_file("data") == b"changed"
        assert (tmp_path / "data").read_text() == "original"
        assert sorted(os.listdir(tmp_path)) == ["data"]


def test_a_branch_deeper_than_the_kernel_allows_is_refused_with_a_way_out() -> None:
    branches = [jail()]
    try:
        while len(branches) < MAX_LEVEL:
            branches.append(branches[-1].fork())
        with pytest.raises(cloche.BranchError) as caught:
            branches[-1].fork()
        assert caught.value.remedy
        assert value(branches[-1], "6 * 7") == "42"
    finally:
        for branch in branches:
            branch.destroy()


def test_each_branch_makes_its_own_bridge_calls() -> None:
    asked: list[tuple[int | None, str]] = []

    def answer(prompt: str) -> str:
        asked.append((cloche.calling_sandbox(), prompt))
        return prompt.upper()

    with jail(on_llm_query=answer) as session:
        session.execute("1").check()
        first, second = session.fork_many(2)
        with first, second:
            assert value(first, "llm_query('one')") == "'ONE'"
            assert value(second, "llm_query('two')") == "'TWO'"
            assert value(session, "llm_query('zero')") == "'ZERO'"
            assert asked == [(first.id, "one"), (second.id, "two"), (session.id, "zero")]
    assert len({session.id, first.id, second.id}) == 3


def test_output_of_one_is_not_the_others(session: cloche.SessionSandbox) -> None:
    session.execute("import sys; sys.stdout.write('held')").check()
    with session.fork() as branch:
        assert branch.execute("print('branch'); import os; os.write(2, b'error')").stderr == "error"
        assert session.execute("print('session')").stdout == "session\n"


def test_context_and_tools_go_along() -> None:
    with jail(tools={"double": lambda number: number * 2}) as session:
        session.initialize("a long text")
        with session.fork() as branch:
            assert value(branch, "(context, double(21))") == "('a long text', 42)"
            branch.reset()
            assert value(branch, "(context, double(4))") == "('a long text', 8)"


def test_random_numbers_differ_between_branches(session: cloche.SessionSandbox) -> None:
    session.execute("import random, numpy; own = random.Random(7)").check()
    drawn = "(random.random(), float(numpy.random.random()))"
    first, second = session.fork_many(2)
    with first, second:
        assert value(first, drawn) != value(second, drawn)
        assert value(first, "own.random()") == value(second, "own.random()")  # an object of the user's is carried


def test_event_loops_of_branches_do_not_disturb_each_other(session: cloche.SessionSandbox) -> None:
    session.execute("import asyncio\nqueue = asyncio.Queue()\nawait queue.put('carried')").check()
    pipe = (
        "r, w = os.pipe(); got = asyncio.Event(); loop = asyncio.get_running_loop()\n"
        "loop.add_reader(r, got.set); os.write(w, b'x'); await got.wait(); loop.remove_reader(r)\n"
        "await queue.get()"
    )
    with session.fork() as branch:
        assert value(branch, "import os\n" + pipe) == "'carried'"
        assert value(session, "import os\n" + pipe) == "'carried'"
        assert value(branch, "await asyncio.to_thread(lambda: 5)") == "5"


def test_a_large_state_goes_along(session: cloche.SessionSandbox) -> None:
    session.execute("import numpy; array = numpy.arange(4_000_000)").check()
    with session.fork() as branch:
        branch.execute("array[:] = 0").check()
        assert value(session, "int(array[-1])") == "3999999"


def test_the_session_can_be_forked_before_its_first_cell() -> None:
    with jail() as session, session.fork() as branch:
        assert value(branch, "1 + 1") == "2"


def test_a_reset_leaves_the_branches(session: cloche.SessionSandbox) -> None:
    with session.fork() as branch:
        session.reset()
        assert value(session, "'numbers' in globals()") == "False"
        assert value(branch, "numbers") == "[1, 2]"
        with session.fork() as other:
            assert value(other, "1") == "1"


def test_all_of_a_family_can_branch_at_the_same_time(session: cloche.SessionSandbox) -> None:
    family = [session, *session.fork_many(3)]
    born: list[cloche.SessionSandbox] = []
    trouble: list[BaseException] = []

    def breed(parent: cloche.SessionSandbox) -> None:
        try:
            born.extend(parent.fork() for _ in range(4))
        except BaseException as exc:
            trouble.append(exc)
            raise

    threads = [threading.Thread(target=breed, args=(parent,)) for parent in family]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert trouble == []
    assert [value(child, "numbers") for child in born] == ["[1, 2]"] * 16
    for sandbox in [*born, *family]:
        sandbox.destroy()


def test_a_host_that_forks_leaves_its_branches_to_the_parent(session: cloche.SessionSandbox) -> None:
    with session.fork() as branch:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                branch.destroy()
                session.destroy()
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert value(branch, "numbers") == "[1, 2]"
        assert value(session, "numbers") == "[1, 2]"


def test_no_branches_and_a_wrong_number(session: cloche.SessionSandbox) -> None:
    assert session.fork_many(0) == []
    with pytest.raises(cloche.RequestError):
        session.fork_many(-1)
    with pytest.raises(cloche.RequestError):
        session.fork_many("2")  # type: ignore[arg-type]  # wrong on purpose


def test_a_destroyed_session_cannot_be_forked(session: cloche.SessionSandbox) -> None:
    session.destroy()
    with pytest.raises(cloche.SessionClosedError):
        session.fork()


def test_an_event_loop_can_branch() -> None:
    async def work() -> list[str | None]:
        async with cloche.create_async_sandbox(backend="jail") as session:
            await session.execute("x = [1]; open('f', 'w').write('old')")
            branches = await session.fork_many(3)
            answers = []
            for number, branch in enumerate(branches):
                result = await branch.execute(f"x.append({number}); (x, open('f').read())")
                answers.append(result.value)
                await branch.destroy()
            return answers

    assert anyio.run(work) == ["([1, 0], 'old')", "([1, 1], 'old')", "([1, 2], 'old')"]


# -- what a hostile guest could try ---------------------------------------------------------------


def test_a_branch_sees_only_its_own_processes_and_files(session: cloche.SessionSandbox) -> None:
    session.execute("open('secret', 'w').write('parent')").check()
    with session.fork() as branch, session.fork() as sibling:
        sibling.execute("open('other', 'w').write('sibling')").check()
        seen = value(branch, "import os; sorted(os.listdir('/app')), [p for p in os.listdir('/proc') if p.isdigit()]")
        assert seen is not None
        assert seen.startswith("(['secret'], ['")
        assert seen.count(",") == 1


def test_a_session_cannot_look_into_its_branch(session: cloche.SessionSandbox) -> None:
    with session.fork() as branch:
        branch.execute("open('mine', 'w').write('x')").check()
        reached = value(
            session,
            "import os\nfound = []\n"
            "for p in range(2, 200):\n"
            "    for name in ('root/app/mine', 'mem', 'environ', 'fd', 'cwd'):\n"
            "        try: os.stat(f'/proc/{p}/{name}'); os.open(f'/proc/{p}/{name}', os.O_RDONLY)\n"
            "        except OSError: continue\n"
            "        if p != os.getpid(): found.append((p, name))\n"
            "found",
        )
        assert reached == "[]"


def test_a_branch_has_no_capabilities(session: cloche.SessionSandbox) -> None:
    with session.fork() as branch:
        status = Path(f"/proc/{branch.guest_pid}/status").read_text()
    for line in ("CapInh:\t0000000000000000", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000"):
        assert line in status
    assert "NoNewPrivs:\t1" in status
    assert "Seccomp:\t2" in status


def test_a_guest_enters_no_namespace_by_itself(session: cloche.SessionSandbox) -> None:
    attempt = (
        "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        "def enter(kind):\n"
        "    for name in ('user', 'mnt', 'pid'):\n"
        "        try: fd = os.open(f'/proc/self/ns/{name}', os.O_RDONLY)\n"
        "        except OSError: fd = 0\n"
        "        if libc.setns(fd, kind) == 0: return True\n"
        "    return ctypes.get_errno()\n"
        "[enter(kind) for kind in (0, 0x10000000, 0x20000, 0x20000000)]"
    )
    assert value(session, attempt) == "[1, 1, 1, 1]"
    with session.fork() as branch:  # what was allowed for it has been used up
        assert value(session, attempt) == "[1, 1, 1, 1]"
        assert value(branch, attempt) == "[1, 1, 1, 1]"


def test_descriptors_that_a_guest_kept_lead_to_its_own_copy(session: cloche.SessionSandbox) -> None:
    session.execute("import os; folder = os.open('/app', os.O_RDONLY); open('f', 'w').write('parent')").check()
    with session.fork() as branch:
        branch.execute("fd = os.open('f', os.O_WRONLY | os.O_TRUNC, dir_fd=folder); os.write(fd, b'branch')").check()
        assert session.get_file("f") == b"parent"
        assert branch.get_file("f") == b"branch"


def test_a_guest_that_eats_the_descriptors_of_its_branch_gets_an_error(session: cloche.SessionSandbox) -> None:
    """The line is open to the guest: what it reads from it is missing to its own branch, and to nobody else."""
    session.execute(
        "import os, socket, stat, threading\n"
        "for fd in range(100, 300):\n"
        "    try:\n"
        "        if stat.S_ISSOCK(os.fstat(fd).st_mode) and fd != 200: os.close(fd)\n"
        "    except OSError: pass"
    )
    with pytest.raises(cloche.ClocheError):
        session.fork()


def test_branches_leave_nothing_behind(session: cloche.SessionSandbox) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for branch in session.fork_many(3):
        branch.execute("1").check()
        branch.destroy()
    wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before)
    assert stat.S_ISDIR(os.stat("/proc/self/fd").st_mode)
    assert value(session, "[p for p in __import__('os').listdir('/proc') if p.isdigit()].__len__()") == "1"
