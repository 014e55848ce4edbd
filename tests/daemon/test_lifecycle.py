"""Starting, stopping, finding and losing the daemon."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.daemon.foreign_client import enter
from tests.waiting import until_gone

import cloche
from cloche.backends.daemon.backend import DaemonBackend
from cloche.backends.daemon.places import SOCKET_VARIABLE, Places
from cloche.conformance.waiting import wait_until
from cloche.daemon import lifecycle
from cloche.errors import BackendUnavailableError, MachineError
from cloche.paths import sessions_dir


def command(places: Places, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cloche", *arguments], capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, SOCKET_VARIABLE: str(places.socket)},
    )  # fmt: skip


def test_the_command_starts_it_uses_it_and_stops_it(places: Places) -> None:
    started = command(places, "daemon", "start", "--json")
    assert started.returncode == 0, started.stderr
    pid = json.loads(started.stdout)["pid"]
    status = json.loads(command(places, "daemon", "status", "--json").stdout)
    assert (status["running"], status["responsive"], status["pid"]) == (True, True, pid)
    used = json.loads(command(places, "run", "--json", "-c", "print(1)").stdout)
    assert used["stdout"] == "1\n"
    pool = json.loads(command(places, "daemon", "status", "--json").stdout)["pool"]
    assert (pool["lent"], pool["live"]) == (1, 0)
    assert command(places, "daemon", "stop").returncode == 0
    until_gone(pid)
    assert command(places, "daemon", "status").returncode == 1
    assert sorted(path.name for path in places.folder.iterdir()) == ["daemon.lock", "daemon.log"]


def test_auto_takes_a_daemon_that_answers(house: Places) -> None:
    with cloche.create_sandbox() as sandbox:
        assert isinstance(sandbox, cloche.DaemonClientSandbox)
        assert sandbox.backend == "daemon"
        assert sandbox.execute("6 * 7").value == "42"


def test_a_second_one_is_refused_with_the_first_ones_number(house: Places) -> None:
    with pytest.raises(MachineError, match=str(lifecycle.recorded_pid(house))):
        lifecycle.start(house, [])


def test_what_a_killed_daemon_left_does_not_keep_the_next_from_starting(places: Places) -> None:
    pid = lifecycle.start(places, [])
    with enter(places) as client:
        client.call("session.open")
    os.kill(pid, signal.SIGKILL)
    until_gone(pid)
    assert places.socket.exists()
    assert lifecycle.status(places).running is False
    second = lifecycle.start(places, [])
    assert second != pid
    assert lifecycle.status(places).responsive


def test_a_number_that_now_belongs_to_another_process_is_not_taken_for_the_daemon(places: Places) -> None:
    places.pid.write_text(f"{os.getpid()} 12345\n")
    assert lifecycle.recorded_pid(places) is None
    assert lifecycle.stop(places) is None


def test_a_daemon_that_cannot_start_says_why(places: Places) -> None:
    places.socket.mkdir()
    with pytest.raises(MachineError) as caught:
        lifecycle.start(places, [])
    assert caught.value.cause
    places.socket.rmdir()


def test_it_ends_when_nobody_has_come_for_a_while(places: Places) -> None:
    pid = lifecycle.start(places, ["--idle-exit", "0.2"])
    until_gone(pid)
    assert not places.socket.exists()


def test_a_stop_lets_the_running_cell_end(places: Places) -> None:
    pid = lifecycle.start(places, [])
    with enter(places) as client:
        session = client.call("session.open")["session"]
        number = client.ask(
            "session.execute",
            session=session,
            code="print('go', flush=True)\nimport time; time.sleep(0.5); 5",
            live=True,
        )
        client.read()
        stopping = threading.Thread(target=lifecycle.stop, args=(places,))
        stopping.start()
        assert client.wait(number)["value"] == "5"
        stopping.join()
    until_gone(pid)


def test_a_daemon_that_hangs_is_passed_over(places: Places) -> None:
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(places.socket))
        deaf.listen()
        assert DaemonBackend.probe().available is False
        with cloche.create_sandbox(minimum_isolation="process") as sandbox:
            assert sandbox.backend != "daemon"


def test_without_a_daemon_the_error_says_what_to_type(places: Places) -> None:
    with cloche.create_sandbox(backend="daemon") as sandbox, pytest.raises(BackendUnavailableError) as caught:
        sandbox.execute("1")
    assert "cloche daemon start" in str(caught.value.remedy)


# -- faults ---------------------------------------------------------------------------------------


def test_a_daemon_that_is_killed_takes_its_guests_with_it_and_callers_are_told(places: Places) -> None:
    pid = lifecycle.start(places, [])
    sandbox = cloche.create_sandbox(backend="daemon", timeout_ms=10_000)
    assert sandbox.execute("6 * 7").value == "42"
    guest = sandbox.guest_pid
    os.kill(pid, signal.SIGKILL)
    until_gone(pid, guest)
    with pytest.raises(cloche.ClocheError):
        sandbox.execute("1").check()
    with pytest.raises(cloche.ClocheError):
        sandbox.execute("1").check()
    sandbox.destroy()


def test_a_guest_that_is_killed_in_a_cell_gives_a_result_and_the_next_cell_runs(house: Places) -> None:
    with cloche.create_sandbox(backend="daemon") as sandbox:
        assert sandbox.execute("import os, signal; os.kill(os.getpid(), signal.SIGKILL)").session_state == "reset"
        assert sandbox.execute("6 * 7").value == "42"


def test_a_client_that_is_killed_leaves_nothing(house: Places) -> None:
    script = (
        "import cloche, sys\n"
        "def wait(prompt):\n"
        "    print(s.guest_pid, flush=True)\n"
        "    return sys.stdin.read()\n"
        "s = cloche.create_sandbox(backend='daemon', on_llm_query=wait)\n"
        "s.execute('1'); b = s.fork()\n"
        's.execute(\'import subprocess; subprocess.Popen(["sleep", "1000"], start_new_session=True); llm_query(1)\')'
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as client:
        assert client.stdout is not None
        guest = int(client.stdout.readline())
        children = [int(pid) for pid in Path(f"/proc/{guest}/task/{guest}/children").read_text().split()]
        assert children
        client.kill()
    until_gone(guest, *children)
    wait_until(lambda: not list(sessions_dir().glob(f"cloche-{client.pid}-*")), "its list of sessions outlived it")
    with enter(house) as watcher:
        wait_until(lambda: not watcher.call("stats")["pool"]["live"])


def test_when_the_house_is_full_a_client_is_told(places: Places) -> None:
    lifecycle.start(places, ["--pool-size", "1"])
    with (
        cloche.create_sandbox(backend="daemon") as first,
        cloche.create_sandbox(backend="daemon", timeout_ms=500) as second,
    ):
        assert first.execute("1").success
        with pytest.raises(cloche.ClocheError):
            second.execute("1")
        first.destroy()
        assert second.execute("6 * 7").value == "42"
