"""How a session begins, is reset, is lost and ends."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cloche.conformance.waiting import PATIENCE, Background, start_cell, wait_until
from cloche.errors import BusyError, ReentrantCallError, SessionClosedError, SessionLostError
from cloche.factory import backend_names, find_backend
from cloche.session.processes import process_start

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloche.conformance.fixtures import OpenSandbox
    from cloche.sandbox import SessionSandbox

DIE_WHEN_TOLD = """
import os, threading, time
def wait_and_die():
    while not os.path.exists("die"):
        time.sleep(0.001)
    os._exit(7)
threading.Thread(target=wait_and_die, daemon=True).start()
"""


def lose(sandbox: SessionSandbox) -> None:
    """Let the guest die between two calls."""
    sandbox.execute(DIE_WHEN_TOLD).check()
    pid = sandbox.guest_pid
    sandbox.put_file("die", b"")
    wait_until(lambda: pid is None or process_start(pid) is None)


def runs_anywhere(word: str) -> bool:
    """Whether a process of this machine has that word in its command line. Walls number processes in their own way."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if word.encode() in path.read_bytes():
                return True
    return False


def shut_down_all() -> None:
    """End what this process keeps for all sessions, of whatever backend."""
    for name in backend_names():
        find_backend(name).shut_down()


def open_descriptors() -> dict[str, str]:
    """The descriptors that this process has, and what each of them is."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # that of the listing itself
            found[name] = os.readlink(f"/proc/self/fd/{name}")
    return found


def test_making_a_sandbox_starts_nothing(
    open_sandbox: OpenSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOCHE_SESSIONS_DIR", str(tmp_path))
    open_sandbox()
    assert list(tmp_path.iterdir()) == []


def test_the_first_cell_needs_no_initialize(sandbox: SessionSandbox) -> None:
    """Known defect 1.8.3: `execute` before `initialize` failed."""
    assert sandbox.execute("6 * 7").value == "42"


def test_initialize_again_keeps_the_variables(sandbox: SessionSandbox) -> None:
    sandbox.initialize("first")
    sandbox.execute("x = 1")
    sandbox.initialize("second")
    assert sandbox.execute("(x, context)").value == "(1, 'second')"


def test_destroy_may_be_called_twice(sandbox: SessionSandbox) -> None:
    sandbox.execute("1")
    sandbox.destroy()
    sandbox.destroy()
    with pytest.raises(SessionClosedError):
        sandbox.execute("1")


def test_destroy_of_an_unused_sandbox_does_nothing(sandbox: SessionSandbox) -> None:
    sandbox.destroy()
    with pytest.raises(SessionClosedError):
        sandbox.execute("1")


CALLS: dict[str, Callable[[SessionSandbox], Any]] = {
    "initialize": lambda s: s.initialize("text"),
    "execute": lambda s: s.execute("1"),
    "validate_code": lambda s: s.validate_code("1"),
    "get_variable": lambda s: s.get_variable("x"),
    "set_variable": lambda s: s.set_variable("x", 1),
    "list_variables": lambda s: s.list_variables(),
    "complete": lambda s: s.complete("pri"),
    "put_file": lambda s: s.put_file("a", b""),
    "get_file": lambda s: s.get_file("a"),
    "list_files": lambda s: s.list_files(),
    "snapshot": lambda s: s.snapshot(),
    "reset": lambda s: s.reset(),
}


@pytest.mark.parametrize("call", CALLS)
def test_every_call_after_destroy_says_that_the_session_is_closed(sandbox: SessionSandbox, call: str) -> None:
    sandbox.execute("1")
    sandbox.destroy()
    with pytest.raises(SessionClosedError):
        CALLS[call](sandbox)


def test_leaving_the_with_block_destroys_the_sandbox(open_sandbox: OpenSandbox) -> None:
    with open_sandbox() as sandbox:
        assert sandbox.execute("1").success
    with pytest.raises(SessionClosedError):
        sandbox.execute("1")


def test_destroy_leaves_no_folder_behind(
    open_sandbox: OpenSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOCHE_SESSIONS_DIR", str(tmp_path))
    sandbox = open_sandbox()
    sandbox.execute("open('a', 'w').close()")
    assert list(tmp_path.iterdir()) != []
    sandbox.destroy()
    assert list(tmp_path.iterdir()) == []


def test_destroy_releases_every_descriptor(open_sandbox: OpenSandbox) -> None:
    """All resources are released."""
    with open_sandbox() as warm_up:  # what the process keeps for ever is opened now
        warm_up.execute("1")
    shut_down_all()
    before = open_descriptors()
    for _ in range(3):
        with open_sandbox() as sandbox:
            sandbox.execute("1")
    shut_down_all()

    def gained() -> list[str]:
        now = open_descriptors()
        return [what for name, what in now.items() if before.get(name) != what] if len(now) > len(before) else []

    wait_until(lambda: not gained(), missed=gained)


@pytest.mark.cloche_needs("subprocess")
def test_destroy_ends_the_process_and_its_children(sandbox: SessionSandbox) -> None:
    mark = f"1000.{os.getpid()}{time.monotonic_ns()}"
    sandbox.execute(f"import subprocess\nchild = subprocess.Popen(['sleep', '{mark}'])").check()
    pid = sandbox.guest_pid
    wait_until(lambda: runs_anywhere(mark))  # so that its absence means something
    sandbox.destroy()
    wait_until(lambda: not runs_anywhere(mark) and (pid is None or process_start(pid) is None))


def test_destroy_while_a_cell_runs_ends_the_cell(sandbox: SessionSandbox) -> None:
    cell = start_cell(sandbox, "print('on', flush=True)\nwhile True: pass")
    sandbox.destroy()
    assert cell.result().outcome == "cancelled"


def test_destroy_leaves_a_given_workspace_as_it_is(open_sandbox: OpenSandbox, tmp_path: Path) -> None:
    sandbox = open_sandbox(workspace=tmp_path)
    sandbox.execute("open('kept', 'w').write('x')")
    sandbox.destroy()
    assert (tmp_path / "kept").read_text() == "x"


def test_reset_empties_the_namespace(sandbox: SessionSandbox) -> None:
    sandbox.execute("x = 1")
    sandbox.reset()
    assert sandbox.get_variable("x", "gone") == "gone"


def test_reset_empties_a_private_workspace(sandbox: SessionSandbox) -> None:
    sandbox.execute("import os; os.makedirs('a/b'); open('a/b/c', 'w').close()")
    sandbox.reset()
    assert sandbox.execute("import os; os.listdir()").value == "[]"


def test_reset_keeps_a_given_workspace(open_sandbox: OpenSandbox, tmp_path: Path) -> None:
    sandbox = open_sandbox(workspace=tmp_path)
    sandbox.execute("open('kept', 'w').close()")
    sandbox.reset()
    assert [file.path for file in sandbox.list_files()] == ["kept"]


def test_reset_keeps_the_context(sandbox: SessionSandbox) -> None:
    sandbox.initialize("still here")
    sandbox.reset()
    assert sandbox.execute("context").value == "'still here'"


def test_reset_keeps_the_bridges(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(on_llm_query=lambda prompt: prompt.upper())
    sandbox.execute("1")
    sandbox.reset()
    assert sandbox.execute("llm_query('again')").value == "'AGAIN'"


@pytest.mark.cloche_needs("threads")
def test_loss_between_cells_is_told_once(sandbox: SessionSandbox) -> None:
    """Known defect 1.8.5: a call to a dead runner waited until its time-out, or for ever."""
    lose(sandbox)
    with pytest.raises(SessionLostError):
        sandbox.execute("1")
    assert sandbox.execute("1").success


@pytest.mark.cloche_needs("threads")
def test_a_cell_that_met_a_lost_session_did_not_run(sandbox: SessionSandbox) -> None:
    lose(sandbox)
    with pytest.raises(SessionLostError):
        sandbox.execute("open('ran', 'w').close()")
    assert "ran" not in [file.path for file in sandbox.list_files()]


@pytest.mark.cloche_needs("threads")
def test_get_variable_on_a_lost_session_raises(sandbox: SessionSandbox) -> None:
    """Known defect 1.8.5: `getVariable` had no time-out and hung for ever."""
    lose(sandbox)
    with pytest.raises(SessionLostError):
        sandbox.get_variable("x")


@pytest.mark.cloche_needs("threads")
def test_a_fresh_session_after_a_loss_has_the_context(sandbox: SessionSandbox) -> None:
    sandbox.initialize("given once")
    lose(sandbox)
    with pytest.raises(SessionLostError):
        sandbox.execute("1")
    assert sandbox.execute("context").value == "'given once'"


def test_two_sandboxes_do_not_see_each_others_variables(open_sandbox: OpenSandbox) -> None:
    """Known defect 1.8.2: contexts and variables leaked between clients."""
    one, other = open_sandbox(), open_sandbox()
    one.initialize("mine")
    one.execute("secret = 1")
    assert other.execute("'secret' in globals() or 'context' in globals()").value == "False"


def test_two_sandboxes_in_threads_keep_their_output_apart(open_sandbox: OpenSandbox) -> None:
    """Known defect 2.4.1: two REPLs in threads swapped their stdout."""
    sandboxes = {name: open_sandbox() for name in ("left", "right")}
    code = "for _ in range(2000): print({!r})"
    calls = {name: Background(partial(each.execute, code.format(name))) for name, each in sandboxes.items()}
    for name, call in calls.items():
        assert call.result().stdout == f"{name}\n" * 2000


def test_the_hosts_own_streams_and_folder_are_not_touched(sandbox: SessionSandbox) -> None:
    """Known defect 2.4.1: a cell left the host's `sys.stdout` and working directory changed."""
    before = (sys.stdout, sys.stderr, Path.cwd())
    sandbox.execute("import os, sys\nos.chdir('/')\nsys.stdout = None")
    assert (sys.stdout, sys.stderr, Path.cwd()) == before


def test_the_working_directory_is_the_workspace(sandbox: SessionSandbox) -> None:
    result = sandbox.execute("open('here', 'w').close()")
    assert result.files_created == ("here",)


def test_a_second_caller_waits_for_its_turn(sandbox: SessionSandbox) -> None:
    first = start_cell(sandbox, "print('on', flush=True)\nimport time; time.sleep(0.2)\nx = 1")
    assert sandbox.get_variable("x") == 1
    assert first.result().success


def test_a_second_caller_gives_up_at_its_own_deadline(sandbox: SessionSandbox) -> None:
    first = start_cell(sandbox, "print('on', flush=True)\nwhile True: pass")
    with pytest.raises(BusyError):
        sandbox.execute("1", timeout_ms=50)
    sandbox.cancel()
    assert first.result().outcome == "cancelled"


@pytest.mark.parametrize("call", ["execute", "get_variable", "put_file"])
def test_a_callback_that_calls_its_own_sandbox_is_refused_at_once(open_sandbox: OpenSandbox, call: str) -> None:
    refused: list[BaseException] = []
    done = threading.Event()

    def callback(prompt: str) -> str:
        try:
            CALLS[call](sandbox)
        except ReentrantCallError as exc:
            refused.append(exc)
        done.set()
        return "went on"

    sandbox = open_sandbox(on_llm_query=callback)
    assert sandbox.execute("llm_query('x')").value == "'went on'"
    assert done.wait(PATIENCE)
    assert len(refused) == 1


def test_a_callback_may_use_another_sandbox(open_sandbox: OpenSandbox) -> None:
    inner = open_sandbox()
    sandbox = open_sandbox(on_llm_query=lambda prompt: inner.execute(prompt).value)
    assert sandbox.execute("llm_query('1 + 1')").value == "'2'"
