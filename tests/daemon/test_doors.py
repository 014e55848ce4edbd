"""How clients come in when somebody else holds the socket."""

from __future__ import annotations

import configparser
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.daemon.foreign_client import enter
from tests.waiting import until_gone

import cloche
from cloche.backends.daemon.places import SOCKET_VARIABLE, Places
from cloche.conformance.waiting import wait_until
from cloche.daemon.doors import passed_socket
from cloche.errors import MachineError

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
AS_SYSTEMD_DOES = (
    "import os, sys\n"
    "os.dup2(int(sys.argv[1]), 3)\n"
    "os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1')\n"
    "os.execv(sys.executable, [sys.executable, '-m', 'cloche', 'daemon', 'start', '--foreground', *sys.argv[2:]])"
)


@contextmanager
def activated(passed: socket.socket, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    environment = {name: value for name, value in os.environ.items() if name != SOCKET_VARIABLE}
    with subprocess.Popen(
        [sys.executable, "-c", AS_SYSTEMD_DOES, str(passed.fileno()), *arguments],
        pass_fds=[passed.fileno()], env=environment, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.terminate()
            process.communicate()


@pytest.fixture
def held(places: Places) -> Iterator[socket.socket]:
    """A socket that listens before there is a daemon."""
    with socket.socket(socket.AF_UNIX) as held:
        held.bind(str(places.socket))
        held.listen()
        yield held


def test_a_client_that_knocks_before_the_daemon_is_started_is_served(places: Places, held: socket.socket) -> None:
    shown: list[str | None] = []

    def knock() -> None:
        with cloche.create_sandbox(backend="daemon") as sandbox:
            shown.append(sandbox.execute("6 * 7").value)

    places.token.touch(mode=0o600)
    places.token.write_text("of one that was killed\n")
    client = threading.Thread(target=knock)
    client.start()
    with activated(held):
        client.join()
        assert shown == ["42"]


def test_a_socket_that_was_passed_stays_when_the_daemon_goes(places: Places, held: socket.socket) -> None:
    with activated(held, "--idle-exit", "0.2") as first:
        until_gone(first.pid)
    assert places.socket.exists()
    assert not places.token.exists()
    with activated(held):
        wait_until(places.token.exists)
        with enter(places) as client:
            assert client.call("ping")["pid"] > 0


def test_sockets_that_are_meant_for_another_process_are_left_alone() -> None:
    assert passed_socket({"LISTEN_PID": str(os.getppid()), "LISTEN_FDS": "1"}) is None
    assert passed_socket({}) is None


def test_more_than_one_socket_is_refused_with_a_word_about_the_unit() -> None:
    with pytest.raises(MachineError) as caught:
        passed_socket({"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "2"})
    assert "ListenStream" in str(caught.value.remedy)


def test_something_else_than_a_listening_socket_is_refused() -> None:
    with socket.socket(socket.AF_UNIX) as idle, activated(idle) as process:
        process.wait(30)
        assert process.stderr is not None
        assert b"no listening Unix stream socket" in process.stderr.read()


def test_the_example_for_systemd_listens_where_clients_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SOCKET_VARIABLE)
    unit = configparser.ConfigParser(interpolation=None)
    unit.read(EXAMPLES / "cloche-daemon.socket")
    assert unit["Socket"]["ListenStream"].replace("%h", os.path.expanduser("~")) == str(Places.default().socket)
    assert (unit["Socket"]["SocketMode"], unit["Socket"]["DirectoryMode"]) == ("0600", "0700")
