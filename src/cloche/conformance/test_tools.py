"""Further host functions, given by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from cloche.errors import PolicyError

if TYPE_CHECKING:
    from cloche.conformance.fixtures import OpenSandbox


def lookup(key: str, *, upper: bool = False) -> str:
    """Find a value by its key."""
    return key.upper() if upper else key


def test_a_tool_can_be_called_by_its_name(open_sandbox: OpenSandbox) -> None:
    assert open_sandbox(tools={"lookup": lookup}).execute("lookup('a')").value == "'a'"


def test_a_tool_takes_keywords(open_sandbox: OpenSandbox) -> None:
    assert open_sandbox(tools={"lookup": lookup}).execute("lookup('a', upper=True)").value == "'A'"


def test_a_tool_returns_structured_data(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(tools={"rows": lambda: [{"id": 1, "tags": ("a", "b")}]})
    assert sandbox.execute("rows()[0]['tags'][1]").value == "'b'"


def test_a_tool_shows_its_signature_and_description(open_sandbox: OpenSandbox) -> None:
    text = open_sandbox(tools={"lookup": lookup}).execute("print(lookup.__doc__)").stdout
    assert "upper" in text
    assert "Find a value by its key." in text


def test_a_tool_may_be_given_with_a_description(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(tools={"lookup": {"tool": lookup, "description": "Ask the registry."}})
    assert sandbox.execute("lookup.__doc__").value == "'Ask the registry.'"
    assert sandbox.execute("lookup('a')").value == "'a'"


def test_a_tool_that_raises_is_an_exception_in_the_cell(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(tools={"lookup": lookup})
    result = sandbox.execute("try:\n    lookup(1, upper=True)\nexcept BridgeError as exc:\n    print(exc.type)")
    assert result.stdout == "AttributeError\n"
    assert sandbox.execute("lookup('still there')").success


def test_wrong_arguments_to_a_tool_are_its_own_error(open_sandbox: OpenSandbox) -> None:
    assert "TypeError" in str(open_sandbox(tools={"lookup": lookup}).execute("lookup(1, 2, 3)").error)


def test_a_tool_is_put_back_when_a_cell_overwrites_it(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(tools={"lookup": lookup})
    sandbox.execute("lookup = None")
    assert sandbox.execute("lookup('a')").value == "'a'"


@pytest.mark.parametrize("name", ["context", "llm_query", "chunk_text", "display", "not a name", "1st", ""])
def test_a_name_that_cannot_be_a_tools_is_refused(open_sandbox: OpenSandbox, name: str) -> None:
    with pytest.raises(PolicyError):
        open_sandbox(tools={name: lookup})


def test_a_tool_that_cannot_be_called_is_refused(open_sandbox: OpenSandbox) -> None:
    with pytest.raises(PolicyError):
        open_sandbox(tools={"pi": 3.14})


def test_a_method_may_be_a_tool(open_sandbox: OpenSandbox) -> None:
    notes: list[Any] = []
    open_sandbox(tools={"note": notes.append}).execute("note({'a': 1})").check()
    assert notes == [{"a": 1}]


def test_several_tools_are_kept_apart(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(tools={"one": lambda: 1, "two": lambda: 2})
    assert sandbox.execute("(one(), two())").value == "(1, 2)"
