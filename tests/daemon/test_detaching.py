"""Sessions of the Python client that go from one process to another, and what the client is told about memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.daemon.foreign_client import enter
from tests.daemon.test_faults import prepared_daemon
from tests.waiting import until_gone

import cloche
from cloche.backends.daemon.backend import DaemonBackend
from cloche.backends.daemon.link import links
from cloche.backends.daemon.places import SOCKET_VARIABLE, Places
from cloche.conformance.waiting import wait_until
from cloche.daemon import lifecycle
from cloche.remote import DaemonClientSandbox, DetachedSession

MIB = 1 << 20
FIRST_CLIENT = (
    "import cloche, json\n"
    "sandbox = cloche.create_sandbox(backend='daemon', on_llm_query=str.upper, timeout_ms=4321)\n"
    "sandbox.initialize('the context')\n"
    'sandbox.execute(\'x = 41; open("file", "w").write("kept")\').check()\n'
    "left = sandbox.detach()\n"
    "print(json.dumps([left.id, left.key]))"
)
FORGETFUL = "import functools, cloche.daemon.__main__ as m; m.PoolLimits = functools.partial(m.PoolLimits, idle_ms=300)"


def left_by_another_process() -> DetachedSession:
    done = subprocess.run([sys.executable, "-c", FIRST_CLIENT], capture_output=True, text=True, check=True)
    return DetachedSession(*json.loads(done.stdout))


def daemon_sandbox(**options: object) -> DaemonClientSandbox:
    sandbox = cloche.create_sandbox(backend="daemon", **options)  # type: ignore[arg-type]  # options of all kinds
    assert isinstance(sandbox, DaemonClientSandbox)
    return sandbox


def test_a_session_goes_on_in_another_process_with_all_that_it_had(house: Places) -> None:
    left = left_by_another_process()
    with DaemonClientSandbox.attach(left.id, left.key, on_llm_query=lambda prompt: f"second: {prompt}") as sandbox:
        seen = sandbox.execute("(x + 1, open('file').read(), context, llm_query('?'))")
        assert seen.value == "(42, 'kept', 'the context', 'second: ?')"
        assert sandbox.policy.timeout_ms == 4321
        sandbox.reset()
        assert sandbox.execute("context").value == "'the context'"


def test_it_is_taken_up_once_and_only_with_its_key(house: Places) -> None:
    with daemon_sandbox() as sandbox:
        sandbox.initialize({"a": [1, b"2"]})
        sandbox.savepoint()
        left = sandbox.detach()
    assert left.key not in repr(left)
    for name, key in ((left.id, "guess"), ("guess", left.key), (left.id, "")):
        with pytest.raises(cloche.UnknownSessionError):
            DaemonClientSandbox.attach(name, key)
    with DaemonClientSandbox.attach(left.id, left.key) as taken:
        with pytest.raises(cloche.UnknownSessionError):
            DaemonClientSandbox.attach(left.id, left.key)
        assert taken.execute("context").value == "{'a': [1, b'2']}"
        with pytest.raises(cloche.BranchError, match="no savepoint"):
            taken.undo()
        again = taken.detach()
    assert (again.id == left.id, again.key == left.key) == (True, False)
    DaemonClientSandbox.attach(again.id, again.key).destroy()


def test_a_sandbox_that_was_detached_is_over(house: Places) -> None:
    sandbox = daemon_sandbox()
    left = sandbox.detach()
    with pytest.raises(cloche.SessionClosedError):
        sandbox.execute("1")
    sandbox.destroy()
    with DaemonClientSandbox.attach(left.id, left.key) as taken:
        assert taken.execute("6 * 7").value == "42"  # the end of the first is not the end of the session


def test_one_that_nobody_takes_up_is_ended_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with prepared_daemon(tmp_path, FORGETFUL) as places, enter(places) as watcher:
        monkeypatch.setenv(SOCKET_VARIABLE, str(places.socket))
        sandbox = daemon_sandbox()
        sandbox.execute("1").check()
        guest = sandbox.guest_pid
        left = sandbox.detach()
        until_gone(guest)
        wait_until(lambda: not watcher.call("stats")["pool"]["live"])
        with pytest.raises(cloche.UnknownSessionError):
            DaemonClientSandbox.attach(left.id, left.key)
        links.close()


def test_the_end_of_the_daemon_is_the_end_of_those_that_were_left(places: Places) -> None:
    lifecycle.start(places, [])
    sandbox = daemon_sandbox()
    sandbox.execute("1").check()
    guest = sandbox.guest_pid
    sandbox.detach()
    assert lifecycle.status(places).details["detached"] == 1  # type: ignore[index]  # it runs
    lifecycle.stop(places)
    until_gone(guest)


# -- what is counted ------------------------------------------------------------------------------


def metered() -> bool:
    return DaemonBackend.probe().isolation is cloche.Isolation.METERED


def test_a_session_that_used_up_its_memory_says_so_to_its_client(house: Places) -> None:
    if not metered():
        pytest.skip("memory of a session is not counted here (no cgroups)")
    hoard = (
        "import mmap\nheld = []\nwhile True:\n    held.append(mmap.mmap(-1, 1 << 20)); held[-1][:] = b'x' * (1 << 20)"
    )
    with daemon_sandbox(memory_bytes=64 * MIB, workspace_bytes=MIB) as sandbox:
        sandbox.execute("x = 1").check()
        result = sandbox.execute(hoard)
        assert (result.outcome, result.exit_code, result.session_state) == ("memory", 137, "reset")
        assert sandbox.execute("6 * 7").value == "42"


def test_what_child_processes_use_is_counted_for_the_client(house: Places) -> None:
    if not metered():
        pytest.skip("what a session uses is not counted here (no cgroups)")
    with daemon_sandbox() as sandbox:
        small = sandbox.execute("import subprocess, sys").memory_used_bytes
        used = sandbox.execute("subprocess.run([sys.executable, '-c', 'x = b\"1\" * 100_000_000; sum(x)'])")
        assert small is not None
        assert used.memory_used_bytes is not None
        assert used.memory_used_bytes - small > 90 * MIB
        assert used.usage.cpu_ms is not None
        assert used.usage.cpu_ms > 50
