"""Python source to a syntax tree, without a word on the host's standard error."""

from __future__ import annotations

import ast
import threading
import warnings

# `warnings.catch_warnings` changes what the whole process sees; at least two of ours must not cross.
_quiet = threading.Lock()


def parse(code: str) -> ast.Module:
    """The tree of `code`. Warnings about it belong to the run and are not given here.

    Raises SyntaxError for whatever is no source text (a NUL, a lone surrogate), and RecursionError or MemoryError where
    the nesting is too deep for the parser.
    """
    with _quiet, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(code, "<cell>")
        except ValueError as exc:
            raise SyntaxError(str(exc)) from exc


def parses(code: str) -> bool:
    """Whether `code` is Python of this interpreter's version."""
    try:
        parse(code)
    except (SyntaxError, RecursionError, MemoryError):
        return False
    return True
