"""What the in-process backend is not asked for: nothing but what its guards refuse, and the same list for readers."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cloche.backends.inprocess.guards import violations_in
from cloche.conformance import load_behaviours
from cloche.conformance.guarded import left_out
from cloche_guest.guarded.members import MODULES
from cloche_guest.guarded.refusals import GuardrailError
from cloche_guest.guarded.restricted import Restriction

PAGE = Path(__file__).parents[2] / "docs" / "guard-rails.md"
BEHAVIOURS = load_behaviours()


def texts_of(test: Callable[..., Any]) -> Iterator[str]:
    """Everything in a behaviour that may be a cell: its strings, those of its module that it names, its variants."""
    module = vars(sys.modules[test.__module__])
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(test)))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield textwrap.dedent(node.value)
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
        elif isinstance(node, ast.Name):
            yield from strings_in(module.get(node.id))
            if node.id == "ending":
                yield from strings_in(module.get("CELLS"))
    for mark in getattr(test, "pytestmark", []):
        yield from strings_in(mark.args)


def strings_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from strings_in(tuple(value.values()))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from strings_in(item)


def is_refused(code: str, guard: str, restriction: Restriction) -> bool:
    if guard == "ast":
        try:
            compile(code, "<cell>", "exec", 0x2000)
        except (SyntaxError, ValueError):
            return False
        return bool(violations_in(code))
    try:
        restriction.compile(code, "<cell>")
    except GuardrailError:
        return True
    except (SyntaxError, ValueError):
        return False
    return False


@pytest.mark.parametrize("guard", ["ast", "restricted"])
def test_a_behaviour_is_left_out_only_because_the_guard_refuses_its_code(guard: str):
    restriction = Restriction(MODULES)
    names = {entry.partition("[")[0] for entry in left_out(guard)}
    assert names <= BEHAVIOURS.keys()
    groundless = [
        name
        for name in sorted(names)
        if not any(is_refused(text, guard, restriction) for text in texts_of(BEHAVIOURS[name]))
    ]
    assert groundless == []


@pytest.mark.parametrize("guard", ["ast", "restricted"])
def test_most_behaviours_are_not_left_out(guard: str):
    assert len(left_out(guard)) < len(BEHAVIOURS) / 4


def test_the_page_has_every_behaviour_that_is_left_out():
    told = set(re.findall(r"`(test_\w+)", PAGE.read_text("utf-8")))
    assert {entry.partition("[")[0] for guard in ("ast", "restricted") for entry in left_out(guard)} <= told
