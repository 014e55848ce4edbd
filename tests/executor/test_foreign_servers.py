"""Servers that are commands of somebody's: slow, broken, lying. None of it hangs the host or is believed."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from tests.executor.kinds import COMMAND, executing

from cloche import ProtocolError, REPLSettings, StartError
from cloche.executor import REPLRequest, ServerProcess
from cloche.executor.response import read_response

QUICK = REPLSettings(warmup_timeout_seconds=20, health_check_timeout_seconds=5)

SKELETON = """
import json, os, sys, time
started = os.open("starts", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
os.write(started, b"x")
first = os.fstat(started).st_size == 1

def ready():
    print(">>> REPL_READY <<<", flush=True)

def read():
    lines = []
    for line in sys.stdin:
        if line.strip() == ">>> REQUEST_END <<<":
            return json.loads(lines[-1])
        lines.append(line)
    sys.exit(0)

def answer(message, request=None, **fields):
    message = {**message, **({} if request is None else {"id": request["id"]}), **fields}
    print(">>> RESPONSE_START <<<", json.dumps(message), ">>> RESPONSE_END <<<", sep="\\n", flush=True)

GOOD = {"stdout": "fine", "stderr": "", "exit_code": 0, "state": None, "files": [], "error": None}
"""


def scripted(folder: Path, body: str) -> list[str]:
    """A server that does as `body` says. `starts` has a letter for each that was started."""
    path = folder / "server.py"
    path.write_text(SKELETON + textwrap.dedent(body))
    return [sys.executable, "-I", str(path)]


def starts(folder: Path) -> int:
    return (folder / "starts").stat().st_size


# -- servers that do not start -------------------------------------------------------------------


def test_a_command_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with executing(QUICK, servers=1, command=["/nonexistent/server"]) as execute:
        with pytest.raises(StartError, match="'/nonexistent/server' cannot be started"):
            execute("1")
        health = execute.until(lambda health: health.failed > 0)
        assert health.status == "degraded"
        assert health.last_error is not None


def test_a_server_that_ends_at_once_is_told_of_with_its_last_words(tmp_path: Path) -> None:
    command = scripted(tmp_path, "sys.exit('no numpy here')")
    with executing(QUICK, servers=1, command=command, cwd=str(tmp_path)) as execute:
        with pytest.raises(StartError, match="exited with status 1: no numpy here"):
            execute("1")
        assert execute.until(lambda health: health.failed > 0).status == "degraded"


def test_a_server_that_never_gets_ready_is_given_up_after_the_warmup_timeout(tmp_path: Path) -> None:
    settings = REPLSettings(warmup_timeout_seconds=0.3, enabled=False)
    command = scripted(tmp_path, "print('importing', file=sys.stderr, flush=True)\ntime.sleep(100)")
    with executing(settings, command=command, cwd=str(tmp_path)) as execute:
        with pytest.raises(StartError, match=r"not ready within 0.3 s \(importing\)") as caught:
            execute("1")
        assert caught.value.remedy is not None
        assert "REPL_WARMUP_TIMEOUT_SECONDS" in caught.value.remedy


def test_servers_come_back_after_a_failure(tmp_path: Path) -> None:
    body = "if first: sys.exit(3)\nready()\nwhile True:\n    request = read()\n    answer(GOOD, request)"
    with executing(QUICK, servers=1, command=scripted(tmp_path, body), cwd=str(tmp_path)) as execute:
        health = execute.until(lambda health: health.ready == 1)
        assert (health.status, health.failed) == ("ok", 1)
        assert execute.run("1") == "fine"


# -- what is tried again, and what never is --------------------------------------------------------


def test_a_request_that_no_server_accepted_goes_to_another_one(tmp_path: Path) -> None:
    body = """
    ready()
    if first:
        os.close(0)
        os._exit(0)
    while True:
        answer(GOOD, read())
    """
    settings = REPLSettings(enabled=False)
    with executing(settings, command=scripted(tmp_path, body), cwd=str(tmp_path)) as execute:
        assert execute.run("1") == "fine"
        assert starts(tmp_path) == 2
        assert "did not accept a request" in str(execute.health().last_error)


def test_a_request_that_two_servers_did_not_accept_is_an_error(tmp_path: Path) -> None:
    settings = REPLSettings(enabled=False)
    command = scripted(tmp_path, "ready()\nos.close(0)\nos._exit(0)")
    with executing(settings, command=command, cwd=str(tmp_path)) as execute:
        with pytest.raises(StartError, match="two servers in turn did not accept the request"):
            execute("1")
        assert starts(tmp_path) == 2


def test_a_request_that_may_have_run_is_never_tried_again(tmp_path: Path) -> None:
    body = "ready()\nanswer(GOOD, read())\nread()\nos.write(2, b'ran out of luck')\nos._exit(9)"
    settings = REPLSettings(enabled=False)
    with executing(settings, command=scripted(tmp_path, body), cwd=str(tmp_path)) as execute:
        response = execute("1")
        assert (response.exit_code, response.state) == (137, None)
        assert response.error is not None
        assert "the server ended before it answered" in response.error
        assert "exited with status 9: ran out of luck" in response.error
        assert starts(tmp_path) == 1


def test_a_server_that_does_not_pass_the_health_check_is_not_asked(tmp_path: Path) -> None:
    settings = REPLSettings(enabled=False, health_check_timeout_seconds=0.3)
    body = "ready()\nif first: time.sleep(100)\nwhile True:\n    answer(GOOD, read())"
    with executing(settings, command=scripted(tmp_path, body), cwd=str(tmp_path)) as execute:
        assert execute.run("1") == "fine"
        assert starts(tmp_path) == 2
        assert "health check" in str(execute.health().last_error)


# -- servers that lie ----------------------------------------------------------------------------

GOOD: dict[str, Any] = {"stdout": "", "stderr": "", "exit_code": 0, "state": None, "files": [], "error": None}


@pytest.mark.parametrize(
    "message",
    [
        None,
        [],
        {},
        {**GOOD, "stdout": None},
        {**GOOD, "stderr": 5},
        {**GOOD, "exit_code": True},
        {**GOOD, "exit_code": "0"},
        {**GOOD, "exit_code": 10**30},
        {**GOOD, "state": 5},
        {**GOOD, "state": "not base64"},
        {**GOOD, "state": "AAA"},
        {**GOOD, "state": "A" * 2000},
        {**GOOD, "state": "äöüß"},
        {**GOOD, "files": "a"},
        {**GOOD, "files": [5]},
        {**GOOD, "files": [""]},
        {**GOOD, "files": ["/etc/passwd"]},
        {**GOOD, "files": ["a/../../b"]},
        {**GOOD, "files": ["a\0b"]},
        {**GOOD, "files": ["a"] * 10_001},
        {**GOOD, "error": 5},
        {**GOOD, "state_errors": []},
        {**GOOD, "state_errors": {"x": 5}},
    ],
)
def test_a_response_that_is_none_is_refused(message: Any) -> None:
    with pytest.raises(ProtocolError):
        read_response(message, 1000)


def test_fields_that_are_not_known_are_passed_over() -> None:
    assert read_response({**GOOD, "more": {"deep": []}}, 1000).exit_code == 0


@pytest.mark.parametrize(
    "line",
    [
        "print('>>> RESPONSE_START <<<', '{oops', '>>> RESPONSE_END <<<', sep='\\n', flush=True)",
        "answer(GOOD, id='another')",
        "answer(GOOD, request, files=['../x'])",
        "answer({}, request)",
        "print('>>> RESPONSE_START <<<', '[' * 100000, '>>> RESPONSE_END <<<', sep='\\n', flush=True)",
        "[print('>>> RESPONSE_START <<<\\n' + 'x' * (1 << 20), end='', flush=True) for _ in range(1 << 20)]",
    ],
    ids=["no JSON", "another id", "a path out of the folder", "no fields", "nesting", "without end"],
)
def test_a_server_that_breaks_the_protocol_is_ended(tmp_path: Path, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cloche.executor.process.RESPONSE_SLACK", 1 << 22)
    body = f"ready()\nanswer(GOOD, read())\nrequest = read()\n{line}\ntime.sleep(100)"
    settings = REPLSettings(enabled=False, state_max_size_mb=1)
    with executing(settings, command=scripted(tmp_path, body), cwd=str(tmp_path)) as execute:
        try:
            response = execute("1", timeout=20)
        except ProtocolError as exc:
            said = str(exc)
        else:
            assert response.exit_code == 137
            said = str(response.error)
        assert "protocol" in said or "response" in said


def test_an_answer_to_nothing_ends_the_server(tmp_path: Path) -> None:
    with executing(
        QUICK, servers=1, command=scripted(tmp_path, "ready()\nanswer(GOOD)\nread()"), cwd=str(tmp_path)
    ) as execute:
        health = execute.until(lambda health: health.failed > 0)
        assert "answered although nothing was asked" in str(health.last_error)


# -- the connection ------------------------------------------------------------------------------


def on_one_server(folder: Path, test: Callable[[ServerProcess], Awaitable[None]], **variables: str) -> None:
    """Run a test's coroutine with a real server of ours."""

    async def work() -> None:
        env = {**os.environ, "PRELOAD_MODULES": "math", "DEBUG": "", **variables}
        server = ServerProcess(COMMAND, QUICK, cwd=folder, env=env)
        async with anyio.create_task_group() as group:
            await group.start(server.run)
            await server.start()
            await test(server)
            await server.destroy()

    anyio.run(work)


def test_requests_are_pipelined_and_answered_in_order(tmp_path: Path) -> None:
    async def test(server: ServerProcess) -> None:
        done: list[int] = []

        async def one(number: int) -> None:
            code = f"seen = [*globals().get('seen', []), {number}]\nseen"
            response = await server.serve(REPLRequest(code=code), 20)
            assert response.stdout == f"{list(range(number + 1))}\n"
            done.append(number)

        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(one, number)
                await anyio.lowlevel.checkpoint()
        assert done == list(range(20))

    on_one_server(tmp_path, test)


def test_large_states_pass_both_ways_at_once(tmp_path: Path) -> None:
    """While a response is being written, the next request is: nobody waits for the other."""

    async def test(server: ServerProcess) -> None:
        first = await server.serve(REPLRequest(code="import os\nx = os.urandom(3_000_000)", capture_state=True), 20)
        assert first.state is not None

        async def one() -> None:
            response = await server.serve(REPLRequest(code="len(x)", state=first.state, capture_state=True), 20)
            assert (response.stdout, response.state) == ("3000000\n", first.state)

        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(one)

    on_one_server(tmp_path, test)


def test_a_cancelled_request_that_was_half_written_ends_the_server(tmp_path: Path) -> None:
    async def test(server: ServerProcess) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(server.serve, REPLRequest(code="import time\ntime.sleep(100)"), 50)
            await anyio.lowlevel.checkpoint()
            with anyio.move_on_after(0.3) as scope:
                await server.serve(REPLRequest(code="1", state="A" * (1 << 24)), 50)
            assert scope.cancelled_caught
        assert server.ended is not None

    on_one_server(tmp_path, test)


def test_a_server_ends_code_that_outlives_its_own_limit(tmp_path: Path) -> None:
    async def test(server: ServerProcess) -> None:
        answer = await server._ask({"code": "print('a', flush=True)\nwhile True: pass", "timeout": 0.2})
        assert (answer["stdout"], answer["exit_code"]) == ("a\n", 124)
        assert answer["error"] == "Execution timed out after 0.2 s"
        assert (await server.serve(REPLRequest(code="1"), 20)).stdout == "1\n"

    on_one_server(tmp_path, test)


def test_every_json_text_is_one_line(tmp_path: Path) -> None:
    async def test(server: ServerProcess) -> None:
        text = "\u2028\u2029\x85\n>>> REQUEST_END <<<\n>>> RESPONSE_END <<<\n\ud800"
        assert (await server.serve(REPLRequest(code=f"t = {text!a}\nprint(ascii(t))"), 20)).stdout == ascii(text) + "\n"
        response = await server.serve(REPLRequest(code="t"), 20)
        assert response.stdout == repr(text).encode("utf-8", "backslashreplace").decode() + "\n"

    assert json.dumps("\n") == '"\\n"'
    on_one_server(tmp_path, test)
