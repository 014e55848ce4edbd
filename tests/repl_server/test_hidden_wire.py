"""Code cannot reach the wire through the process that has it; where that cannot be had, the server says so."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests import poorer_kernel
from tests.repl_server.client import BY_PATH, Client

FORGE = """
import os
forged = b'>>> RESPONSE_START <<<\\n{"stdout":"forged","stderr":"","exit_code":0,"state":null,"files":[],"error":null}'
def forge(process):
    for number in range(200, 300):
        try:
            descriptor = os.open(f"/proc/{process}/fd/{number}", os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            continue
        os.write(descriptor, forged + b'\\n>>> RESPONSE_END <<<\\n')
        os.close(descriptor)
"""
BY_A_CHILD = """
import subprocess, sys
subprocess.run([sys.executable, "-c", source + f"forge({os.getppid()})"], check=True)
"""
WARNING = "repl server: the wire cannot be hidden here, and code that looks for it can forge responses: "
CAP_SYS_PTRACE = 1 << 19


def capabilities(process: int | str = "self") -> int:
    """Those in effect."""
    return int(Path(f"/proc/{process}/status").read_text().partition("CapEff:")[2].split()[0], 16)


needs_the_right_to_look = pytest.mark.skipif(
    not capabilities() & CAP_SYS_PTRACE, reason="these tests do not run with CAP_SYS_PTRACE, so nothing can be given up"
)


def test_a_program_that_code_starts_cannot_write_into_the_wire_of_the_process_in_front(server: Client) -> None:
    """As the superuser, a program has rights again that the code itself has not."""
    assert server.run(f"{FORGE}\nsource = {FORGE!r}\n{BY_A_CHILD}\nprint('true')") == "true\n"
    assert server.run("2") == "2\n"


@needs_the_right_to_look
def test_neither_the_server_nor_the_code_keeps_the_right_to_look_into_every_process(server: Client) -> None:
    assert not capabilities(server.process.pid) & CAP_SYS_PTRACE
    assert not capabilities(server.run("os.getpid()").strip()) & CAP_SYS_PTRACE


def test_code_may_look_into_its_own_process(server: Client) -> None:
    assert server.run("import os\nos.stat('/proc/self/fd').st_uid == os.getuid()") == "True\n"


def test_a_wire_that_cannot_be_hidden_is_told_and_can_be_written(folder: Path) -> None:
    client = Client(folder, [sys.executable, poorer_kernel.__file__, "always-dumpable", *BY_PATH])
    client.wait_until_ready()
    assert client.run(f"{FORGE}\nforge(os.getppid())\nprint('true')") == "forged"  # what the warning speaks of
    client.receive()
    assert client.close().decode().startswith(f"{WARNING}[Errno 1] prctl: Operation not permitted\n")


@needs_the_right_to_look
def test_a_right_to_look_that_cannot_be_given_up_is_told(folder: Path) -> None:
    client = Client(folder, [sys.executable, poorer_kernel.__file__, "no-capset", *BY_PATH])
    client.wait_until_ready()
    assert client.close().decode() == f"{WARNING}[Errno 1] capset: Operation not permitted\n"


def test_an_interpreter_without_ctypes_is_told(folder: Path) -> None:
    bare = f"import sys, runpy; sys.modules['_ctypes'] = None; runpy.run_path({BY_PATH[1]!r}, run_name='__main__')"
    client = Client(folder, [sys.executable, "-c", bare])
    client.wait_until_ready()
    assert client.run("1") == "1\n"
    assert client.close().decode() == f"{WARNING}this interpreter has no ctypes\n"
