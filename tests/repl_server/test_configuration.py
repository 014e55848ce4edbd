"""Seed 004, Configuration, Debugging and Sandbox Lifecycle, as far as they are the server's."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.guest.every_python import VERSIONS, find
from tests.repl_server.client import GUEST, READY, Client
from tests.waiting import until_gone


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("DEBUG", "maybe", "DEBUG must be true or false, not 'maybe'"),
        ("STATE_MAX_SIZE_MB", "-1", "STATE_MAX_SIZE_MB must be a whole number of megabytes, not '-1'"),
        ("STATE_MAX_SIZE_MB", "lots", "STATE_MAX_SIZE_MB must be a whole number of megabytes, not 'lots'"),
        ("PRELOAD_MODULES", "numpy;rm", "PRELOAD_MODULES must be names of modules with commas between"),
    ],
)
def test_a_bad_setting_is_named_and_nothing_is_started(folder: Path, name: str, value: str, text: str) -> None:
    variables = {name: value}
    client = Client(folder, None, **variables)
    out, err = client.process.communicate(timeout=20)
    assert (out, client.process.returncode) == (b"", 2)
    assert text in err.decode()


def test_debug_logs_requests_and_responses_to_the_real_stderr(folder: Path) -> None:
    client = Client(folder, DEBUG="true", PRELOAD_MODULES="no_such_module")
    client.wait_until_ready()
    client.run("import sys\nprint('shown')\nprint('captured', file=sys.stderr)\ns = 'x' * 100000", capture_state=True)
    client.write(b"noise\n")
    said = client.close().decode()
    assert "no_such_module was not imported: not installed" in said
    assert 'request {"code":"import sys' in said
    assert 'response {"stdout":"shown\\n","stderr":"captured\\n"' in said
    assert "not in a frame: b'noise'" in said
    assert len(said) < 10_000


def test_without_debug_it_says_nothing(folder: Path) -> None:
    client = Client(folder)
    client.wait_until_ready()
    client.run("1")
    assert client.close() == b""


def test_the_ready_marker_comes_after_the_imports(folder: Path) -> None:
    os.mkfifo(folder / "gate")
    (folder / "slow.py").write_text("open('imported', 'w').close()\nopen('gate').read()\n")
    client = Client(folder, PRELOAD_MODULES="slow")
    with open(folder / "gate", "w"):  # waits until the module is being imported
        assert (folder / "imported").exists()
        os.set_blocking(client.stdout.fileno(), False)
        assert client.stdout.read() is None
        os.set_blocking(client.stdout.fileno(), True)
    assert client.stdout.readline() == READY
    client.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_when_the_server_is_ended_in_the_middle(folder: Path, number: signal.Signals) -> None:
    client = Client(folder)
    client.wait_until_ready()
    pid = int(client.run("import os\nos.getpid()"))
    client.send({"code": "while True: pass"})
    client.process.send_signal(number)
    client.process.communicate()
    until_gone(pid)


def test_nothing_is_left_when_the_reader_of_the_responses_has_gone(folder: Path) -> None:
    client = Client(folder)
    client.wait_until_ready()
    pid = int(client.run("import os\nos.getpid()"))
    client.send({"code": "while True: pass"})
    client.stdout.close()
    assert client.process.wait(20) == 0
    until_gone(pid)
    client.stdin.close()
    client.stderr.close()


@pytest.mark.parametrize("version", [version for version in VERSIONS if version != "3.11"])
def test_it_runs_in_every_python(folder: Path, version: str) -> None:
    python = find(version)
    if python is None:
        pytest.skip(f"no Python {version} here")
    client = Client(folder, [python, str(GUEST / "repl_server.py")])
    client.wait_until_ready()
    response = client.ask("x = 1\ndef f(): return x\nprint('hi')\nx + 1", capture_state=True)
    assert response["stdout"] == "hi\n2\n"
    assert client.run("x = 3\nf()", state=response["state"]) == "3\n"
    assert client.ask("1 / 0")["stderr"].endswith("\nZeroDivisionError: division by zero")
    assert client.ask("x =")["stderr"] == "SyntaxError: invalid syntax (line 1)"
    client.close()
