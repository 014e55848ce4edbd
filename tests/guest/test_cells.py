"""Compiling cells, on every interpreter found."""

from __future__ import annotations
import __future__

from typing import Any

import pytest
from tests.guest.every_python import Interpreter, Raised, python

__all__ = ["python"]

# Each agrees with the tree, alone and put together at random. Not among them is `<>`, which a cell may use
# after an import of barry_as_FLUFL, and a file never.
FRAGMENTS = r"""
x ¦ x = 1 ¦ print(x) ¦ x; ¦ (x); ¦ x; # c ¦ # c ¦ #; ¦ '''a
b''' ¦ '''a;
b'''; ¦ 'd' ¦ "d" ¦ r'd' ¦ u'd' ¦ b'd' ¦ ('d'); ¦ f'{x};' ¦ f'''a;
{x};b''' ¦ f'{x!r:>{y}}' ¦ f'{' ¦ if x:
  y ¦ if x:
  y
else:
  z ¦ else: ¦ else: z ¦ elif x: y ¦ except: ¦ finally: x ¦ try:
  x
except E:
  y ¦ try: x ¦ @d ¦ def f():
  pass ¦ def f(): return 1 ¦ class A:
  pass ¦ async def f():
  await x ¦ for i in x: i ¦ while x:
	y ¦ [
1,
2] ¦ (x,
y) ¦ { ¦ } ¦ ( ¦ ) ¦ [ ¦ ] ¦ {
'a': 1
} ¦ from __future__ import annotations ¦ from __future__ import nope ¦ import x ¦ from x import y ¦ global x
¦ x: int ¦ x: int = 1 ¦ def f():
  global x ¦ lambda: x ¦ await x ¦ [i async for i in x] ¦ return x ¦ yield x ¦ break ¦ a\
.b ¦ x = 1 \
¦ \ ¦ x = ''' ¦ ''' ¦ é ¦ é = 'é;' ¦ 'é'; ¦ x is 1 ¦ with x as y: pass ¦ elsewhere ¦ finally_ = 1 ¦ nonlocal x
¦ x == 1 if y else z ¦ x == 1 ¦ x == (y := 1) ¦ print('a; b') ¦ 1or 2 ¦ '\d' ¦ '\n' ¦ b'\u' ¦ match x:
  case 1: pass ¦ case 1: y ¦ type X = int ¦ *a, b ¦ a, *b ¦ *a ¦ a, = x ¦ x.y = 1 ¦ x[
0
] = 1 ¦ ... ¦ None ¦ None = 1 ¦ __debug__ = 1 ¦ def f(x, x): pass ¦   x ¦ if 1:
    x
  y ¦   # c ¦ x + ¦ print x ¦ async x ¦ async with x: y ¦ x # c\ ¦ #\
"""


def fragments() -> list[str]:
    wide_letter = "from __\uff46uture__ import annotations"
    return [part.strip("\n").removeprefix(" ").removesuffix(" ") for part in FRAGMENTS.split("¦")] + [wide_letter]


def ask(python: Interpreter, expression: str, *args: object) -> Any:
    """Evaluate an expression in the reference's names, with arguments called `a` and `b`."""
    return python.evaluate("cell_reference", expression, **dict(zip("ab", args, strict=False)))


def value_of(python: Interpreter, source: str) -> Any:
    return ask(python, "run(a)['value']", source)


def refusal(python: Interpreter, source: str) -> Any:
    return ask(python, "refusal(a)", source)


# -- agreement with the tree ---------------------------------------------------------------------


def test_awkward_cells_agree_with_the_tree(python):
    assert ask(python, "differences(a)", fragments()) == []


def test_random_cells_agree_with_the_tree(python):
    assert ask(python, "differences(random_cells(a, 4000))", fragments()) == []


def test_cells_of_the_standard_library_agree_with_the_tree(python):
    assert ask(python, "differences(standard_library_cells(250))") == []


def test_most_cells_are_compiled_without_a_tree(python):
    assert ask(python, "share_without_tree(standard_library_cells(80))") > 0.7


# -- the value -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("6 * 7", "42"),
        ("x = 6\nx * 7", "42"),
        ("x = 6; x * 7", "42"),
        ("x = 6\ny = 7; x * y", "42"),
        ("x = 6\n(x\n* 7)", "42"),
        ("x = 6\nx \\\n* 7", "42"),
        ("x = 6\r\nx * 7\r\n", "42"),
        ("x = 6\rx * 7", "42"),
        ("x = 6\n\fx * 7", "42"),
        ("x = 6\n\nx * 7  # the answer\n# it is\n   \n\t", "42"),
        ("def f():\n\treturn 42\nf()", "42"),
        ("if True:\n    x = 42\nelse:\n    x = 0\nx", "42"),
        ("x = 1\n'''a\nb'''", repr("a\nb")),
        ("x = 1\n'a'", "'a'"),
        ("x = [2]\n1, *x", "(1, 2)"),
        ("x = 'global'\nx", "'global'"),
        ("None", "None"),
    ],
)
def test_the_last_expression_is_the_value(python, source, value):
    assert value_of(python, source) == value


@pytest.mark.parametrize(
    "source",
    [
        "x = 42",
        "42\nx = 1",
        "for i in [1]:\n    i",
        "if 1:\n    42",
        "if 0:\n    1\nelse:\n    42",
        "def f():\n    return 1",
        "import sys",
        "x = '''\n42\n'''",
        "x = [\n42\n]",
    ],
)
def test_a_cell_that_ends_in_a_statement_has_no_value(python, source):
    assert value_of(python, source) is None


@pytest.mark.parametrize(
    "source",
    [
        "42;",
        "42 ;\n",
        "(42);",
        "x = 1\n42;  # a comment",
        "x = 1; 42;",
        "x = 1\n(42\n);\n\n# tail",
        "x = 'é'\n'é;';",
        "'''a\nb''';",
    ],
)
def test_a_semicolon_after_the_last_expression_hides_its_value(python, source):
    assert value_of(python, source) is None


def test_an_expression_with_a_hidden_value_is_still_evaluated(python):
    assert ask(python, "run(a)['names']", "x = []\nx.append(1);")["x"] == "[1]"


@pytest.mark.parametrize("source", ["';'", "x = 1\n'a;'  # b;", "f'{1};'", "'''\n;'''", "x = 1; '#;'"])
def test_a_semicolon_in_a_string_or_comment_hides_nothing(python, source):
    assert value_of(python, source) is not None


@pytest.mark.parametrize("source", ["", "\n", "  \n\t\n", "# a comment", "\n  # one\n# two\n", "\f", "\r\n", "# \\"])
def test_a_cell_without_code_is_empty(python, source):
    assert ask(python, "shape(a)", source) == (0, False)


def test_a_statement_runs_after_those_before_it(python):
    names = ask(python, "run(a)['names']", "x = [1]\nx.append(2)\nx.append(3)\ny = tuple(x)")
    assert names["y"] == "(1, 2, 3)"


# -- what holds for the cell as a whole ----------------------------------------------------------


def test_a_string_at_the_start_becomes_the_docstring(python):
    assert ask(python, "run(a)['names']", "'''what it is'''\nx = 1\ny = 2")["__doc__"] == "'what it is'"


@pytest.mark.parametrize("last", ["'no';", "'no'; y = 2", "('no'); y = 2", "r'no'; y = 2"])
def test_a_string_further_down_does_not(python, last):
    assert "__doc__" not in ask(python, "run(a)['names']", "x = 1\n" + last)


def test_annotations_of_all_statements_are_kept(python):
    assert ask(python, "annotated(a)", "x: int = 1\ny: str = 'a'") == ["x", "y"]


def test_a_future_import_holds_for_the_last_expression(python):
    flag = __future__.annotations.compiler_flag
    source = "from __future__ import annotations\nx = 1\nx"
    assert ask(python, "last_future_flags(a)", source) == (flag, flag)


def test_a_future_import_ends_with_its_cell(python):
    ask(python, "run(a)", "from __future__ import annotations\nx = 1")
    assert ask(python, "last_future_flags(a)", "x = 1\n1") == (0, 0)


def test_future_features_can_be_handed_on(python):
    flag = __future__.annotations.compiler_flag
    assert ask(python, "last_future_flags(a, b)", "x = 1\n1", flag) == (flag, flag)
    assert ask(python, "last_future_flags(a, b)", "1", flag) == (flag, flag)


def test_other_flags_are_refused(python):
    with pytest.raises(Raised, match="ValueError: only flags of future features"):
        ask(python, "run(a, b)", "1", 0x400)


@pytest.mark.parametrize("name", ["__future__", "__\uff46uture__"])
def test_a_future_import_after_other_code_is_refused(python, name):
    kind, message, line, *_ = refusal(python, f"x = 1\nfrom {name} import annotations")
    assert (kind, line) == ("SyntaxError", 2)
    assert "must occur at the beginning" in message


def test_a_global_declaration_after_use_is_refused(python):
    kind, message, line, *_ = refusal(python, "x = 1\nif x:\n    global x")
    assert (kind, line) == ("SyntaxError", 3)
    assert "prior to global declaration" in message


# -- await ---------------------------------------------------------------------------------------

SLEEP = "import asyncio\n"


def test_await_gives_the_value(python):
    assert value_of(python, SLEEP + "await asyncio.sleep(0, 42)") == "42"


def test_await_works_in_the_middle_and_in_the_last_statement(python):
    source = SLEEP + "x = await asyncio.sleep(0, 6)\nx *= 7\nasync def f():\n    return x\ny = await f()"
    assert ask(python, "run(a)['names']", source)["y"] == "42"


def test_only_a_part_that_awaits_is_a_coroutine(python):
    assert ask(python, "coroutines(a)", SLEEP + "x = await asyncio.sleep(0)") == [False, True]


# -- lines ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["x = 1", "", "1/0"], [(3, "1/0")]),
        (["x = 1", "", "y = 1/0"], [(3, "y = 1/0")]),
        (["x = 1", "# c", "x; 1/0"], [(3, "x; 1/0")]),
        (["1/0", "x = 1", "x"], [(1, "1/0")]),
        (["def f():", "    return 1/0", "x = '''", "'''", "f()"], [(5, "f()"), (2, "return 1/0")]),
        (["def d(f): return f", "@d", "def f():", "    1/0", "f()"], [(5, "f()"), (4, "1/0")]),
    ],
)
def test_tracebacks_show_the_lines_of_the_cell(python, newline, lines, expected):
    assert ask(python, "traceback_lines(a)", newline.join(lines)) == expected


# -- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "line", "text"),
    [
        ("x = 1\ny = 5)\nz = 3", 2, "y = 5)"),
        ("x = 1\nif x:\n    y\n  z", 4, "  z"),
        ("  x", 1, "  x"),
        ("x = 1\nx +", 2, "x +"),
        ("x = 1\r\nx = (1\r\n    2]\r\n", 3, "    2]"),
        # The stages after the parser do not know the text of the line.
        ("x = 1\nreturn x", 2, "return x"),
        ("x = 1\nif x:\n    break\nx", 3, "    break"),
        ("def f(a, a): pass\n1", 1, "def f(a, a): pass"),
    ],
)
def test_a_syntax_error_tells_the_line_and_its_text(python, source, line, text):
    _, _, error_line, _, error_text = refusal(python, source)
    assert error_line == line
    assert error_text.rstrip("\n") == text


def test_nothing_runs_when_the_last_line_is_wrong(python):
    assert refusal(python, "print('must not be seen')\nx = (")[0] == "SyntaxError"


@pytest.mark.parametrize("source", ["x = 1\ny = 'a\0b'\nz", "x = 1\r\ny = 'a\0b'"])
def test_a_null_character_is_a_syntax_error_at_its_place(python, source):
    message = "the code contains a null character, '\\x00'"
    assert refusal(python, source) == ("SyntaxError", message, 2, 7, "y = 'a?b'\n")


@pytest.mark.parametrize("after", ["", "\nz", "\nz = 1", ";\n"])
def test_a_lone_surrogate_is_a_syntax_error_at_its_place(python, after):
    kind, message, *place = refusal(python, "x = 1\ny = 'a\udc80b'" + after)
    assert (kind, message) == ("SyntaxError", "the code contains half of a surrogate pair, '\\udc80'")
    assert place[:2] == [2, 7]
    assert place[2].startswith("y = 'a?b'")


@pytest.mark.parametrize("ending", ["", "\nx", ";"])
@pytest.mark.parametrize(
    "source",
    ["(" * 5000 + ")" * 5000, "-" * 100_000 + "1", "x = " + "lambda: " * 5000 + "1", "x" + ".y" * 20_000],
    ids=["brackets", "signs", "functions", "attributes"],
)
def test_code_nested_too_deeply_is_a_syntax_error(python, source, ending):
    kind, message, *_ = refusal(python, source + ending)
    assert kind == "SyntaxError"
    assert "too many nested" in message or "nested too deeply" in message


def test_an_error_without_a_line_can_be_printed(python):
    assert "nested too deeply" in ask(python, "printed_refusal(a)", "-" * 100_000 + "1")


def test_a_long_sum_runs_also_where_its_tree_is_too_deep(python):
    source = "'''global'''\n" + " + ".join(["x"] * 900) + "\n"
    with pytest.raises(Raised, match="NameError: name 'x' is not defined"):
        ask(python, "run(a)", source)


# -- warnings ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        "f('\\d')\nx = 1",
        "x['\\d'] = 1",
        "x = b'\\u'\nf(\n1,\n)",
        "if x is 1:\n    y\nelse:\n    z",
        "x is 1\ny = 2",
        "assert (x, 'y')\nx",
    ],
)
def test_a_warning_of_the_compiler_comes_once(python, source):
    warnings = ask(python, "warned(a)", source)
    assert warnings == ask(python, "warned(a, compile_whole)", source)
    assert len(warnings) == 1
