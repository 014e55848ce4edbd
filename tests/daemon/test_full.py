"""A daemon that has no place, is stopping or does not answer: callers are told what it is, or go on elsewhere."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from tests.daemon.foreign_client import enter

import cloche
from cloche.backends.daemon.backend import DaemonBackend
from cloche.backends.daemon.places import Places
from cloche.conformance.waiting import wait_until
from cloche.daemon import lifecycle
from cloche.errors import AdmissionError, BackendUnavailableError, UnsupportedError

HOLD = """
import cloche, sys
sandbox = cloche.create_sandbox(backend="daemon")
sandbox.execute("1").check()
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def small(places: Places) -> Places:
    """A daemon of one place."""
    lifecycle.start(places, ["--pool-size", "1"])
    return places


@pytest.fixture
def full(small: Places) -> Iterator[Places]:
    """A daemon whose one place another process has."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        yield small
        holder.kill()


def test_auto_passes_over_a_full_daemon_and_says_so(full: Places) -> None:
    with cloche.create_sandbox() as sandbox:
        assert sandbox.backend == "jail"
        assert sandbox.passed_over == {"daemon": "the daemon is full: 1 of 1 places are taken"}
        assert sandbox.execute("6 * 7").value == "42"


def test_a_daemon_asked_for_by_name_says_that_it_is_full_with_its_limits(full: Places) -> None:
    with (
        cloche.create_sandbox(backend="daemon", timeout_ms=1_000) as sandbox,
        pytest.raises(AdmissionError, match="the daemon is full") as caught,
    ):
        sandbox.execute("1")
    assert "1 of 1 places are taken" in str(caught.value.cause)
    assert "cloche daemon start --pool-size" in str(caught.value.remedy)


def test_the_command_says_which_wall_was_passed_over(full: Places) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cloche", "run", "-c", "print(6 * 7)"], capture_output=True, text=True, timeout=50
    )
    assert (done.returncode, done.stdout) == (0, "42\n")
    assert "auto passes over daemon: the daemon is full" in done.stderr


def test_a_workbench_goes_on_to_the_next_wall(full: Places) -> None:
    with cloche.REPLEnvironment("a text") as environment:
        assert "6" in environment.execute("print(len(context))").output


def test_a_place_that_is_gone_when_it_is_wanted_gives_auto_the_next_wall(small: Places) -> None:
    with cloche.create_sandbox() as late, cloche.create_sandbox(backend="daemon") as first:
        assert late.backend == "daemon"
        first.execute("1").check()
        late.execute("x = 42").check()
        assert late.backend == "jail"
        assert "the daemon is full" in late.passed_over["daemon"]
        with late.fork() as branch:
            assert branch.execute("x").value == "42"
        late.savepoint()
        late.execute("x = 0").check()
        late.undo()
        assert late.get_variable("x") == 42
        assert isinstance(late, cloche.DaemonClientSandbox)
        with pytest.raises(UnsupportedError, match="cannot be detached"):
            late.detach()


def test_one_thread_frees_the_place_for_which_another_waits(small: Places) -> None:
    """Calls of a process share one connection, and none waits for another's answer."""
    first = cloche.create_sandbox(backend="daemon")
    first.execute("1").check()
    found: list[object] = []

    def wait_for_a_place() -> None:
        with cloche.create_sandbox(backend="daemon", timeout_ms=30_000) as second:
            found.append(second.execute("6 * 7").value)

    waiting = threading.Thread(target=wait_for_a_place)
    waiting.start()
    with enter(small) as watcher:
        wait_until(lambda: watcher.call("stats")["pool"]["waiting"] == 1)
    first.destroy()
    waiting.join()
    assert found == ["42"]


def test_the_places_of_detached_sessions_are_named(small: Places) -> None:
    sandbox = cloche.DaemonClientSandbox()
    sandbox.execute("1").check()
    sandbox.detach()
    with (
        cloche.create_sandbox(backend="daemon", timeout_ms=800) as another,
        pytest.raises(AdmissionError) as caught,
    ):
        another.execute("1")
    assert "1 of them by detached sessions" in str(caught.value.cause)


def test_a_daemon_that_does_not_answer_in_time_is_not_gone(places: Places) -> None:
    pid = lifecycle.start(places, [])
    with cloche.create_sandbox(backend="daemon") as sandbox, cloche.create_sandbox(backend="daemon") as another:
        sandbox.execute("x = 42").check()
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(BackendUnavailableError, match="does not answer") as caught:
                another.execute("1", timeout_ms=300)
            assert "cloche daemon status" in str(caught.value.remedy)
            assert DaemonBackend.probe().available is False
        finally:
            os.kill(pid, signal.SIGCONT)
        assert another.execute("6 * 7").value == "42"
        assert sandbox.execute("x").value == "42", "the connection, and with it the session, is the same"
        with enter(places) as watcher:  # what came too late was given back
            wait_until(lambda: watcher.call("stats")["pool"]["live"] == 2)


def test_auto_does_not_wait_for_a_daemon_that_stands_still(places: Places) -> None:
    pid = lifecycle.start(places, [])
    with cloche.create_sandbox(timeout_ms=40_000) as sandbox:
        assert sandbox.backend == "daemon"
        os.kill(pid, signal.SIGSTOP)
        try:
            assert sandbox.execute("6 * 7").value == "42"
            assert "does not answer" in sandbox.passed_over["daemon"]
        finally:
            os.kill(pid, signal.SIGCONT)


def test_a_daemon_that_is_stopping_is_passed_over(places: Places) -> None:
    lifecycle.start(places, [])
    assert DaemonBackend.probe().available
    with enter(places) as client:
        session = client.call("session.open")["session"]
        code = "print('go', flush=True)\nimport time; time.sleep(3)"
        client.ask("session.execute", session=session, code=code, live=True)
        client.read()
        stopping = threading.Thread(target=lifecycle.stop, args=(places,))
        stopping.start()
        wait_until(lambda: DaemonBackend.probe().reason == "the daemon is stopping")
    stopping.join()
