"""Seed 004, Error Handling: the replies of the document, and whatever else code may do to a server."""

from __future__ import annotations

import signal
import threading

import pytest
from tests.repl_server.client import Client


def test_a_syntax_error_gives_the_reply_of_the_document(server: Client) -> None:
    response = server.ask("x =")
    assert response == {
        "stdout": "",
        "stderr": "SyntaxError: invalid syntax (line 1)",
        "exit_code": 1,
        "state": None,
        "files": [],
        "error": "SyntaxError: invalid syntax",
    }


def test_a_syntax_error_names_its_line_and_kind(server: Client) -> None:
    response = server.ask("x = 1\nif x:\nprint(x)")
    assert response["error"].startswith("IndentationError: expected an indented block")
    assert response["stderr"] == response["error"] + " (line 3)"


def test_a_runtime_error_gives_the_reply_of_the_document(server: Client) -> None:
    response = server.ask("1 / 0")
    assert response == {
        "stdout": "",
        "stderr": 'Traceback (most recent call last):\n  File "<string>", line 1, in <module>\n'
        "ZeroDivisionError: division by zero",
        "exit_code": 1,
        "state": None,
        "files": [],
        "error": "ZeroDivisionError: division by zero",
    }


def test_what_was_printed_before_an_error_is_kept(server: Client) -> None:
    response = server.ask("import sys\nprint('out')\nprint('err', file=sys.stderr)\ndef f(): raise KeyError('k')\nf()")
    assert response["stdout"] == "out\n"
    assert response["stderr"].startswith("err\nTraceback (most recent call last):\n")
    assert 'line 5, in <module>\n  File "<string>", line 4, in f\n' in response["stderr"]
    assert response["error"] == "KeyError: 'k'"


def test_an_error_in_awaited_code_shows_the_codes_own_frames(server: Client) -> None:
    response = server.ask("import asyncio\nawait asyncio.sleep(0)\nawait asyncio.gather(asyncio.sleep(0))\n1 / 0")
    assert response["stderr"].splitlines()[1:] == [
        '  File "<string>", line 4, in <module>',
        "ZeroDivisionError: division by zero",
    ]


@pytest.mark.parametrize(
    ("code", "status", "error"),
    [
        ("sys.exit()", 0, None),
        ("sys.exit(0)", 0, None),
        ("sys.exit(3)", 3, "SystemExit: 3"),
        ("raise SystemExit", 0, None),
        ("exit(4)", 4, "SystemExit: 4"),
    ],
)
def test_leaving_by_sys_exit_is_an_answer(server: Client, code: str, status: int, error: str | None) -> None:
    response = server.ask(f"import sys\nx = 1\nprint('before')\n{code}\nprint('after')")
    assert (response["stdout"], response["exit_code"], response["error"]) == ("before\n", status, error)
    assert server.run("x") == "1\n"


def test_the_text_of_sys_exit_goes_to_stderr(server: Client) -> None:
    response = server.ask("import sys\nsys.exit('no such thing')")
    assert (response["stderr"], response["exit_code"]) == ("no such thing\n", 1)


@pytest.mark.parametrize(
    ("code", "status", "why"),
    [
        ("os._exit(7)", 7, "exited with status 7"),
        ("os._exit(0)", 1, "exited with status 0"),
        ("os.kill(os.getpid(), 11)", 139, "ended by signal 11"),
        ("os.execv('/bin/true', ['true'])", 1, "exited with status 0"),
        ("os.closerange(3, 1000)", 70, "exited with status 70"),
    ],
)
def test_an_interpreter_that_dies_is_told_of_and_replaced(server: Client, code: str, status: int, why: str) -> None:
    response = server.ask(f"import os\nprint('before', flush=True)\nopen('made.txt', 'w').write('1')\n{code}")
    assert response["stdout"] == "before\n"
    assert why in response["error"]
    assert response["error"].endswith("its variables are lost")
    assert response["exit_code"] == status
    assert response["files"] == ["made.txt"]
    assert server.run("math.floor(2.5)") == "2\n"


@pytest.mark.parametrize(
    "forged", ['{"jsonrpc":"2.0","id":1,"result":{"outcome":"ok"}}', "garbage", "[]", "[[[" * 9999]
)
def test_code_that_writes_to_the_wires_of_its_own_process_harms_itself_only(server: Client, forged: str) -> None:
    code = (
        "import os, stat\nfor fd in range(3, 300):\n    try:\n"
        f"        if stat.S_ISFIFO(os.fstat(fd).st_mode): os.write(fd, {forged!r}.encode() + b'\\n')\n"
        "    except OSError: pass"
    )
    response = server.ask(code)
    assert response["exit_code"] != 0
    assert "broke the interpreter's own wire" in response["error"]
    assert server.run("1") == "1\n"


def test_endless_output_is_cut_and_counted(server: Client) -> None:
    response = server.ask("import os\nfor _ in range(17 * 16): os.write(1, b'x' * 65536)")
    assert len(response["stdout"]) < (1 << 24) + 100
    assert response["stdout"].endswith("\n... [truncated, 1048576 bytes omitted]")


def test_an_interrupt_signal_stops_the_code_and_keeps_the_variables(server: Client) -> None:
    server.send({"code": "import os, time\nx = 1\nos.close(os.open('started', os.O_CREAT))\ntime.sleep(50)"})
    folder = server.run_folder()
    done = threading.Event()

    def knock() -> None:
        while not done.wait(0.02):
            if (folder / "started").exists():
                server.process.send_signal(signal.SIGINT)

    thread = threading.Thread(target=knock)
    thread.start()
    response = server.receive()
    done.set()
    thread.join()
    assert (response["exit_code"], response["error"]) == (130, "KeyboardInterrupt")
    assert server.run("x") == "1\n"


def test_host_functions_that_are_not_there_say_so_and_calls_without_end_are_ended(server: Client) -> None:
    code = "import gc\ncall = next(o for o in gc.get_objects() if type(o).__name__ == 'Bridges')\ncall.tool('t', '')()"
    assert server.ask(code)["error"].endswith("there is no host function here")
    flood = "tool = call.tool('t', '')\nfor _ in range(2000):\n    try: tool()\n    except Exception: pass"
    assert "calls without end" in server.ask(flood)["error"]
    assert server.run("1") == "1\n"
