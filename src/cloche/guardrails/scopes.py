"""Which names are a function's own.

A name that is local to a function never falls back to a builtin, even while it has no value: such a `dir` or `input` is
a variable like any other. At the top of a cell and in a class body a name without a value does fall back, so there
only an assignment that nothing can go around or undo counts, and inside of a loop or a `with` what that binds.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SCOPES = (*FUNCTIONS, ast.ClassDef)
Function: TypeAlias = "ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda"
Comprehension: TypeAlias = "ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp"

Place: TypeAlias = tuple[int, int]
THE_END = (2**31, 0)


@dataclass(frozen=True, slots=True)
class Scope:
    """The names that are bound around a node, from the inside out."""

    own: frozenset[str] = frozenset()
    is_class: bool = False
    outer: Scope | None = None
    forwarded: frozenset[str] = frozenset()
    """Names that were declared global: whatever an outer function calls so is not meant."""

    def holds(self, name: str) -> bool:
        """Whether `name`, read here, can only be a variable of a function around."""
        scope: Scope | None = self
        innermost = True
        while scope is not None:
            if name in scope.forwarded:
                return False
            if name in scope.own:
                # A class's own names fall back when they have no value, and are not seen from the functions in it.
                if not scope.is_class:
                    return True
                if innermost:
                    return False
            innermost = False
            scope = scope.outer
        return False


def function_scope(node: Function, outer: Scope) -> Scope:
    """The scope of a function's body."""
    arguments = node.args
    names = {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    names |= {a.arg for a in (arguments.vararg, arguments.kwarg) if a is not None}
    body = [node.body] if isinstance(node, ast.Lambda) else node.body
    bound, forwarded, elsewhere = _bindings(body)
    return Scope(frozenset((names | bound) - forwarded - elsewhere), False, outer, frozenset(forwarded))


def class_scope(node: ast.ClassDef, outer: Scope) -> Scope:
    """The scope of a class's body."""
    bound, forwarded, _ = _bindings(node.body)
    return Scope(frozenset(bound), True, outer, frozenset(forwarded))


def comprehension_scope(node: Comprehension, outer: Scope) -> Scope:
    """The scope of a comprehension: its loop variables."""
    targets = {name for generator in node.generators for name in bound_names(generator.target)}
    return Scope(frozenset(targets), False, outer)


def settled_names(tree: ast.Module, nodes: Iterable[ast.AST]) -> dict[str, list[tuple[Place, Place]]]:
    """The names that the cell itself binds for certain, each with from where to where."""
    settled: dict[str, list[tuple[Place, Place]]] = {}
    for statement in tree.body:
        names: set[str] = set()
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names = {statement.name}
        elif isinstance(statement, ast.Assign):
            names = {name for target in statement.targets for name in bound_names(target)}
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            names = set(bound_names(statement.target))
        for name in names:
            settled.setdefault(name, []).append((_end(statement), THE_END))
    for body, names in _bodies(tree):
        for name in names:
            settled.setdefault(name, []).append(((body[0].lineno, body[0].col_offset), _end(body[-1])))
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del):
            settled.pop(node.id, None)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            # The name is removed at the end of the handler.
            settled.pop(node.name, None)
    return settled


def _bodies(tree: ast.Module) -> Iterator[tuple[list[ast.stmt], set[str]]]:
    """Of loops and `with` outside of functions and classes: the body, and what is bound whenever it runs."""
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.For | ast.AsyncFor):
            yield node.body, set(bound_names(node.target))
        elif isinstance(node, ast.With | ast.AsyncWith):
            targets = [item.optional_vars for item in node.items if item.optional_vars is not None]
            yield node.body, {name for target in targets for name in bound_names(target)}
        if not isinstance(node, _SCOPES):
            statements = (ast.stmt, ast.ExceptHandler, ast.match_case)
            waiting.extend(child for child in ast.iter_child_nodes(node) if isinstance(child, statements))


def _end(statement: ast.stmt) -> Place:
    return statement.end_lineno or 0, statement.end_col_offset or 0


def bound_names(target: ast.AST) -> Iterator[str]:
    """The names in a target of an assignment."""
    return (node.id for node in ast.walk(target) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))


def _bindings(body: list[ast.stmt] | list[ast.expr]) -> tuple[set[str], set[str], set[str]]:
    """Of a body without the functions and classes in it: the names bound, declared global, declared nonlocal."""
    bound: set[str] = set()
    forwarded: set[str] = set()
    elsewhere: set[str] = set()
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Global):
            forwarded.update(node.names)
        elif isinstance(node, ast.Nonlocal):
            elsewhere.update(node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            bound.add(node.id)
        elif isinstance(node, ast.alias):
            bound.add(node.asname or node.name.partition(".")[0])
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            bound.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            bound.add(node.rest)
        if isinstance(node, _SCOPES):
            if not isinstance(node, ast.Lambda):
                bound.add(node.name)
            continue
        if isinstance(node, COMPREHENSIONS):
            # Its loop variables are its own; what `:=` binds in it is the function's.
            waiting.extend(_walrus_targets(node))
            continue
        waiting.extend(ast.iter_child_nodes(node))
    return bound, forwarded, elsewhere


def _walrus_targets(comprehension: ast.AST) -> Iterator[ast.AST]:
    waiting: list[ast.AST] = [comprehension]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.NamedExpr):
            yield node.target
        if not isinstance(node, ast.Lambda):
            waiting.extend(ast.iter_child_nodes(node))
