"""Signals and readers that go away: the run ends at once, cleanly, with the customary exit code."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest
from tests.cli.command import DEADLINE, Cloche

ENDLESS = "print('running', flush=True)\nwhile True: pass"
STUBBORN = (
    "print('running', flush=True)\nwhile True:\n    try:\n        while True: pass\n    except BaseException: pass"
)


def end(process: subprocess.Popen[bytes], number: signal.Signals) -> tuple[str, str]:
    assert process.stdout is not None
    assert process.stdout.readline() == b"running\n"
    process.send_signal(number)
    out, err = process.communicate(timeout=DEADLINE)
    return out.decode(), err.decode()


@pytest.mark.parametrize("code", [ENDLESS, STUBBORN], ids=["obedient", "stubborn"])
def test_ctrl_c_cancels_the_cell_and_exits_130(cloche: Cloche, code: str) -> None:
    with cloche.start("run", "-c", code) as process:
        assert end(process, signal.SIGINT) == ("", "cancelled\n")
    assert process.returncode == 130
    assert cloche.left_behind() == []


def test_ctrl_c_gives_a_document_with_json(cloche: Cloche) -> None:
    os.mkfifo(cloche.cwd / "started")
    code = "open('started', 'w').close()\nwhile True: pass"
    with cloche.start("run", "-c", code, "--json", "--workspace", ".") as process:
        (cloche.cwd / "started").read_bytes()  # returns when the cell has opened and closed its end
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=DEADLINE)
    assert process.returncode == 130
    assert b'"outcome": "cancelled"' in out


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_an_order_to_end_is_obeyed_after_tidying_up(cloche: Cloche, number: signal.Signals) -> None:
    with cloche.start("run", "-c", ENDLESS) as process:
        assert end(process, number) == ("", "")
    assert process.returncode == 128 + number
    assert cloche.left_behind() == []


FLOOD = ("run", "-c", "while True: print('x' * 100)", "--max-output", "1G")


@pytest.mark.parametrize("arguments", [FLOOD, ("demo",), ("doctor",)], ids=lambda arguments: arguments[0])
def test_a_reader_that_goes_away_ends_the_command_quietly(cloche: Cloche, arguments: tuple[str, ...]) -> None:
    with cloche.start(*arguments) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141
    assert cloche.left_behind() == []
