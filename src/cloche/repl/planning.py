"""Which host calls of a turn can be made ahead: read-only ones whose arguments stand in the code.

Nothing is decided here that the code could notice: a planned call that the code never makes is forgotten, and one
that it makes in another way is made then. So this may be wrong without harm, but it is not to waste work: what may not
run at all (branches, functions, handlers) is left alone.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

MOST_CALLS = 64
MOST_ITEMS = 50
"""Of a literal that a loop or comprehension goes over."""
MOST_STEPS = 20_000
"""Of the plan itself: loops in loops are not to be gone through at the host's expense."""
LONGEST_TEXT = 10_000
PLAIN = (str, bytes, int, float, complex, bool, type(None))
"""What arrives as it was sent."""
INDIRECT = frozenset({"eval", "exec", "globals", "locals", "vars", "getattr", "__import__", "__builtins__"})
"""With these, code calls what it does not name."""


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """A call as the code will make it."""

    name: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Equal for equal calls."""
        return call_key(self.name, list(self.args), self.kwargs)


class _Unknown(Exception):
    """Not to be known before the code runs."""


class _TooLong(Exception):
    """Planning would take longer than it saves."""


def call_key(name: str, args: list[Any], kwargs: dict[str, Any]) -> str:
    """What makes two calls the same."""
    return f"{name}{args!r}{sorted(kwargs.items())!r}"


def plan(code: str, read_only: Collection[str], host: Collection[str]) -> list[PlannedCall]:
    """Calls to make ahead, in the order of the code; none when there is nothing to gain, or any doubt."""
    if sum(code.count(name) for name in read_only) < 1:
        return []
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    if not _is_plain(tree, read_only, host):
        return []
    planner = _Planner(read_only)
    try:
        calls = list(islice(planner.statements(tree.body, {}), MOST_CALLS))
    except (RecursionError, _TooLong):
        return []
    return calls if len(calls) > 1 else []


def _is_plain(tree: ast.Module, read_only: Collection[str], host: Collection[str]) -> bool:
    """Whether every host function in it is read-only and is what its name says."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            if node.id in INDIRECT or (node.id in host and node.id not in read_only):
                return False
            if node.id in host and not isinstance(node.ctx, ast.Load):
                return False
        elif (
            (isinstance(node, ast.arg) and node.arg in host)
            or (isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name in host)
            or (isinstance(node, ast.alias) and (node.asname or node.name).split(".")[0] in host)
            or (isinstance(node, ast.Global | ast.Nonlocal) and any(name in host for name in node.names))
            or (isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name in host)
        ):
            return False
    return True


class _Planner:
    """Goes through code as it will run, as far as that is certain."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names
        self._steps = MOST_STEPS

    def statements(self, body: list[ast.stmt], known: dict[str, Any]) -> Iterator[PlannedCall]:
        for statement in body:
            self._step()
            if isinstance(statement, ast.Expr | ast.Assign | ast.AnnAssign | ast.AugAssign):
                if statement.value is not None:
                    yield from self._expression(statement.value, known)
            elif isinstance(statement, ast.If | ast.While):
                yield from self._expression(statement.test, known)
            elif isinstance(statement, ast.With):
                for item in statement.items:
                    yield from self._expression(item.context_expr, known)
                yield from self.statements(statement.body, known)
            elif isinstance(statement, ast.Try):
                yield from self.statements(statement.body, known)
            elif isinstance(statement, ast.For):
                yield from self._loop(statement, known)
            elif isinstance(statement, ast.Raise):
                return

    def _loop(self, loop: ast.For, known: dict[str, Any]) -> Iterator[PlannedCall]:
        yield from self._expression(loop.iter, known)
        items = _items(loop.target, loop.iter, known)
        if not items or not _goes_through(loop, items[0]):
            return
        for values in items:
            yield from self.statements(loop.body, {**known, **values})

    def _expression(self, node: ast.AST, known: dict[str, Any]) -> Iterator[PlannedCall]:
        """In the order of evaluation, as far as it is certain that it is evaluated."""
        self._step()
        if isinstance(node, ast.Lambda):
            return
        if isinstance(node, ast.BoolOp):
            yield from self._expression(node.values[0], known)
            return
        if isinstance(node, ast.IfExp):
            yield from self._expression(node.test, known)
            return
        if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            yield from self._comprehension(node, known)
            return
        for child in ast.iter_child_nodes(node):
            yield from self._expression(child, known)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in self._names:
            try:
                args = tuple(_evaluate(item, known) for item in node.args)
                kwargs = {_keyword(item): _evaluate(item.value, known) for item in node.keywords}
            except _Unknown:
                return
            yield PlannedCall(node.func.id, args, kwargs)

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp, known: dict[str, Any]
    ) -> Iterator[PlannedCall]:
        first = node.generators[0]
        yield from self._expression(first.iter, known)
        if len(node.generators) > 1 or first.ifs or first.is_async:
            return
        parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        for values in _items(first.target, first.iter, known):
            for part in parts:
                yield from self._expression(part, {**known, **values})

    def _step(self) -> None:
        self._steps -= 1
        if self._steps < 0:
            raise _TooLong


def _goes_through(loop: ast.For, names: Collection[str]) -> bool:
    """Whether every item has its turn, under the name that the loop gives it."""
    for statement in loop.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Break | ast.Continue | ast.Return):
                return False
            if isinstance(node, ast.Name) and node.id in names and not isinstance(node.ctx, ast.Load):
                return False
    return True


def _items(target: ast.expr, source: ast.expr, known: dict[str, Any]) -> list[dict[str, Any]]:
    """What the names of a loop are bound to, time after time."""
    try:
        values = _evaluate_items(source, known)
    except _Unknown:
        return []
    if isinstance(target, ast.Name):
        return [{target.id: value} for value in values]
    if isinstance(target, ast.Tuple) and all(isinstance(part, ast.Name) for part in target.elts):
        names = [part.id for part in target.elts if isinstance(part, ast.Name)]
        if all(isinstance(value, tuple | list) and len(value) == len(names) for value in values):
            return [dict(zip(names, value, strict=True)) for value in values]
    return []


def _evaluate_items(source: ast.expr, known: dict[str, Any]) -> list[Any]:
    if isinstance(source, ast.Call) and isinstance(source.func, ast.Name) and source.func.id == "range":
        bounds = [_evaluate(item, known) for item in source.args]
        if source.keywords or not 1 <= len(bounds) <= 3 or not all(type(bound) is int for bound in bounds):
            raise _Unknown
        counted = range(*bounds) if len(bounds) < 3 or bounds[2] else range(0)
        if len(counted) > MOST_ITEMS:
            raise _Unknown
        return list(counted)
    values = _evaluate(source, known)
    if not isinstance(values, list | tuple) or len(values) > MOST_ITEMS:
        raise _Unknown
    return list(values)


def _keyword(item: ast.keyword) -> str:
    if item.arg is None:
        raise _Unknown
    return item.arg


def _evaluate(node: ast.AST, known: dict[str, Any]) -> Any:
    """The value of a literal, of the variable of a loop over literals, or of a text made of such."""
    if isinstance(node, ast.Constant) and isinstance(node.value, PLAIN):
        return node.value
    if isinstance(node, ast.Name) and node.id in known:
        return known[node.id]
    if isinstance(node, ast.List):
        return [_evaluate(item, known) for item in node.elts]
    if isinstance(node, ast.Tuple):
        return tuple(_evaluate(item, known) for item in node.elts)
    if isinstance(node, ast.Dict) and None not in node.keys:
        keys = [_evaluate(key, known) for key in node.keys if key is not None]
        if all(isinstance(key, str) for key in keys):
            return dict(zip(keys, (_evaluate(value, known) for value in node.values), strict=True))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _evaluate(node.operand, known)
        if type(value) in (int, float):
            return -value
    if isinstance(node, ast.JoinedStr):
        text = "".join(str(_evaluate(part, known)) for part in node.values)
        if len(text) > LONGEST_TEXT:
            raise _Unknown
        return text
    if isinstance(node, ast.FormattedValue) and node.conversion == -1 and node.format_spec is None:
        value = _evaluate(node.value, known)
        if type(value) in (str, int):
            return value
    raise _Unknown
