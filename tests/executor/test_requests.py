"""Seed 004 as an executor carries it out: one server for each request, behind a wall or as a command."""

from __future__ import annotations

import base64
import pickle

import lz4.frame
import pytest
from tests.executor.kinds import Executing

from cloche import ExecutionTimeoutError
from cloche.errors import PolicyError, RequestError


def test_code_runs_and_its_output_state_and_files_come_back(execute: Executing) -> None:
    response = execute(
        "print('Hello, World!')\nx = 1\nwith open('output.txt', 'w') as f: f.write('1')", capture_state=True
    )
    assert (response.stdout, response.stderr, response.exit_code, response.error) == ("Hello, World!\n", "", 0, None)
    assert response.files == ("output.txt",)
    assert response.state is not None
    assert pickle.loads(lz4.frame.decompress(base64.b64decode(response.state))) == {"x": 1}
    assert dict(response.state_errors) == {}


def test_a_last_expression_is_shown(execute: Executing) -> None:
    assert execute.run("x = 20\nprint('sum')\nx + 1") == "sum\n21\n"


def test_modules_are_there_without_being_imported(execute: Executing) -> None:
    assert execute.run("math.floor(2.5), json.dumps([]), sys.argv and 1") == "(2, '[]', 1)\n"


def test_variables_are_carried_from_one_server_to_another_by_the_state(execute: Executing) -> None:
    state = execute(
        "x = 1\ndef f(): return x\nclass A:\n    def g(self): return f()\na = A()", capture_state=True
    ).state
    for number in range(2, 5):
        response = execute(f"x = {number}\na.g()", state=state, capture_state=True)
        assert (response.stdout, response.error) == (f"{number}\n", None)
        state = response.state


def test_nothing_else_is_carried_from_one_request_to_the_next(execute: Executing) -> None:
    for _ in range(3):
        assert execute.run("print('x' in globals(), 'seen' in sys.modules)\nx = 1\nsys.modules['seen'] = sys") == (
            "False False\n"
        )


def test_names_that_sessions_reserve_are_the_users(execute: Executing) -> None:
    response = execute("context = 1\nllm_query = 2", capture_state=True)
    assert execute.run("context, llm_query", state=response.state) == "(1, 2)\n"


def test_what_cannot_be_saved_costs_only_itself_and_is_named(execute: Executing) -> None:
    response = execute("import threading\nx = 1\nlock = [threading.Lock()]\ng = (i for i in [])", capture_state=True)
    assert response.error is None
    assert dict(response.state_errors) == {"lock": "cannot pickle '_thread.lock' object"}
    assert execute.run("x", state=response.state) == "1\n"


def test_a_syntax_error_is_that_of_the_document(execute: Executing) -> None:
    response = execute("x =")
    assert (response.stderr, response.exit_code) == ("SyntaxError: invalid syntax (line 1)", 1)
    assert response.error == "SyntaxError: invalid syntax"


def test_a_runtime_error_is_that_of_the_document(execute: Executing) -> None:
    response = execute("1 / 0")
    assert response.stderr == (
        'Traceback (most recent call last):\n  File "<string>", line 1, in <module>\n'
        "ZeroDivisionError: division by zero"
    )
    assert (response.exit_code, response.error) == (1, "ZeroDivisionError: division by zero")


def test_the_state_of_code_that_failed_or_exited_is_saved(execute: Executing) -> None:
    for end, status in (("1 / 0", 1), ("sys.exit(0)", 0), ("sys.exit(4)", 4)):
        response = execute(f"import sys\nx = 1\n{end}", capture_state=True)
        assert response.exit_code == status
        assert execute.run("x", state=response.state) == "1\n"


def test_output_of_children_c_code_and_raw_writes_is_captured(execute: Executing) -> None:
    code = (
        "import ctypes, os, subprocess\nsubprocess.run(['echo', 'child'])\nos.write(1, b'raw\\n')\n"
        "ctypes.CDLL(None).printf(b'from c\\n');"
    )
    assert execute.run(code) == "child\nraw\nfrom c\n"


@pytest.mark.parametrize(
    ("end", "statuses"), [("os._exit(7)", {7}), ("os.kill(os.getpid(), 11)", {139, 137}), ("os._exit(0)", {0, 1})]
)
def test_code_that_kills_its_server_is_answered_and_the_server_replaced(
    execute: Executing, end: str, statuses: set[int]
) -> None:
    response = execute(f"import os\nx = 1\n{end}", capture_state=True)
    assert response.exit_code in statuses
    assert response.error is not None
    assert response.state is None
    assert execute.run("1") == "1\n"


def test_a_timeout_kills_the_server_raises_and_another_one_serves(execute: Executing) -> None:
    with pytest.raises(ExecutionTimeoutError, match=r"Execution timed out after 0\.4 s") as caught:
        execute("while True:\n    try:\n        while True: pass\n    except BaseException: pass", timeout=0.4)
    assert isinstance(caught.value, TimeoutError)
    assert caught.value.result.outcome == "timeout"
    assert execute.run("1") == "1\n"


def test_restoring_counts_against_the_timeout_and_never_hangs(execute: Executing) -> None:
    with pytest.raises(ExecutionTimeoutError):
        execute("1", state=encoded({"x": Sleeps()}), timeout=0.4)


def test_saving_counts_against_the_timeout_and_never_hangs(execute: Executing) -> None:
    code = "class Slow:\n    def __reduce__(self):\n        while True: pass\ns = Slow()"
    with pytest.raises(ExecutionTimeoutError):
        execute(code, capture_state=True, timeout=0.4)


class Sleeps:
    def __reduce__(self) -> tuple[object, ...]:
        import time

        return time.sleep, (60,)


class Exits:
    def __reduce__(self) -> tuple[object, ...]:
        import os

        return os._exit, (3,)


def encoded(value: object) -> str:
    return base64.b64encode(lz4.frame.compress(pickle.dumps(value))).decode()


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ("AAAA", "neither an LZ4 frame nor a pickle"),
        (encoded({"x": list(range(1000))})[:100], "damaged"),
        (encoded([1]), "not variables by their names"),
    ],
)
def test_a_state_that_is_none_is_refused_and_the_code_not_run(execute: Executing, state: str, why: str) -> None:
    response = execute("print('ran')", state=state)
    assert (response.stdout, response.exit_code) == ("", 1)
    assert response.error is not None
    assert response.error.startswith("State restoration failed: ")
    assert why in response.error


def test_a_malicious_state_ends_its_own_server_only(execute: Executing) -> None:
    response = execute("print('ran')", state=encoded({"x": Exits()}))
    assert response.exit_code != 0
    assert response.stdout == ""
    assert execute.run("1") == "1\n"


def test_many_requests_at_once_are_all_served(execute: Executing) -> None:
    answers = execute.all_at_once([f"print({number})" for number in range(8)])
    assert [answer.stdout for answer in answers] == [f"{number}\n" for number in range(8)]


def test_the_pool_is_filled_again_in_the_background(execute: Executing) -> None:
    execute.run("1")
    health = execute.until(lambda health: health.ready == 2 and not health.busy)
    assert (health.status, health.enabled) == ("ok", True)
    assert health.served > 0


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({"code": 5}, RequestError),
        ({"code": "1", "state": b"AAAA"}, RequestError),
        ({"code": "1", "timeout": 0}, PolicyError),
        ({"code": "1", "timeout": True}, PolicyError),
        ({"code": "1", "timeout": float("nan")}, PolicyError),
    ],
)
def test_a_wrong_request_is_refused_before_any_server_is_used(execute: Executing, arguments: dict, kind: type) -> None:  # type: ignore[type-arg]  # any arguments
    served = execute.health().served
    with pytest.raises(kind):
        execute(**arguments)
    assert execute.health().served == served
