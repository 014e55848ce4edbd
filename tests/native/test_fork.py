"""A host that forks: the parent's sessions are the parent's, and the child can have its own."""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cloche import NativePythonSandbox, SessionLostError


@pytest.fixture(autouse=True)
def own_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "sessions"
    monkeypatch.setenv("CLOCHE_SESSIONS_DIR", str(folder))
    return folder


def in_child(action: Callable[[], Any]) -> None:
    """Run in a forked child; what it raises there fails the test."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            os.close(reader)
            action()
            status = 0
        except BaseException:  # noqa: BLE001 - told to the parent
            os.write(writer, traceback.format_exc().encode())
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader) as told:
        text = told.read()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, text


@pytest.fixture
def sandbox():
    with NativePythonSandbox(tools={"echo": lambda value: value}) as made:
        made.execute("x = 'parent'")
        yield made


def test_the_child_is_told_that_the_session_is_not_its_own_and_starts_afresh(sandbox):
    def use() -> None:
        with pytest.raises(SessionLostError, match="fork"):
            sandbox.execute("x")
        assert sandbox.execute("'x' in globals()").value == "False"
        assert sandbox.execute("echo(5)").value == "5"
        sandbox.destroy()

    in_child(use)
    assert sandbox.execute("x").value == "'parent'"


def test_destroying_in_the_child_leaves_the_parents_session_and_files(sandbox, own_sessions):
    sandbox.put_file("a.txt", b"parent")
    in_child(sandbox.destroy)
    assert sandbox.execute("x, open('a.txt').read()").value == "('parent', 'parent')"
    assert sandbox.get_file("a.txt") == b"parent"


def test_the_childs_session_does_not_touch_the_parents_files(sandbox):
    sandbox.put_file("a.txt", b"parent")

    def use() -> None:
        with pytest.raises(SessionLostError):
            sandbox.execute("1")
        sandbox.execute("open('a.txt', 'w').write('child')")
        sandbox.reset()
        sandbox.destroy()

    in_child(use)
    assert sandbox.get_file("a.txt") == b"parent"
    assert sandbox.execute("open('a.txt').read()").value == "'parent'"


def test_ending_the_child_without_a_word_leaves_the_parents_session(sandbox):
    in_child(lambda: None)
    assert sandbox.execute("x").value == "'parent'"


def test_a_child_that_ends_like_any_program_leaves_the_parents_session(own_sessions):
    """Exit handlers run in the child too."""
    import subprocess
    import sys

    code = """
import os, sys
import cloche
with cloche.create_sandbox(backend="native") as sandbox:
    sandbox.execute("x = 1")
    if not os.fork():
        sys.exit(0)
    os.wait()
    print(sandbox.execute("x").value, sandbox.list_files())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "1 []\n", done.stderr


def test_a_child_can_make_sandboxes_of_its_own(sandbox):
    def use() -> None:
        with NativePythonSandbox() as own:
            assert own.execute("6 * 7").value == "42"

    in_child(use)
    assert sandbox.execute("x").value == "'parent'"


def test_a_fork_while_a_cell_runs_in_another_thread_does_not_hang_the_child(sandbox):
    running = threading.Event()
    thread = threading.Thread(
        target=lambda: sandbox.execute(
            "print('go')\nwhile True: pass", timeout_ms=60_000, on_output=lambda stream, text: running.set()
        )
    )
    thread.start()
    assert running.wait(30)

    def use() -> None:
        try:
            sandbox.execute("1", timeout_ms=2000)
        except SessionLostError:
            assert sandbox.execute("1 + 1", timeout_ms=20_000).value == "2"
        sandbox.destroy()

    try:
        in_child(use)
    finally:
        sandbox.cancel()
        thread.join()
    assert sandbox.execute("x").value == "'parent'"


def test_host_functions_work_in_the_child_after_they_ran_in_the_parent(sandbox):
    sandbox.execute("[echo(i) for i in range(10)]")

    def use() -> None:
        with NativePythonSandbox(tools={"echo": lambda value: value}) as own:
            assert own.execute("[echo(i) for i in range(10)]").value == repr(list(range(10)))

    in_child(use)
