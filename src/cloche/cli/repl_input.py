"""Where one cell ends and the next begins, for lines that are typed or piped."""

from __future__ import annotations

import ast
import codeop
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

COMMAND_SIGN = ":"

_compiler = codeop.CommandCompiler()
_compiler.compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT  # cells may await


def needs_more(text: str) -> bool:
    """Whether `text` is the beginning of a cell, as Python's own prompt judges: a block ends with an empty line.

    What can never become valid is complete: the guest says what is wrong with it.
    """
    if text.lstrip().startswith(COMMAND_SIGN):
        return False
    *before, last = text.split("\n")
    text = "\n".join([*before, last if last.strip() else ""])
    try:
        return _is_beginning(text, "single")
    except SyntaxError:
        pass
    try:
        # several statements, as when something was pasted
        return _is_beginning(text, "exec") or (bool(before) and last[:1] in (" ", "\t") and bool(last.strip()))
    except SyntaxError:
        return False


def _is_beginning(text: str, symbol: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return _compiler(text, "<cell>", symbol) is None
        except (ValueError, OverflowError, RecursionError, MemoryError):  # null characters, absurd nesting
            return False


def cells(lines: Iterable[str]) -> Iterator[str]:
    """Join lines to cells; commands are cells of their own. What is unfinished at the end is the last cell."""
    held: list[str] = []
    for line in lines:
        if not held and not line.strip():
            continue
        held.append(line.rstrip("\r\n"))
        text = "\n".join(held)
        if not needs_more(text):
            yield text
            held = []
    if any(line.strip() for line in held):
        yield "\n".join(held) + "\n"
