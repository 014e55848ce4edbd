"""Seed 004, State Persistence Integration: capture, restoration, what is excluded; and what could go wrong with it."""

from __future__ import annotations

import base64
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import lz4.frame
import pytest
from tests.repl_server.client import Client


def saved(server: Client, code: str, **fields: Any) -> str:
    response = server.ask(code, capture_state=True, **fields)
    assert response["error"] is None, response
    assert isinstance(response["state"], str)
    return response["state"]


def contents(state: str) -> dict[str, Any]:
    """As the document reads it; of plain data that this test made itself."""
    found: dict[str, Any] = pickle.loads(lz4.frame.decompress(base64.b64decode(state)))
    return found


def encoded(value: object) -> str:
    return base64.b64encode(lz4.frame.compress(pickle.dumps(value))).decode()


# -- capture and restoration ---------------------------------------------------------------------


def test_the_state_is_base64_of_lz4_of_one_pickled_dict(server: Client) -> None:
    assert contents(saved(server, "x = 1\ny = {'a': [2.5, None]}")) == {"x": 1, "y": {"a": [2.5, None]}}


def test_a_state_that_another_program_made_by_the_document_is_read(server: Client) -> None:
    assert server.run("x + 1", state=encoded({"x": 41})) == "42\n"


def test_a_state_is_restored_in_another_server(server: Client, folder: Path) -> None:
    state = saved(server, "x = [1, 2]\nclass A:\n    def f(self): return x\na = A()")
    other = Client(folder)
    other.wait_until_ready()
    assert other.run("x.append(3)\na.f()", state=state) == "[1, 2, 3]\n"
    other.close()


def test_variables_stay_from_one_request_to_the_next(server: Client) -> None:
    server.run("x = 1")
    assert server.run("x") == "1\n"


def test_shared_references_and_cycles_are_kept(server: Client) -> None:
    state = saved(server, "a = [1]\nb = {'a': a}\na.append(a)")
    assert server.run("a is b['a'], a[1] is a", state=state) == "(True, True)\n"


def test_restored_functions_closures_and_methods_see_the_live_variables(server: Client) -> None:
    state = saved(
        server,
        "x = 1\ndef f(): return x\ndef outer():\n    y = 10\n    return lambda: x + y\ng = outer()\n"
        "class Base:\n    def get(self): return x\nclass C(Base):\n    def get(self): return super().get()\nc = C()",
    )
    server.run("del x, f, outer, g, Base, C, c")
    assert server.run("x = 2\nf(), g(), c.get()", state=state) == "(2, 12, 2)\n"


def test_a_module_that_a_function_needs_comes_back_with_it(server: Client) -> None:
    state = saved(server, "import textwrap as tw\ndef f(): return tw.dedent('  a')")
    assert server.run("del tw, f") == ""
    assert server.run("f()", state=state) == "'a'\n"


def test_a_user_value_that_shadows_a_preload_or_a_builtin_is_kept(server: Client) -> None:
    state = saved(server, "np = 5\nid = 7")
    server.run("import numpy as np\ndel id")
    assert server.run("np, id", state=state) == "(5, 7)\n"
    server.run("del id")


def test_the_state_of_code_that_failed_is_captured_too(server: Client) -> None:
    response = server.ask("x = 1\n1 / 0", capture_state=True)
    assert response["error"] == "ZeroDivisionError: division by zero"
    assert contents(response["state"]) == {"x": 1}


# -- what's excluded -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        "_private = 1\n__hidden = 2",
        "import json as j",
        "f = (i for i in [])",
        "async def a():\n    yield\nf = a()\ndel a",
        "f = open('/dev/null')",
        "f = open('/dev/null', 'rb', 0)",
        "import tempfile\nf = tempfile.NamedTemporaryFile()",
        "import tempfile\nf = tempfile.TemporaryFile()",
        "len = len",
    ],
)
def test_what_the_document_excludes_is_left_out_without_an_error(server: Client, code: str) -> None:
    assert contents(saved(server, f"x = 1\n{code}")) == {"x": 1}


def test_texts_that_only_look_like_files_are_saved(server: Client) -> None:
    state = saved(server, "import io\ns = io.StringIO('text')")
    assert server.run("s.read()", state=state) == "'text'\n"


# -- what cannot be saved ------------------------------------------------------------------------


def test_a_value_that_cannot_be_pickled_gives_the_reply_of_the_document(server: Client) -> None:
    response = server.ask("x = 1\nbad = [i for i in [(i for i in [])]]\nprint('...')", capture_state=True)
    assert response == {
        "stdout": "...\n",
        "stderr": "",
        "exit_code": 0,
        "state": None,
        "files": [],
        "error": "State serialization failed: cannot pickle 'generator' object",
    }


def test_with_partial_state_it_costs_only_itself_and_is_named(server: Client) -> None:
    code = "import threading\nx = [1]\ny = x\nlock = threading.Lock()\nbad = {'l': lock, 'x': x}"
    response = server.ask(code, capture_state=True, partial_state=True)
    assert response["error"] is None
    assert response["exit_code"] == 0
    assert response["state_errors"] == dict.fromkeys(["lock", "bad"], "cannot pickle '_thread.lock' object")
    found = contents(response["state"])
    assert found == {"x": [1], "y": [1]}
    assert found["x"] is found["y"]


def test_with_partial_state_and_nothing_wrong_no_variable_is_named(server: Client) -> None:
    assert server.ask("x = 1", capture_state=True, partial_state=True)["state_errors"] == {}


def test_an_object_that_raises_anything_while_it_is_pickled_costs_only_itself(server: Client) -> None:
    code = "class Evil:\n    def __reduce__(self): raise SystemExit(3)\nx = 1\ne = Evil()"
    assert server.ask(code, capture_state=True)["error"] == "State serialization failed: 3"
    response = server.ask("", capture_state=True, partial_state=True)
    assert response["state_errors"] == {"e": "3"}
    assert server.run("x") == "1\n"


def test_nesting_without_end_is_an_error_and_not_the_end(server: Client) -> None:
    code = "deep = []\nfor _ in range(100000): deep = [deep]\nx = 1"
    response = server.ask(code, capture_state=True, partial_state=True)
    assert list(response["state_errors"]) == ["deep"]
    assert contents(response["state"]) == {"x": 1}


def test_a_state_above_the_limit_is_refused_with_the_figure(folder: Path) -> None:
    client = Client(folder, STATE_MAX_SIZE_MB="1")
    client.wait_until_ready()
    response = client.ask("import os\nbig = os.urandom(2_000_000)\nx = 1", capture_state=True)
    assert response["state"] is None
    size = int(response["error"].removeprefix("State serialization failed: the state has ").split()[0])
    assert size > 2_666_666
    assert response["error"].endswith(f"the state has {size} bytes, and the limit is {1 << 20}")
    response = client.ask("", capture_state=True, partial_state=True)
    assert contents(response["state"]) == {"x": 1}
    assert list(response["state_errors"]) == ["big"]
    assert f"the state may hold {1 << 20}" in response["state_errors"]["big"]
    client.close()


# -- states that are none ------------------------------------------------------------------------

GOOD = encoded({"x": list(range(1000))})


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ("not base64!", "the state is"),
        ("äöü", "the state is"),
        (GOOD[:100], "the state is damaged"),
        (GOOD[:-8], "the state is damaged"),
        (GOOD[:60] + "AAAA" + GOOD[64:], "the state is damaged"),
        (base64.b64encode(b"foreign").decode(), "the state is neither an LZ4 frame nor a pickle"),
        (base64.b64encode(lz4.frame.compress(b"foreign")).decode(), "the state is damaged, or was made elsewhere"),
        (encoded([1, 2]), "the state holds list, not variables by their names"),
        (encoded({1: 2}), "the state holds dict, not variables by their names"),
    ],
)
def test_a_state_that_is_none_is_refused_and_the_code_is_not_run(server: Client, state: str, why: str) -> None:
    response = server.ask("print('ran')", state=state)
    assert response["error"].startswith(f"State restoration failed: {why}")
    assert response["exit_code"] == 1
    assert response["stdout"] == ""
    assert server.run("print('alive')") == "alive\n"


class Missing:
    """Pickled by its name, which is found nowhere else."""

    def __reduce__(self) -> tuple[Any, ...]:
        return __import__, ("no_such_package",)


class Exits:
    def __reduce__(self) -> tuple[Any, ...]:
        return sys.exit, (3,)


def test_a_state_that_needs_a_missing_package_names_it(server: Client) -> None:
    error = server.ask("1", state=encoded({"x": Missing()}))["error"]
    assert error == (
        "State restoration failed: the state needs the package no_such_package, which is not installed here"
    )


def test_a_malicious_state_meets_the_code_behind_the_wall_and_not_the_server(server: Client) -> None:
    response = server.ask("print('ran')", state=encoded({"x": Exits()}))
    assert response["error"] == "State restoration failed: the state is damaged, or was made elsewhere: SystemExit: 3"
    assert server.run("1") == "1\n"


def test_a_state_cannot_replace_the_builtins(server: Client) -> None:
    assert server.run("len('abc'), x", state=encoded({"__builtins__": {}, "x": 1})) == "(3, 1)\n"


def test_an_empty_state_is_none(server: Client) -> None:
    assert server.run("1", state="") == "1\n"


def test_a_function_of_another_version_of_python_is_refused_by_name(server: Client) -> None:
    state = saved(server, "def f(): return 1")
    raw = lz4.frame.decompress(base64.b64decode(state))
    tag = sys.implementation.cache_tag.encode()
    other = base64.b64encode(raw.replace(tag, b"9" * len(tag))).decode()
    error = server.ask("f()", state=other)["error"]
    assert error.endswith(f"it was compiled by {'9' * len(tag)}")


# -- without the optional packages ---------------------------------------------------------------


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A server in an interpreter that has neither lz4 nor cloudpickle."""
    made = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(made)], check=True)
    from tests.repl_server.client import GUEST

    client = Client(made, [str(made / "bin" / "python"), str(GUEST / "repl_server.py")])
    client.wait_until_ready()
    assert client.ask("import lz4")["exit_code"] == 1
    assert client.ask("import cloudpickle")["exit_code"] == 1
    yield client
    client.close()


def test_without_lz4_the_state_is_still_an_lz4_frame(bare: Client, server: Client) -> None:
    state = saved(bare, "x = b'x' * 9_000_000\ndef f(): return len(x)")
    assert state.startswith("BCJNG")
    assert server.run("f()", state=state) == "9000000\n"
    assert bare.run("f()", state=state) == "9000000\n"
    for cut in (20, 5_000_000, len(state) - 8):
        assert "the state is cut short" in bare.ask("1", state=state[: cut - cut % 4])["error"]


def test_without_lz4_a_compressed_state_is_refused_and_the_package_named(bare: Client) -> None:
    error = bare.ask("1", state=encoded({"x": "x" * 10_000}))["error"]
    assert error.endswith("the package lz4 is not installed here: pip install lz4")


def test_a_state_that_was_not_compressed_is_read(bare: Client, server: Client) -> None:
    plain = base64.b64encode(pickle.dumps({"x": 5})).decode()
    assert bare.run("x", state=plain) == "5\n"
    assert server.run("x", state=plain) == "5\n"


def test_without_cloudpickle_a_class_is_refused_by_name_rather_than_lost(bare: Client) -> None:
    bare.run("[globals().pop(name) for name in ('x', 'f') if name in globals()]\nclass A: pass\na = A()\nx = 1")
    response = bare.ask("", capture_state=True, partial_state=True)
    assert set(response["state_errors"]) == {"A", "a"}
    assert "where cloudpickle is installed" in response["state_errors"]["a"]
    assert bare.run("x", state=response["state"]) == "1\n"
