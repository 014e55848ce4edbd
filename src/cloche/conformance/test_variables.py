"""Reading and writing variables from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cloche.errors import RequestError, ValueTransferError
from cloche_guest.values import RemoteObject

if TYPE_CHECKING:
    from cloche.conformance.fixtures import OpenSandbox
    from cloche.sandbox import SessionSandbox


def test_an_existing_variable_is_returned(sandbox: SessionSandbox) -> None:
    sandbox.execute("x = [1, 'two']")
    assert sandbox.get_variable("x") == [1, "two"]


def test_a_missing_variable_is_none(sandbox: SessionSandbox) -> None:
    assert sandbox.get_variable("missing") is None


def test_a_missing_variable_is_the_default_that_was_given(sandbox: SessionSandbox) -> None:
    assert sandbox.get_variable("missing", 7) == 7


def test_a_variable_that_is_none_is_not_missing(sandbox: SessionSandbox) -> None:
    sandbox.execute("x = None")
    assert sandbox.get_variable("x", 7) is None


def test_a_deleted_variable_is_missing(sandbox: SessionSandbox) -> None:
    sandbox.execute("x = 1")
    sandbox.execute("del x")
    assert sandbox.get_variable("x", "gone") == "gone"


def test_a_builtin_is_not_a_variable(sandbox: SessionSandbox) -> None:
    assert sandbox.get_variable("print", "none") == "none"


def test_a_variable_can_be_read_before_any_cell(sandbox: SessionSandbox) -> None:
    assert sandbox.get_variable("x", "none") == "none"


@pytest.mark.parametrize("code", ["object()", "lambda: 1", "__import__('sys')", "open('f', 'w')", "(i for i in ())"])
def test_what_does_not_travel_is_described(sandbox: SessionSandbox, code: str) -> None:
    sandbox.execute(f"x = {code}")
    found = sandbox.get_variable("x")
    assert isinstance(found, RemoteObject)
    assert found.repr == sandbox.execute("x").value


def test_a_value_that_contains_itself_is_described(sandbox: SessionSandbox) -> None:
    sandbox.execute("x = []\nx.append(x)")
    assert sandbox.get_variable("x") == RemoteObject("list", "[[...]]")


def test_a_value_nested_too_deeply_is_described(sandbox: SessionSandbox) -> None:
    sandbox.execute("x = []\nfor _ in range(500): x = [x]")
    assert isinstance(sandbox.get_variable("x"), RemoteObject)


def test_an_object_whose_repr_raises_is_described(sandbox: SessionSandbox) -> None:
    sandbox.execute("class Bad:\n    def __repr__(self): raise KeyError('no')\nx = Bad()")
    assert sandbox.get_variable("x") == RemoteObject("Bad", "<KeyError in repr>")


def test_an_object_whose_repr_exits_does_not_end_the_session(sandbox: SessionSandbox) -> None:
    sandbox.execute("class Bad:\n    def __repr__(self): raise SystemExit(1)\nx = Bad(); y = 1")
    with pytest.raises(RequestError):
        sandbox.get_variable("x")
    assert sandbox.get_variable("y") == 1


def test_a_value_over_the_limit_is_refused(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(value_max_bytes=100_000)
    sandbox.execute("x = 'x' * 200_000; y = 1")
    with pytest.raises(ValueTransferError):
        sandbox.get_variable("x")
    assert sandbox.get_variable("y") == 1


def test_a_variable_can_be_set(sandbox: SessionSandbox) -> None:
    sandbox.set_variable("x", {"a": 1})
    assert sandbox.execute("x['a'] + 1").value == "2"


def test_a_set_variable_replaces_the_old_value(sandbox: SessionSandbox) -> None:
    sandbox.execute("x = 1")
    sandbox.set_variable("x", 2)
    assert sandbox.get_variable("x") == 2


@pytest.mark.parametrize("name", ["", "1st", "a b", "a.b", "a\nb"])
def test_a_name_that_is_no_variable_is_refused(sandbox: SessionSandbox, name: str) -> None:
    with pytest.raises(RequestError):
        sandbox.set_variable(name, 1)


@pytest.mark.parametrize("name", ["context", "llm_query", "chunk_text", "display"])
def test_one_of_our_names_cannot_be_set(sandbox: SessionSandbox, name: str) -> None:
    sandbox.initialize("text")
    with pytest.raises(RequestError):
        sandbox.set_variable(name, 1)


def test_an_object_of_the_host_cannot_be_set(sandbox: SessionSandbox) -> None:
    with pytest.raises(ValueTransferError):
        sandbox.set_variable("x", [object()])


def test_variables_are_listed_with_their_types(sandbox: SessionSandbox) -> None:
    sandbox.execute("a = 1; b = 'x'; import math; _hidden = None")
    assert sandbox.list_variables() == {"a": "int", "b": "str", "math": "module", "_hidden": "NoneType"}


def test_names_can_be_completed(sandbox: SessionSandbox) -> None:
    sandbox.execute("import math; alphabet = 1")
    assert "alphabet" in sandbox.complete("alpha")
    assert [word.rstrip("()") for word in sandbox.complete("math.floo")] == ["math.floor"]
