"""The spare: when there is one, who gets it, and when it goes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from tests.native.watching import has_ended, open_process

from cloche import create_sandbox
from cloche.backends.pyodide import runtime
from cloche.backends.pyodide.backend import PyodideBackend
from cloche.backends.pyodide.spares import spares
from cloche.conformance.waiting import wait_until


@pytest.fixture(autouse=True)
def no_spare(pyodide: runtime.Runtime) -> Iterator[None]:
    PyodideBackend.shut_down()
    yield
    PyodideBackend.shut_down()


def first_cell(**options: Any) -> int:
    with create_sandbox(backend="pyodide", **options) as sandbox:
        assert sandbox.execute("6 * 7").value == "42"
        assert sandbox.guest_pid is not None
        return sandbox.guest_pid


def spare_pid() -> int | None:
    return None if spares._spare is None else spares._spare[1].popen.pid


def test_one_session_leaves_no_spare_and_the_second_does():
    first_cell()
    assert spare_pid() is None
    first_cell()
    wait_until(spare_pid)


def test_the_next_session_gets_it_clean():
    first_cell()
    first_cell()
    wait_until(spare_pid)
    expected = spare_pid()
    with create_sandbox(backend="pyodide") as sandbox:
        assert sandbox.list_variables() == {}
        assert sandbox.execute("1").files_created == ()
        assert sandbox.guest_pid == expected


def test_another_kind_of_session_does_not_get_it():
    first_cell()
    first_cell()
    wait_until(spare_pid)
    assert first_cell(memory_bytes=128 << 20) != spare_pid()


def test_one_that_has_died_is_not_given_out():
    first_cell()
    first_cell()
    wait_until(spare_pid)
    pid = spare_pid()
    assert pid is not None
    process = open_process(pid)
    os.kill(pid, 9)
    assert has_ended(process)
    first_cell()


def test_it_goes_when_it_is_not_wanted_any_more():
    first_cell()
    first_cell()
    wait_until(spare_pid)
    pid = spare_pid()
    assert pid is not None
    process = open_process(pid)
    spares._expire(spares._turn)
    assert has_ended(process)


def test_it_ends_with_the_host():
    code = (
        "import cloche, time\n"
        "for _ in range(2): cloche.run('1', backend='pyodide')\n"
        "from cloche.backends.pyodide.spares import spares\n"
        "while spares._spare is None: time.sleep(0.01)\n"
        "print(spares._spare[1].popen.pid)\ninput()"
    )
    host = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert host.stdout is not None
    process = open_process(int(host.stdout.readline()))
    host.kill()
    host.communicate()
    assert has_ended(process)
