"""A session returns to an earlier state: when it is told to, or because a cell died."""

from __future__ import annotations

from collections.abc import Iterator

import anyio
import pytest
from tests.jail.sessions import jail, value

import cloche

KILL_ITSELF = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"


@pytest.fixture
def session() -> Iterator[cloche.SessionSandbox]:
    with jail() as sandbox:
        sandbox.execute("x = [1]; open('f', 'w').write('one')").check()
        yield sandbox


@pytest.fixture
def protected() -> Iterator[cloche.SessionSandbox]:
    with jail(protect_state=True, grace_ms=200) as sandbox:
        sandbox.execute("x = [1]; open('f', 'w').write('one')").check()
        yield sandbox


STATE = "import os; (x, open('f').read(), sorted(os.listdir()))"
FIRST = "([1], 'one', ['f'])"
CHANGE = "x.append(2); open('f', 'w').write('two'); open('g', 'w').close(); "


def test_undo_returns_to_the_savepoint_with_variables_and_files(session: cloche.SessionSandbox) -> None:
    session.savepoint()
    session.execute(CHANGE).check()
    session.undo()
    assert value(session, STATE) == FIRST


def test_one_can_return_to_a_savepoint_again_and_again(session: cloche.SessionSandbox) -> None:
    session.savepoint()
    for _ in range(40):  # more often than namespaces could be nested
        session.execute(CHANGE).check()
        session.undo()
    assert value(session, STATE) == FIRST


def test_a_later_savepoint_replaces_the_earlier(session: cloche.SessionSandbox) -> None:
    session.savepoint()
    session.execute("x.append(2)").check()
    session.savepoint()
    session.execute("x.append(3)").check()
    session.undo()
    assert value(session, "x") == "[1, 2]"


def test_undo_without_a_savepoint_says_what_to_do(session: cloche.SessionSandbox) -> None:
    with pytest.raises(cloche.BranchError) as caught:
        session.undo()
    assert "savepoint()" in str(caught.value.remedy)
    assert value(session, "x") == "[1]"


def test_undo_brings_a_session_back_that_has_died(session: cloche.SessionSandbox) -> None:
    session.savepoint()
    assert session.execute(CHANGE + KILL_ITSELF).session_state == "reset"
    session.undo()
    assert value(session, STATE) == FIRST


def test_undo_ends_what_was_started_since(session: cloche.SessionSandbox) -> None:
    session.savepoint()
    session.execute("import subprocess; p = subprocess.Popen(['sleep', '1000'], start_new_session=True)").check()
    session.undo()
    assert value(session, "len([p for p in __import__('os').listdir('/proc') if p.isdigit()])") == "1"


def test_random_numbers_are_those_of_the_savepoint(session: cloche.SessionSandbox) -> None:
    session.execute("import random, numpy.random").check()
    session.savepoint()
    drawn = "(random.random(), float(numpy.random.random()))"
    first = value(session, drawn)
    session.undo()
    assert value(session, drawn) == first


def test_a_file_that_was_open_is_where_it_was(session: cloche.SessionSandbox) -> None:
    session.execute("log = open('log', 'w+'); log.write('a'); log.flush()").check()
    session.savepoint()
    session.execute("log.write('bcd'); log.flush()").check()
    session.undo()
    session.execute("log.write('x'); log.flush()").check()
    assert session.get_file("log") == b"ax"


def test_folders_that_were_moved_replaced_or_changed_come_back(session: cloche.SessionSandbox) -> None:
    session.execute("import os; os.makedirs('a/b'); open('a/b/c', 'w').write('1'); os.mkdir('e')").check()
    session.savepoint()
    session.execute(
        "os.rename('a/b', 'moved'); os.chmod('e', 0o700); os.rmdir('e'); open('e', 'w').close(); os.chmod('a', 0o711)"
    ).check()
    session.undo()
    assert value(session, "sorted((d, sorted(n), sorted(f)) for d, n, f in os.walk('.'))") == (
        "[('.', ['a', 'e'], ['f']), ('./a', ['b'], []), ('./a/b', [], ['c']), ('./e', [], [])]"
    )
    assert session.get_file("a/b/c") == b"1"


def test_a_branch_has_savepoints_of_its_own(session: cloche.SessionSandbox) -> None:
    session.savepoint()
    with session.fork() as branch:
        with pytest.raises(cloche.BranchError):
            branch.undo()
        branch.execute("x.append(2)").check()
        branch.savepoint()
        branch.execute("x.append(3)").check()
        branch.undo()
        assert value(branch, "x") == "[1, 2]"
        branch.execute(KILL_ITSELF)
        branch.undo()
        assert value(branch, "x") == "[1, 2]"
    session.undo()
    assert value(session, "x") == "[1]"


def test_a_session_that_returned_can_be_branched(session: cloche.SessionSandbox) -> None:
    session.savepoint()
    session.execute("x.append(2)").check()
    session.undo()
    with session.fork() as branch:
        assert value(branch, "x") == "[1]"


def test_bridges_work_after_a_return() -> None:
    with jail(on_llm_query=lambda prompt: prompt.upper()) as session:
        session.savepoint()
        session.execute("llm_query('a')").check()
        session.undo()
        assert value(session, "llm_query('b')") == "'B'"


def test_threads_are_named_and_nothing_is_marked(session: cloche.SessionSandbox) -> None:
    session.savepoint()
    session.execute(
        "import threading; over = threading.Event(); t = threading.Thread(target=over.wait, name='watcher'); t.start()"
    ).check()
    with pytest.raises(cloche.BranchError) as caught:
        session.savepoint()
    assert "watcher" in str(caught.value.cause)
    session.undo()  # the older one is still there
    assert value(session, "x") == "[1]"


def test_reset_forgets_savepoints(session: cloche.SessionSandbox) -> None:
    session.savepoint()
    session.reset()
    with pytest.raises(cloche.BranchError):
        session.undo()


def test_an_event_loop_can_return() -> None:
    async def work() -> str | None:
        async with cloche.create_async_sandbox(backend="jail") as session:
            await session.execute("x = 1")
            await session.savepoint()
            await session.execute("x = 2")
            await session.undo()
            return (await session.execute("x")).value

    assert anyio.run(work) == "1"


# -- protected cells ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(KILL_ITSELF, id="killed"),
        pytest.param("import ctypes; ctypes.string_at(0)", id="crashed"),
        pytest.param("import os; os._exit(3)", id="exited"),
    ],
)
def test_a_protected_session_returns_to_the_state_before_the_cell_that_died(
    protected: cloche.SessionSandbox, end: str
) -> None:
    died = protected.execute(CHANGE + end)
    assert died.session_state == "restored"
    assert value(protected, STATE) == FIRST


def test_a_protected_cell_that_must_be_killed_is_undone(protected: cloche.SessionSandbox) -> None:
    hopeless = "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))\nwhile True: pass"
    died = protected.execute(CHANGE + hopeless, timeout_ms=300)
    assert (died.outcome, died.session_state) == ("timeout", "restored")
    assert value(protected, STATE) == FIRST


def test_processes_of_a_cell_that_died_are_gone_after_the_return(protected: cloche.SessionSandbox) -> None:
    protected.execute("import subprocess; subprocess.Popen(['sleep', '1000']); " + KILL_ITSELF)
    comms = "sorted(open(f'/proc/{p}/comm').read().strip() for p in __import__('os').listdir('/proc') if p.isdigit())"
    assert "sleep" not in str(value(protected, comms))


def test_a_protected_cell_that_ends_well_is_kept(protected: cloche.SessionSandbox) -> None:
    assert protected.execute(CHANGE).session_state == "kept"
    assert value(protected, STATE) == "([1, 2], 'two', ['f', 'g'])"


def test_the_very_first_cell_is_protected() -> None:
    with jail(protect_state=True) as sandbox:
        sandbox.initialize("text")
        assert sandbox.execute("context = 5; " + KILL_ITSELF).session_state == "restored"
        assert value(sandbox, "context") == "'text'"


def test_protection_goes_on_after_a_return(protected: cloche.SessionSandbox) -> None:
    for number in range(2, 12):
        assert protected.execute("x.append('lost'); " + KILL_ITSELF).session_state == "restored"
        protected.execute(f"x.append({number})").check()
    assert value(protected, "x") == "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]"


def test_protection_goes_on_after_undo(protected: cloche.SessionSandbox) -> None:
    protected.savepoint()
    protected.execute(CHANGE).check()
    protected.undo()
    assert protected.execute(CHANGE + KILL_ITSELF).session_state == "restored"
    assert value(protected, STATE) == FIRST


def test_a_request_that_kills_a_protected_session_is_undone_too(protected: cloche.SessionSandbox) -> None:
    protected.execute(
        "class Fatal:\n    def __reduce__(self):\n        import os\n        os._exit(1)\nfatal = Fatal()"
    ).check()
    with pytest.raises(cloche.SessionLostError):
        protected.snapshot()
    assert value(protected, "x") == "[1]"


def test_a_cell_that_kills_its_savepoint_too_gets_a_reset(protected: cloche.SessionSandbox) -> None:
    died = protected.execute("import os; os.kill(-1, 9); os._exit(1)")
    assert died.session_state == "reset"
    assert value(protected, "1 + 1") == "2"


def test_with_threads_a_cell_is_not_protected_and_says_so(protected: cloche.SessionSandbox) -> None:
    protected.execute("import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()").check()
    assert protected.execute(KILL_ITSELF).session_state == "reset"


def test_a_branch_of_a_protected_session_is_protected(protected: cloche.SessionSandbox) -> None:
    with protected.fork() as branch:
        assert branch.execute(CHANGE + KILL_ITSELF).session_state == "restored"
        assert value(branch, STATE) == FIRST
    assert value(protected, STATE) == FIRST


def test_what_the_host_did_between_cells_is_not_undone(protected: cloche.SessionSandbox) -> None:
    protected.put_file("given.txt", "data")
    protected.set_variable("y", 5)
    other = protected.snapshot()
    protected.execute("x = 'changed'").check()
    protected.restore(other)
    protected.initialize("a new context")
    assert protected.execute("y = 0; import os; os.remove('given.txt'); " + KILL_ITSELF).session_state == "restored"
    assert value(protected, "(x, y, context, open('given.txt').read())") == "([1], 5, 'a new context', 'data')"


def test_a_protected_session_in_an_event_loop() -> None:
    async def work() -> tuple[str, str | None]:
        async with cloche.create_async_sandbox(backend="jail", protect_state=True) as session:
            await session.execute("x = 1")
            died = await session.execute("x = 2; " + KILL_ITSELF)
            return died.session_state, (await session.execute("x")).value

    assert anyio.run(work) == ("restored", "1")


# -- children of an interrupted cell --------------------------------------------------------------


def test_children_of_an_interrupted_cell_are_gone_and_older_ones_stay(session: cloche.SessionSandbox) -> None:
    session.execute("import subprocess, time; old = subprocess.Popen(['sleep', '1000'])").check()
    session.execute("time.sleep(0.05)").check()  # starts are told apart by hundredths of a second
    late = "new = subprocess.Popen(['sleep', '1000'], start_new_session=True)\nwhile True: pass"
    assert session.execute(late, timeout_ms=300).session_state == "kept"
    assert value(session, "(old.poll(), new.wait())") == "(None, -9)"
