"""What a cell must mean, told the slow way. Runs in every interpreter under test, from 3.8 on."""

from __future__ import annotations

import ast
import dis
import io
import random
import tokenize
import warnings
from pathlib import Path

from cloche_guest import cells
from cloche_guest.cells import FUTURE_FLAGS, compile_cell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import CodeType
    from typing import Any

AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
COROUTINE = 0x80
NAME = "<cell 7>"


# -- what a cell does ----------------------------------------------------------------------------


def run(source: str, flags: int = 0) -> dict[str, Any]:
    """{"value": repr of the value or None, "names": repr of what the cell bound}."""
    cell = compile_cell(source, NAME, flags)
    names: dict[str, Any] = {}
    value = None
    for code in cell.body:
        finish(eval(code, names), code)
    if cell.last is not None:
        value = repr(finish(eval(cell.last, names), cell.last))
    del names["__builtins__"]
    return {"value": value, "names": {name: repr(bound) for name, bound in names.items()}}


def finish(result: Any, code: CodeType) -> Any:
    if not code.co_flags & COROUTINE:
        return result
    import asyncio

    return asyncio.run(result)


def annotated(source: str) -> list[str]:
    """The names that a cell annotates."""
    names: dict[str, Any] = {}
    for code in compile_cell(source, NAME).body:
        exec(code, names)
    # 3.14 keeps a function that makes the dict.
    return sorted(names["__annotate__"](1) if "__annotate__" in names else names["__annotations__"])


def shape(source: str) -> tuple[int, bool]:
    """(how many parts to execute, is there a value)."""
    cell = compile_cell(source, NAME)
    return len(cell.body), cell.last is not None


def coroutines(source: str) -> list[bool]:
    """For each part to execute, whether it is one."""
    return [bool(code.co_flags & COROUTINE) for code in compile_cell(source, NAME).body]


def last_future_flags(source: str, flags: int = 0) -> tuple[int, int]:
    """(flags the cell reports, flags that its last expression was compiled with)."""
    cell = compile_cell(source, NAME, flags)
    assert cell.last is not None
    return cell.future_flags, cell.last.co_flags & FUTURE_FLAGS


def traceback_lines(source: str) -> list[tuple[int | None, str | None]]:
    """(line number, text of the line) for each frame of the cell, of the division by zero that it ends in."""
    import linecache
    import traceback

    linecache.cache[NAME] = (len(source), None, source.splitlines(True), NAME)
    try:
        run(source)
    except ZeroDivisionError as error:
        frames = traceback.extract_tb(error.__traceback__)
        return [(frame.lineno, frame.line) for frame in frames if frame.filename == NAME]
    return []


def refusal(source: str, compiler: Callable[[str, str], object] = compile_cell) -> tuple[Any, ...] | None:
    """(type, message, line, column, text) of the error with which a cell is refused; None if it is not."""
    try:
        compiler(source, NAME)
    except SyntaxError as error:
        return type(error).__name__, error.msg, error.lineno, error.offset, error.text
    return None


def printed_refusal(source: str) -> str:
    """The same as a traceback shows it."""
    import traceback

    try:
        compile_cell(source, NAME)
    except SyntaxError as error:
        return "".join(traceback.format_exception_only(SyntaxError, error))
    return ""


def warned(source: str, compiler: Callable[[str, str], object] = compile_cell) -> list[tuple[int, str]]:
    """The warnings that compiling a cell gives."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compiler(source, NAME)
    return [(warning.lineno, str(warning.message)) for warning in caught]


# -- what it should do ---------------------------------------------------------------------------


def line_feeds(source: str) -> str:
    """The source as on Unix. Before 3.12 an interpreter sees one line too many where CR LF ends the text."""
    return source.replace("\r\n", "\n").replace("\r", "\n")


def compile_whole(source: str, name: str) -> CodeType:
    """What the interpreter itself makes of the source."""
    code: CodeType = compile(line_feeds(source), name, "exec", AWAIT, True)
    return code


def ends_in_semicolon(source: str) -> bool:
    """Whether the last token that is code is a semicolon."""
    layout = (
        *(tokenize.NEWLINE, tokenize.NL, tokenize.COMMENT),
        *(tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER),
    )
    last = ""
    try:
        for token in tokenize.generate_tokens(io.StringIO(line_feeds(source)).readline):
            if token.type not in layout:
                last = token.string
    except IndentationError:
        # Before 3.12 this module, unlike the compiler, minds the column of a backslash alone on its line.
        if all(line.strip() != "\\" for line in line_feeds(source).split("\n")):
            raise
    return last == ";"


def split(source: str, name: str) -> tuple[CodeType | None, CodeType | None]:
    """(code to execute or None, code to evaluate or None), by way of the tree."""
    tree: ast.Module = compile(line_feeds(source), name, "exec", AWAIT | ast.PyCF_ONLY_AST, True)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr) and not ends_in_semicolon(source):
        last = tree.body.pop()
    body = compile(tree, name, "exec", AWAIT, True)
    flags = AWAIT | body.co_flags & FUTURE_FLAGS
    value = None
    if isinstance(last, ast.Expr):
        value = compile(ast.Expression(last.value), name, "eval", flags, True)
    return body if tree.body else None, value


# -- comparison ----------------------------------------------------------------------------------


def code_lines(code: CodeType) -> list[int]:
    return sorted({line for _, line in dis.findlinestarts(code) if line})


def inner_code(code: CodeType) -> list[Any]:
    """Functions, classes and comprehensions in the order of the source, with all that they contain.

    Not their byte code: from 3.11 on it depends on whether the module imports the names that they use.
    """
    inner = [constant for constant in code.co_consts if isinstance(constant, type(code))]
    return [
        (
            part.co_name,
            part.co_firstlineno,
            part.co_names,
            part.co_varnames,
            code_lines(part),
            inner_code(part),
        )
        for part in inner
    ]


def difference(source: str) -> str | None:
    """How a cell differs from what it should be; None if it does not."""
    found = refusal(source)
    if found or refusal(source, compile_whole):
        # Where a cell has two errors, its parts may show one and the whole the other.
        allowed = [refusal(source, compiler) for compiler in (compile_whole, split)]
        # Not the text: where the interpreter knows none, the cell still does.
        same = found is not None and found[:4] in [expected[:4] for expected in allowed if expected]
        return None if same else f"refused with {found}, not {allowed}"
    cell = compile_cell(source, NAME)
    body, value = split(source, NAME)
    return value_difference(cell.last, value) or body_difference(cell.body, body)


def value_difference(found: CodeType | None, expected: CodeType | None) -> str | None:
    if found is None or expected is None:
        return None if found is expected else f"value {found}, not {expected}"
    if (found.co_code, found.co_names) != (expected.co_code, expected.co_names):
        return "another value"
    if (code_lines(found), inner_code(found)) != (code_lines(expected), inner_code(expected)):
        return "the value on other lines"
    return None


def body_difference(found: tuple[CodeType, ...], expected: CodeType | None) -> str | None:
    names = {name for code in found for name in code.co_names}
    if expected is None:
        return f"something executed: {names}" if names else None
    if [part for code in found for part in inner_code(code)] != inner_code(expected):
        return "other functions"
    if names != set(expected.co_names):
        return f"other names: {names}"
    # 3.8 prepares for annotations on the first line, and only in the part that has some.
    if not {line for code in found for line in code_lines(code)}.issuperset(code_lines(expected)[1:]):
        return "other lines"
    return None


def differences(sources: Iterable[str]) -> list[tuple[str, str]]:
    """(cell, how it differs) for each that does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [(source, how) for source in sources for how in [difference(source)] if how]


# -- cells to compare ----------------------------------------------------------------------------


def standard_library_cells(count: int, seed: int = 0) -> list[str]:
    """Cells cut from modules: some of the statements that follow one another."""
    choose = random.Random(seed)
    files = sorted(Path(ast.__file__).parent.glob("*.py"))
    found: list[str] = []
    while len(found) < count:
        lines = choose.choice(files).read_text(encoding="utf-8").split("\n")[:1500]
        try:
            tree = ast.parse("\n".join(lines))
        except SyntaxError:
            continue  # cut short in the middle of a statement
        ends = [0, *(statement.end_lineno or 0 for statement in tree.body)]
        for _ in range(8):
            first = choose.randrange(len(ends))
            last = min(first + choose.choice((1, 1, 2, 5, 20)), len(ends) - 1)
            cell = "\n".join(lines[ends[first] : ends[last]])
            if len(cell) < 8000:
                found.append(cell)
    return found[:count]


def random_cells(fragments: list[str], count: int, seed: int = 0) -> list[str]:
    """Cells made of pieces that are put together without sense."""
    choose = random.Random(seed)
    joints = ["\n"] * 8 + ["; ", ";", "", " ", "\n\n", "\n  ", "\r\n", "\\\n", "\n\f", "\n\t"]
    return [
        "".join(choose.choice(fragments) + choose.choice(joints) for _ in range(choose.choice((1, 2, 2, 3, 3, 4, 6))))
        for _ in range(count)
    ]


def share_without_tree(sources: list[str]) -> float:
    """How many of the cells are compiled without building a tree."""
    asked = []
    original = cells._split_tree

    def counted(text: str, filename: str, flags: int) -> cells.Cell:
        asked.append(text)
        return original(text, filename, flags)

    cells._split_tree = counted
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for source in sources:
                compile_cell(source, NAME)
    finally:
        cells._split_tree = original
    return 1 - len(asked) / len(sources)
