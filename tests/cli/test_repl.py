"""``cloche repl`` behind a pipe: one session, cells and commands line by line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import Cloche, Finished


def talk(cloche: Cloche, *lines: str, options: tuple[str | Path, ...] = ()) -> Finished:
    return cloche("repl", *options, stdin="".join(f"{line}\n" for line in lines).encode())


def documents(done: Finished) -> list[Any]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_variables_stay_from_cell_to_cell(cloche: Cloche) -> None:
    done = talk(cloche, "x = 20", "def double(n):", "    return 2 * n", "", "double(x) + 2")
    assert (done.code, done.stdout, done.stderr) == (0, "42\n", "")


def test_an_error_leaves_the_session_alive(cloche: Cloche) -> None:
    done = talk(cloche, "x = 1", "1/0", "x")
    assert (done.code, done.stdout) == (0, "1\n")
    assert done.stderr.count("ZeroDivisionError") == 1


def test_a_traceback_is_printed_once(cloche: Cloche) -> None:
    done = talk(cloche, "1/0", "print('next')")
    assert done.stderr.count("Traceback") == 1


def test_what_cannot_be_compiled_is_reported_by_the_guest(cloche: Cloche) -> None:
    done = talk(cloche, "1 +* 2", "'still here'")
    assert done.stdout == "'still here'\n"
    assert "SyntaxError" in done.stderr


def test_a_cell_that_kills_the_session_says_that_variables_are_gone(cloche: Cloche) -> None:
    done = talk(cloche, "x = 1", "import os; os._exit(3)", "'x' in globals()")
    assert done.stdout == "False\n"
    assert "its variables are gone" in done.stderr


def test_vars_lists_names_and_types(cloche: Cloche) -> None:
    assert talk(cloche, "x = 1", "name = 'a'", ":vars").stdout == "x     int\nname  str\n"


def test_reset_forgets_everything_but_the_context(cloche: Cloche) -> None:
    (cloche.cwd / "text").write_text("given")
    lines = ("x = 1", "open('f', 'w').close()", ":reset", ":vars", ":files", "context")
    done = talk(cloche, *lines, options=("--context", "text"))
    assert done.stdout == "the session starts afresh\nno variables yet\nthe workspace is empty\n'given'\n"


def test_files_go_in_and_out(cloche: Cloche) -> None:
    (cloche.cwd / "in put").write_bytes(b"data")
    lines = (
        ":put 'in put' data",
        "n = open('copy', 'w').write(open('data').read())",
        ":files",
        ":get copy",
        ":get copy named",
    )
    done = talk(cloche, *lines)
    assert done.stdout == "put data\ncopy  4 bytes\ndata  4 bytes\nsaved copy\nsaved named\n"
    assert (cloche.cwd / "copy").read_bytes() == (cloche.cwd / "named").read_bytes() == b"data"


def test_the_deadline_can_be_changed(cloche: Cloche) -> None:
    done = talk(cloche, ":timeout 300ms", "while True: pass", "", "'alive'")
    assert done.stdout == "each cell has 300 ms\n'alive'\n"
    assert "timeout" in done.stderr


@pytest.mark.parametrize("farewell", [":quit", "exit()", "quit", "exit"])
def test_a_farewell_ends_the_session(cloche: Cloche, farewell: str) -> None:
    done = talk(cloche, "print('before')", farewell, "print('after')")
    assert (done.code, done.stdout) == (0, "before\n")
    assert cloche.left_behind() == []


def test_help_lists_every_command(cloche: Cloche) -> None:
    from cloche.cli.repl_commands import COMMANDS

    assert [line.split()[0] for line in talk(cloche, ":help").stdout.splitlines()] == list(COMMANDS)


@pytest.mark.parametrize(
    "line",
    [
        ":nope",
        ":",
        ":get",
        ":get a b c",
        ":get ../x",
        ":get missing",
        ":put",
        ":put missing",
        ":timeout soon",
        ":vars x",
        ":put 'x",
    ],
)
def test_a_wrong_command_is_refused_and_the_session_goes_on(cloche: Cloche, line: str) -> None:
    done = talk(cloche, line, "'still here'")
    assert (done.code, done.stdout) == (0, "'still here'\n")
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr


def test_json_is_one_document_a_line(cloche: Cloche) -> None:
    done = talk(cloche, "x = 1", "x", ":vars", "1/0", ":nope", options=("--json",))
    first, second, variables, error, refusal = documents(done)
    assert (first["outcome"], second["value"], error["outcome"]) == ("ok", "1", "error")
    assert variables == {"variables": {"x": "int"}}
    assert refusal["success"] is False
    assert done.stderr == ""


def test_input_that_is_no_text_is_refused(cloche: Cloche) -> None:
    done = cloche("repl", stdin=b"print('fine')\n\xff\n")
    assert (done.code, done.stdout) == (1, "fine\n")
    assert "line 2 of standard input is not UTF-8" in done.stderr


def test_options_choose_the_sandbox(cloche: Cloche) -> None:
    (cloche.cwd / "data").write_text("x")
    lines = ("import os", "os.environ['GIVEN'], os.listdir()")
    assert talk(cloche, *lines, options=("-e", "GIVEN=1", "-f", "data")).stdout == "('1', ['data'])\n"
