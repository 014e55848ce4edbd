"""Where a cell ends: the same judgement as Python's own prompt."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloche.cli.repl_input import cells, needs_more


@pytest.mark.parametrize(
    "text",
    [
        "x = (1,",
        "def f():",
        "def f():\n    return 1",
        "for i in x: print(i)",
        "s = '''abc",
        "if x:\n    y\nelse:",
        "@property",
        "async def f():\n    await g()",
        "async with a as b:\n    pass",
        "x = 1\nfor i in y:\n    print(i)",
        "[\n\n",
        "x = \\",
        "try:\n    f()",
        "class A:\n    pass",
    ],
)
def test_an_unfinished_cell_needs_more(text: str) -> None:
    assert needs_more(text)


@pytest.mark.parametrize(
    "text",
    [
        "1",
        "x = 1",
        "def f():\n    return 1\n",
        "def f():\n    return 1\n    ",
        "for i in x: print(i)\n",
        "await f()",
        "x = 1\ny = 2",
        "1 +* 2",
        "x = 'abc",
        ")",
        "",
        "return",
        "\x00",
        "(" * 1000,
        ":help",
        ":put (",
        "def f():\n    pass\nf()",
        "'\\d'",
        "x is 1",
    ],
)
def test_a_finished_or_hopeless_cell_needs_nothing(text: str) -> None:
    assert not needs_more(text)


@given(st.text(st.sampled_from("ab(){}[]:'\"\\\n \t#=;@\0é")))
def test_any_text_is_judged_without_an_error(text: str) -> None:
    assert needs_more(text) in (True, False)


def test_lines_are_joined_to_cells() -> None:
    lines = ["x = 1\n", "\n", "for i in range(2):\n", "    x\n", "\n", ":vars\n", "f(\n", "  1)\r\n", "y"]
    assert list(cells(lines)) == ["x = 1", "for i in range(2):\n    x\n", ":vars", "f(\n  1)", "y"]


def test_a_block_that_ends_with_the_input_is_a_cell() -> None:
    assert list(cells(["if True:\n", "    x = 1\n"])) == ["if True:\n    x = 1\n"]


def test_a_statement_right_after_a_block_joins_its_cell() -> None:
    assert list(cells(["def f():\n", "    return 1\n", "f()\n"])) == ["def f():\n    return 1\nf()"]


def test_blank_lines_are_no_cells() -> None:
    assert list(cells(["\n", "   \n", "\t\n"])) == []
