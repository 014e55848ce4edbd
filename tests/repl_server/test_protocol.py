"""Seed 004, Protocol Specification: request, response, delimiters."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.repl_server.client import BY_PATH, FIELDS, GUEST, READY, Client


def test_the_response_has_the_six_fields_of_the_document(server: Client) -> None:
    response = server.ask("print('Hello, World!')", capture_state=True)
    state = response.pop("state")
    assert isinstance(state, str)
    assert response == {"stdout": "Hello, World!\n", "stderr": "", "exit_code": 0, "files": [], "error": None}


def test_the_state_is_null_unless_it_is_asked_for(server: Client) -> None:
    assert server.ask("x = 1")["state"] is None


def test_frames_are_marker_lines_around_one_line_of_json(server: Client) -> None:
    server.write(b'>>> REQUEST_START <<<\n{"code": "1"}\n>>> REQUEST_END <<<\n')
    lines = [server.stdout.readline() for _ in range(3)]
    assert lines[0] == b">>> RESPONSE_START <<<\n"
    assert json.loads(lines[1])["stdout"] == "1\n"
    assert lines[2] == b">>> RESPONSE_END <<<\n"


def test_a_request_may_come_in_any_pieces(server: Client) -> None:
    for byte in b'>>> REQUEST_START <<<\r\n{\n  "code":\n  "print(7)"\n}\r\n>>> REQUEST_END <<<\r\n':
        server.write(bytes([byte]))
    assert server.receive()["stdout"] == "7\n"


def test_several_requests_may_be_written_ahead(server: Client) -> None:
    for number in range(20):
        server.send({"code": f"print({number})", "id": number})
    answers = [server.receive() for _ in range(20)]
    assert [answer["stdout"] for answer in answers] == [f"{number}\n" for number in range(20)]
    assert [answer["id"] for answer in answers] == list(range(20))


def test_lines_between_frames_are_passed_over(server: Client) -> None:
    server.write(b"\nnoise\n" + b"x" * 100_000 + b"\n>>> REQUEST_END <<<\n")
    assert server.run("print(1)") == "1\n"


def test_a_request_that_is_begun_again_replaces_the_one_that_was_not_ended(server: Client) -> None:
    server.write(b'>>> REQUEST_START <<<\n{"code": "print(\'half')
    server.write(b"\n")
    assert server.run("print('whole')") == "whole\n"


@pytest.mark.parametrize("marker", ["REQUEST_START", "REQUEST_END", "RESPONSE_START", "RESPONSE_END", "REPL_READY"])
def test_markers_in_the_users_data_are_data(server: Client, marker: str) -> None:
    text = f"\n>>> {marker} <<<\n"
    response = server.ask(f"import sys\nt = {text!r}\nprint(t)\nprint(t, file=sys.stderr)", capture_state=True)
    assert response["stdout"] == text + "\n"
    assert response["stderr"] == text + "\n"
    assert server.run("print(t)", state=response["state"]) == text + "\n"


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        ([], "it must be an object"),
        ({}, "it has no code"),
        ({"code": 5}, "code must be a string"),
        ({"code": None}, "code must be a string"),
        ({"code": "1", "state": 5}, "state must be a string"),
        ({"code": "1", "capture_state": "yes"}, "capture_state must be true or false"),
        ({"code": "1", "partial_state": 1}, "partial_state must be true or false"),
    ],
)
def test_a_wrong_request_is_answered_and_the_server_lives_on(server: Client, request_: object, problem: str) -> None:
    server.send(request_)
    response = server.receive()
    assert response["error"] == f"Invalid request: {problem}"
    assert response["exit_code"] == 1
    assert server.run("1") == "1\n"


def test_what_is_no_json_is_answered_and_the_server_lives_on(server: Client) -> None:
    server.write(b">>> REQUEST_START <<<\n{oops}\n>>> REQUEST_END <<<\n")
    assert server.receive()["error"].startswith("Invalid request: it is not JSON")
    server.write(b">>> REQUEST_START <<<\n\xff\n>>> REQUEST_END <<<\n")
    assert server.receive()["error"].startswith("Invalid request: it is not JSON")
    assert server.run("1") == "1\n"


def test_optional_fields_may_be_null(server: Client) -> None:
    assert server.run("1", state=None, capture_state=None, partial_state=None) == "1\n"


def test_lone_surrogates_and_nul_survive_both_ways(server: Client) -> None:
    assert server.run("s = '\\ud800\\0\\u20ac'\nprint(ascii(s))\ns") == "'\\ud800\\x00\\u20ac'\n'\\ud800\\x00€'\n"


@pytest.mark.parametrize(
    "command", [BY_PATH, [sys.executable, "-m", "cloche_guest.repl_server"]], ids=["by path", "as a module"]
)
def test_it_starts_by_path_and_as_a_module_and_ends_with_its_input(folder: Path, command: list[str]) -> None:
    (folder / "random.py").write_text("raise SystemExit('a file of the working folder was imported')")
    client = Client(folder, command, PYTHONPATH=str(GUEST.parent), PRELOAD_MODULES="random")
    assert client.stdout.readline() == READY
    assert client.run("random.__name__") == "'random'\n"
    assert client.close() == b""


def test_a_request_that_is_piped_in_is_answered_although_the_input_has_ended(folder: Path) -> None:
    client = Client(folder)
    client.send({"code": "print('piped')"})
    client.stdin.close()
    client.wait_until_ready()
    assert client.receive()["stdout"] == "piped\n"
    assert client.stdout.read() == b""
    assert client.process.wait(10) == 0
    client.stdout.close()
    client.stderr.close()


def test_the_fields_are_in_the_order_of_the_document(server: Client) -> None:
    assert list(server.ask("1")) == FIELDS
