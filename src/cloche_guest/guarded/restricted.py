"""Compiling cells with RestrictedPython, and the builtins that they run with."""

from __future__ import annotations

import ast

from cloche_guest.cells import FUTURE_FLAGS, Cell, compile_cell, semicolon_after
from cloche_guest.guarded.builtins import restricted_builtins
from cloche_guest.guarded.objects import Guards
from cloche_guest.guarded.policy import policy_type
from cloche_guest.guarded.refusals import Violation, refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any, Iterable


class Restriction:
    """The guard set of one session."""

    def __init__(self, modules: Iterable[str]) -> None:
        """Raises ImportError where RestrictedPython is not installed."""
        from RestrictedPython.transformer import INSPECT_ATTRIBUTES, RestrictingNodeTransformer

        allowed, inspection = frozenset(modules) | {"__future__"}, frozenset(INSPECT_ATTRIBUTES)
        self._policy: Any = policy_type(RestrictingNodeTransformer, inspection, allowed)
        self.builtins = restricted_builtins(Guards(allowed, inspection))

    def compile(self, source: str, filename: str) -> Cell:
        """As `compile_cell`, for code that keeps to the rules. `GuardrailError` for other code."""
        compile_cell(source, filename)  # what is no Python is told so in Python's own words
        text = source.replace("\r\n", "\n").replace("\r", "\n")
        try:
            tree = ast.parse(text, filename)
            last = tree.body[-1] if tree.body else None
            shown = isinstance(last, ast.Expr) and not semicolon_after(last, text)
            policy = self._policy()
            policy.violations = []
            policy.visit(tree)
            if policy.violations:
                policy.violations.sort(key=lambda found: (found.line or 0, found.column or 0))
                raise refuse(policy.violations, source, filename)
            return _compile_parts(tree, filename, shown)
        except (RecursionError, MemoryError):
            deep = Violation(None, None, "the code is nested too deeply to be checked", "split it into several cells")
            raise refuse([deep], source, filename) from None


def _compile_parts(tree: Any, filename: str, shown: bool) -> Cell:
    """The statements, and apart from them the last expression."""
    last = tree.body.pop() if shown else None
    body: tuple[CodeType, ...] = (compile(tree, filename, "exec", 0, True),) if tree.body else ()
    flags = body[0].co_flags & FUTURE_FLAGS if body else 0
    value = None if last is None else compile(ast.Expression(last.value), filename, "eval", flags, True)
    return Cell(body, value, flags)
