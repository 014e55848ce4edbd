"""What the names of a cell stand for, as far as its text tells: modules, functions of modules, fixed strings."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterable

from cloche.guardrails.reexports import canonical
from cloche.guardrails.rules import COMMON_ALIASES, KNOWN_MODULES

# Enough for whatever people write; without a bound, a chain of ten thousand attributes would be read again for each.
_LONGEST_CHAIN = 8
_MOST_ORIGINS = 8
_MOST_PARTS = 100


class Origins:
    """The imports, aliases and string constants of one cell."""

    def __init__(self, nodes: Iterable[ast.AST]) -> None:
        self._known: defaultdict[str, set[str]] = defaultdict(set)
        self._texts: dict[str, str] = {}
        stores: Counter[str] = Counter()
        assigned: list[tuple[str, ast.expr]] = []
        for node in nodes:
            if isinstance(node, ast.Import):
                self._take_import(node)
            elif isinstance(node, ast.ImportFrom):
                self._take_import_from(node)
            elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                stores[node.id] += 1
            elif isinstance(node, ast.arg):
                stores[node.arg] += 1
            elif isinstance(node, ast.Assign):
                assigned.extend((target.id, node.value) for target in node.targets if isinstance(target, ast.Name))
            elif isinstance(node, ast.NamedExpr):
                assigned.append((node.target.id, node.value))
        self._bound = frozenset(stores) | frozenset(self._known)
        for name, value in assigned:
            text = self.text(value)
            if text is not None and stores[name] == 1:
                self._texts[name] = text
        # Twice: an alias of an alias may stand before it, in a function.
        for name, value in (*assigned, *assigned):
            self._known[name].update(sorted(self.of(value))[:_MOST_ORIGINS])

    def of(self, node: ast.AST) -> set[str]:
        """The full names that `node` may stand for: ``np.load`` may be ``numpy.load``."""
        rest: list[str] = []
        while isinstance(node, ast.Attribute):
            rest.append(node.attr)
            node = node.value
            if len(rest) > _LONGEST_CHAIN:
                return set()
        if not isinstance(node, ast.Name):
            return set()
        names = {".".join((origin, *reversed(rest))) for origin in self._origins(node.id)}
        return names | {canonical(name) for name in names if "." in name}

    def text(self, node: ast.AST) -> str | None:
        """The string that an expression gives, if it is made of fixed ones."""
        parts: list[str] = []
        waiting = [node]
        for _ in range(_MOST_PARTS):
            if not waiting:
                return "".join(parts)
            node = waiting.pop()
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                parts.append(node.value)
            elif isinstance(node, ast.Name) and node.id in self._texts:
                parts.append(self._texts[node.id])
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
                waiting += [node.right, node.left]
            elif isinstance(node, ast.JoinedStr):
                waiting += reversed(node.values)
            elif isinstance(node, ast.FormattedValue) and node.format_spec is None and node.conversion in (-1, 115):
                waiting.append(node.value)
            else:
                return None
        return None

    def _origins(self, name: str) -> set[str]:
        if name in self._bound:
            return self._known.get(name, set())
        # Imported by an earlier cell, or there from the start.
        return {COMMON_ALIASES.get(name, name)} if name in KNOWN_MODULES else set()

    def _take_import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.asname:
                self._known[alias.asname].add(alias.name)
            else:
                root = alias.name.partition(".")[0]
                self._known[root].add(root)

    def _take_import_from(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            if node.module and not node.level:
                self._known[alias.asname or alias.name].add(f"{node.module}.{alias.name}")
