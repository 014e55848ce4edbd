"""The guard-rails: what a cell may not say, found in its syntax tree before it runs.

A linter, and never a boundary: it reads text, and Python can be made to do what its text does not show. Behind a wall
it saves a model a turn that would fail anyway; without one it stops accidents and known tricks, and whoever wants out
gets out.
"""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from cloche.guardrails import rules
from cloche.guardrails.origins import Origins
from cloche.guardrails.parsing import parse
from cloche.guardrails.reexports import canonical
from cloche.guardrails.scopes import (
    COMPREHENSIONS,
    FUNCTIONS,
    Comprehension,
    Function,
    Scope,
    class_scope,
    comprehension_scope,
    function_scope,
    settled_names,
)
from cloche.guardrails.triggers import may_violate

_FIELD_PARTS = re.compile(r"[.\[\]]")
_LINE_ENDS = re.compile(r"\r\n|\r|\n")
_FIXED_NAMES = frozenset({"__builtins__", "__import__", "__build_class__", "__loader__", "__spec__"})
_LISTED_FUNCTIONS = rules.FILE_FUNCTIONS | rules.EVALUATORS
# Nobody reads more, and finding the column takes as long as the line is.
_MOST_VIOLATIONS = 1000

Placed: TypeAlias = "ast.expr | ast.alias | ast.ImportFrom | ast.pattern"


@dataclass(frozen=True, slots=True, order=True)
class Violation:
    """One thing in a cell that the guard-rails do not let through."""

    line: int
    column: int
    """In characters, from 1."""
    rule: str
    what: str
    instead: str

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.what}; instead: {self.instead}"


def check(code: str, *, walled: bool) -> list[Violation]:
    """Everything in `code` that the guard-rails do not let through, in order of its place.

    With `walled`, for code that runs behind a real wall, only the three short lists count. Without, so does whatever is
    known to lead around them. Code that does not parse has no violations: running it gives its error.
    """
    if not may_violate(code, walled=walled):
        return []
    try:
        tree = parse(code)
    except SyntaxError:
        return []
    except (RecursionError, MemoryError):
        # It may still compile: the compiler goes deeper than a tree of Python objects can.
        return [] if walled else [_too_deep()]
    visitor = ASTSecurityVisitor(code, walled=walled)
    visitor.visit(tree)
    return sorted(set(visitor.violations))


def _too_deep() -> Violation:
    what = "the code is nested too deeply for the guard-rails to read"
    return Violation(1, 1, "depth", what, rules.INSTEAD_OF["depth"])


class ASTSecurityVisitor(ast.NodeVisitor):
    """Collects the violations in a tree. The lists are attributes of the class: a subclass may have others.

    It keeps a list of nodes to visit instead of calling itself, so that no depth of nesting stops it.
    """

    FORBIDDEN_MODULES: ClassVar[frozenset[str]] = rules.MODULES
    FORBIDDEN_CALLS: ClassVar[frozenset[str]] = rules.NAMES
    FORBIDDEN_ATTRS: ClassVar[frozenset[str]] = rules.ATTRIBUTES

    def __init__(self, source: str = "", *, walled: bool = False) -> None:
        self.violations: list[Violation] = []
        self._walled = walled
        self._lines = _LINE_ENDS.split(source)
        self._scope = Scope()
        self._waiting: list[tuple[ast.AST, Scope]] = []
        self._allowed: set[int] = set()
        """Nodes that are all right where they stand."""
        self._modules = self.FORBIDDEN_MODULES if walled else self.FORBIDDEN_MODULES | rules.MORE_MODULES
        self._names = self.FORBIDDEN_CALLS if walled else self.FORBIDDEN_CALLS | rules.MORE_NAMES

    def visit(self, node: ast.AST) -> None:
        """Visit `node` and everything below it."""
        nodes = list(ast.walk(node))
        self._origins = Origins(nodes)
        self._settled = settled_names(node, nodes) if isinstance(node, ast.Module) else {}
        self._formats_elsewhere = False
        self._strings: list[ast.Constant] = []
        self._waiting.append((node, Scope()))
        while self._waiting:
            node, self._scope = self._waiting.pop()
            examine: Callable[[ast.AST], None] | None = getattr(self, f"visit_{type(node).__name__}", None)
            if examine is not None:
                examine(node)
            self.generic_visit(node)
        if self._formats_elsewhere and not self._walled:
            for constant in self._strings:
                self._check_format(constant, str(constant.value))

    def generic_visit(self, node: ast.AST) -> None:
        """Put the children of `node` on the list, each with the scope that it is in."""
        if isinstance(node, FUNCTIONS):
            self._spread(node, function_scope(node, self._scope))
        elif isinstance(node, ast.ClassDef):
            self._spread(node, class_scope(node, self._scope))
        elif isinstance(node, COMPREHENSIONS):
            self._spread_comprehension(node)
        else:
            self._waiting.extend((child, self._scope) for child in ast.iter_child_nodes(node))

    def _spread(self, node: Function | ast.ClassDef, inner: Scope) -> None:
        # Decorators, defaults, annotations and bases are evaluated outside.
        body = {id(child) for child in (node.body if isinstance(node.body, list) else [node.body])}
        for child in ast.iter_child_nodes(node):
            self._waiting.append((child, inner if id(child) in body else self._scope))

    def _spread_comprehension(self, node: Comprehension) -> None:
        inner = comprehension_scope(node, self._scope)
        children = (child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.comprehension))
        self._waiting.extend((child, inner) for child in children)
        for index, generator in enumerate(node.generators):
            # The first iterable is evaluated outside.
            self._waiting.append((generator.iter, inner if index else self._scope))
            self._waiting.extend((part, inner) for part in (generator.target, *generator.ifs))

    # -- imports -------------------------------------------------------------------------------

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._check_module(alias, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if not node.module or node.level:
            return
        if self._check_module(node, node.module) or self._walled:
            return
        for alias in node.names:
            full = f"{node.module}.{alias.name}"
            if alias.name == "*" and any(name.startswith(f"{node.module}.") for name in _LISTED_FUNCTIONS):
                what = f"`from {node.module} import *` also brings what may not be used"
                self._report(alias, "module", what, f"import {node.module}")
            elif alias.name.startswith("_") and not _is_dunder(alias.name):
                self._report(alias, "private", f"`{alias.name}` is private to `{node.module}`")
            elif alias.name in rules.REEXPORTED:
                self._report(alias, "module", f"`{full}` is the module `{alias.name}`", _instead("module", alias.name))
            elif self._module_behind({canonical(full)}) is not None:
                behind = canonical(full)
                self._report(alias, "module", f"`{full}` is the module `{behind}`", _instead("module", behind))
            else:
                self._check_function(alias, {full, canonical(full)})
                rule = self._attribute_rule(alias.name)
                if rule is not None:
                    self._report(alias, rule, f"`{full}` may not be imported")

    def _check_module(self, node: ast.alias | ast.ImportFrom, name: str) -> bool:
        root = name.partition(".")[0]
        hidden = root.startswith("_") and root != "__future__" and not self._walled
        if root in self._modules or hidden:
            self._report(node, "module", f"the module `{name}` may not be imported", _instead("module", root))
            return True
        if not self._walled:
            self._check_function(node, {name})
        return False

    # -- names and attributes ------------------------------------------------------------------

    def visit_Name(self, node: ast.Name) -> None:
        if not self._walled and isinstance(node.ctx, ast.Load):
            self._check_function(node, {origin for origin in self._origins.of(node) if "." in origin})
        hidden = not self._walled and _is_dunder(node.id) and node.id not in rules.HARMLESS_DUNDERS
        if node.id not in self._names and not hidden:
            return
        if isinstance(node.ctx, ast.Load):
            here = (node.lineno, node.col_offset)
            settled = any(start <= here <= end for start, end in self._settled.get(node.id, ()))
            own = settled or self._scope.holds(node.id)
        else:
            # Whoever changes these changes them for all that follows.
            own = self._scope.holds(node.id) or node.id not in _FIXED_NAMES
        if not own:
            self._report(node, "name", f"`{node.id}` may not be used", _instead("name", node.id))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        rule = self._attribute_rule(node.attr)
        if rule is not None:
            self._report(node, rule, f"`.{node.attr}` may not be used", _instead(rule, node.attr))
        elif not self._walled:
            self._check_attribute_of_module(node)
            if node.attr in rules.FORMATTING and self._origins.text(node.value) is None:
                self._formats_elsewhere = True
            elif node.attr in rules.FILE_METHODS:
                self._report(node, "file", f"`.{node.attr}` writes a file")

    def visit_MatchClass(self, node: ast.MatchClass) -> None:
        for name in node.kwd_attrs:
            rule = self._attribute_rule(name)
            if rule is not None:
                self._report(node, "match", f"the pattern reads `.{name}`, which may not be used")

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        if not self._walled:
            for key in node.keys:
                self._check_key(key, key)

    def visit_Assign(self, node: ast.Assign) -> None:
        if self._walled or not any(isinstance(t, ast.Name) and t.id == "__match_args__" for t in node.targets):
            return
        names = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        for name in names:
            text = self._origins.text(name)
            if text is None or self._attribute_rule(text) is not None:
                self._report(name, "match", "patterns would read an attribute that may not be used")

    def _attribute_rule(self, name: str) -> str | None:
        """The rule that `name`, read from an object, breaks."""
        if name in self.FORBIDDEN_ATTRS:
            return "attribute"
        if self._walled:
            return None
        if _is_dunder(name) and name not in rules.HARMLESS_DUNDERS:
            return "attribute"
        return "frame" if name in rules.FRAME_ATTRIBUTES else None

    def _check_attribute_of_module(self, node: ast.Attribute) -> None:
        owners = self._origins.of(node.value)
        shown = node.attr.lstrip("_")
        behind = self._module_behind(self._origins.of(node)) if owners else None
        if shown in rules.TELLING_MODULES or (owners and shown in rules.REEXPORTED):
            self._report(node, "module", f"`.{node.attr}` is the module `{shown}`", _instead("module", shown))
        elif behind is not None:
            self._report(node, "module", f"`.{node.attr}` is the module `{behind}`", _instead("module", behind))
        elif node.attr.startswith("_") and not _is_dunder(node.attr):
            # Of a class of a module, such as a named tuple's, they may be public.
            if any(not owner.rpartition(".")[2][:1].isupper() for owner in owners):
                self._report(node, "private", f"`.{node.attr}` is private to `{min(owners)}`")
        elif isinstance(node.ctx, ast.Load):
            self._check_function(node, self._origins.of(node) or {node.attr})

    def _module_behind(self, names: set[str]) -> str | None:
        """A module that may not be imported, where a chain of attributes is one of those."""
        return next((name for name in sorted(names) if name in self._modules), None)

    def _check_function(self, node: Placed, names: set[str]) -> None:
        """`names` are the full names that the node may stand for."""
        if id(node) in self._allowed:
            return
        for name in names:
            last = name.rpartition(".")[2]
            if name in rules.FILE_FUNCTIONS:
                rule = "buffer" if name.startswith("pandas.") else "file"
                self._report(node, rule, f"`{name}` opens files")
            elif name in rules.EVALUATORS:
                self._report(node, "evaluator", f"`{name}` makes code of data")
            elif last in rules.BY_NAME and not isinstance(node, ast.alias):
                self._report(node, "by name", f"`{last}` reaches attributes by names that cannot be read here")

    # -- strings that name attributes ----------------------------------------------------------

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if not self._walled:
            self._check_key(node, node.slice)

    def visit_Call(self, node: ast.Call) -> None:
        if self._walled:
            return
        names = self._origins.of(node.func)
        last = {name.rpartition(".")[2] for name in names} | {_last_name(node.func)}
        if last & rules.BY_NAME:
            self._check_attribute_names(node)
        if last & rules.BY_KEY and node.args:
            self._check_key(node, node.args[0])
        if isinstance(node.func, ast.Attribute) and node.func.attr in rules.FORMATTING:
            text = self._origins.text(node.func.value)
            if text is not None:
                self._check_format(node, text)
        if any(name.startswith("pandas.read_") for name in names) and node.args:
            source = node.args[0]
            if isinstance(source, ast.Call) and _last_name(source.func) in rules.TEXT_BUFFERS:
                self._allowed.add(id(node.func))

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and "{" in node.value and id(node) not in self._allowed:
            self._strings.append(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            # A docstring, or a comment in the form of a string.
            self._allowed.add(id(node.value))

    def _check_attribute_names(self, call: ast.Call) -> None:
        # Of attrgetter every argument is a name, of others the first.
        names = call.args if _last_name(call.func) not in ("methodcaller", "get_field") else call.args[:1]
        texts = [self._origins.text(name) for name in names]
        if not texts or None in texts:
            return
        self._allowed.add(id(call.func))
        for text in texts:
            for part in (text or "").split("."):
                if self._attribute_rule(part) is not None:
                    what = f"`.{part}` may not be used, by name either"
                    self._report(call, "attribute", what, _instead("attribute", part))

    def _check_key(self, node: ast.expr, key: ast.expr) -> None:
        text = self._origins.text(key)
        if text is not None and _is_dunder(text) and self._attribute_rule(text) is not None:
            self._report(node, "key", f"the key {text!r} is the name of an inner attribute")

    def _check_format(self, node: ast.expr, text: str) -> None:
        for part in _attributes_in_format(text):
            if self._attribute_rule(part) is not None:
                self._report(node, "format", f"the format string reads `.{part}`, which may not be used")

    def _report(self, node: Placed, rule: str, what: str, instead: str | None = None) -> None:
        if len(self.violations) >= _MOST_VIOLATIONS:
            return
        line = self._lines[node.lineno - 1] if node.lineno <= len(self._lines) else ""
        before = line.encode("utf-8", "surrogatepass")[: node.col_offset]
        column = len(before.decode("utf-8", "ignore")) + 1
        self.violations.append(Violation(node.lineno, column, rule, what, instead or rules.INSTEAD_OF[rule]))


def _instead(rule: str, name: str) -> str:
    return rules.INSTEAD.get(name) or rules.INSTEAD_OF[rule]


def _is_dunder(name: str) -> bool:
    return len(name) > 4 and name.startswith("__") and name.endswith("__")


def _last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _attributes_in_format(text: str, depth: int = 2) -> Iterator[str]:
    """The attributes and keys that the fields of a format string read."""
    try:
        fields = list(string.Formatter().parse(text))
    except ValueError:
        return
    for _, name, specification, _ in fields:
        yield from _FIELD_PARTS.split(name or "")[1:]
        if specification and depth > 1:
            yield from _attributes_in_format(specification, depth - 1)
