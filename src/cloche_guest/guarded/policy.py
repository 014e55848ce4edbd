"""What restricted code may look like: RestrictedPython's rules, with those parts of the language that they lack."""

from __future__ import annotations

import ast

from cloche_guest.guarded.members import MAGIC_METHODS, NOT_HERE, READABLE, RICH_FORMS, allows
from cloche_guest.guarded.refusals import Violation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from RestrictedPython.transformer import RestrictingNodeTransformer as _Base
else:
    _Base = object  # imported when a session begins: until then its packages are not on the search path

_UNDERSCORE = "names with an underscore in front are private; choose another name"
_INSTEAD = {
    "AsyncFor": "use an ordinary loop",
    "AsyncFunctionDef": "use an ordinary function",
    "AsyncWith": "use an ordinary with statement",
    "Await": "call an ordinary function",
    "TryStar": "use except",
    "TypeAlias": "assign the type to a name",
}
_SIGNS: dict[type[ast.AST], str] = {
    ast.Add: "+=",
    ast.Sub: "-=",
    ast.Mult: "*=",
    ast.Div: "/=",
    ast.Mod: "%=",
    ast.Pow: "**=",
    ast.LShift: "<<=",
    ast.RShift: ">>=",
    ast.BitOr: "|=",
    ast.BitXor: "^=",
    ast.BitAnd: "&=",
    ast.FloorDiv: "//=",
    ast.MatMult: "@=",
}


class Rules(_Base):
    """Goes before RestrictedPython's transformer; see `policy_type`."""

    violations: list[Violation]
    bound: frozenset[str]
    """Names to which the cell itself gives a meaning."""
    inspection: frozenset[str]
    modules: frozenset[str]

    # -- saying no -----------------------------------------------------------------------------

    def error(self, node: ast.AST, info: str) -> None:
        self.refuse(node, info.rstrip("."), "")

    def refuse(self, node: ast.AST, what: str, instead: str) -> None:
        """Note something that is not allowed."""
        line, column = getattr(node, "lineno", None), getattr(node, "col_offset", 0) + 1
        self.violations.append(Violation(line, column, what, instead))
        self.errors.append(what)

    def not_allowed(self, node: ast.AST) -> None:
        kind = type(node).__name__
        self.refuse(node, "%s is not allowed" % kind, _INSTEAD.get(kind, ""))

    # -- names ---------------------------------------------------------------------------------

    def visit_Module(self, node: ast.Module) -> ast.AST:
        self.bound = _bound_in(node)
        return self.node_contents_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """`print` is the real one: what it writes is captured where everything is, in order."""
        if isinstance(node.ctx, ast.Load):
            if node.id in NOT_HERE and node.id not in self.bound:
                self.refuse(node, "%s is not allowed" % node.id, NOT_HERE[node.id])
            if node.id == "__name__":
                return node
        self.check_name(node, node.id)
        return node

    def check_name(self, node: Any, name: str | None, allow_magic_methods: bool = False) -> None:
        if name is None or name == "_" or name[:1] != "_":
            return
        if not (allow_magic_methods and (name in MAGIC_METHODS or name in RICH_FORMS) and node.col_offset):
            self.refuse(node, '"%s" is not allowed' % name, _UNDERSCORE)

    def check_import_names(self, node: Any) -> Any:
        called = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        for name in called:
            if getattr(node, "level", 0) or not allows(self.modules, name):
                known = ", ".join(sorted(self.modules))
                self.refuse(node, "the module %s is not allowed" % (name or "."), "use one of: " + known)
        for alias in node.names:
            if alias.name == "*":
                self.refuse(node, '"*" imports are not allowed', "name what you import")
            for name in (*alias.name.split("."), alias.asname or ""):
                self.check_name(node, name)
        if getattr(node, "is_lazy", 0):
            self.refuse(node, "lazy imports are not allowed", "import it plainly")
        return node

    def visit_Global(self, node: ast.Global) -> ast.AST:
        for name in node.names:
            self.check_name(node, name)
        return node

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.AST:
        for name in node.names:
            self.check_name(node, name)
        return node

    # -- attributes ----------------------------------------------------------------------------

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        reads = isinstance(node.ctx, ast.Load)
        if node.attr[:1] == "_" and not (reads and node.attr in READABLE):
            instead = "use type(x).__name__" if node.attr == "__class__" else _UNDERSCORE
            self.refuse(node, 'the attribute "%s" is not allowed' % node.attr, instead)
        elif node.attr in self.inspection:
            self.refuse(node, 'the attribute "%s" is not allowed' % node.attr, "it leads to frames and code")
        node = self.node_contents_visit(node)
        if not reads:
            node.value = _call("_write_", [node.value], node)
            return node
        return _call("_getattr_", [node.value, ast.Constant(node.attr)], node)

    # -- statements ----------------------------------------------------------------------------

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        """``d[k] += v`` becomes ``_in_place_item_("+=", d, k)(v)``: each part evaluated once, in Python's order."""
        sign, target = ast.Constant(_SIGNS[type(node.op)]), node.target
        if isinstance(target, ast.Name):
            self.visit(target)
            value = [sign, ast.Name(target.id, ast.Load()), self.visit(node.value)]
            return ast.copy_location(ast.Assign([target], _call("_inplacevar_", value, node)), node)
        owner = self.visit(target.value)
        if isinstance(target, ast.Attribute):
            if target.attr[:1] == "_":
                self.refuse(target, 'the attribute "%s" is not allowed' % target.attr, _UNDERSCORE)
            bound = _call("_in_place_attribute_", [sign, owner, ast.Constant(target.attr)], target)
        else:
            bound = _call("_in_place_item_", [sign, owner, self.visit(target.slice)], target)
        call = ast.Call(bound, [self.visit(node.value)], [])
        return ast.fix_missing_locations(ast.copy_location(ast.Expr(ast.copy_location(call, node)), node))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        return self.node_contents_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self.check_name(node, node.name)
        for keyword in node.keywords:
            self.refuse(node, "the class keyword %s is not allowed" % (keyword.arg or "**"), "leave it out")
        node = self.node_contents_visit(node)
        node.keywords = [ast.keyword("metaclass", ast.Name("__metaclass__", ast.Load()))]
        return ast.fix_missing_locations(node)

    # -- match: a class pattern reads attributes of which no other guard knows ------------------

    def visit_Match(self, node: Any) -> ast.AST:
        return self.node_contents_visit(node)  # type: ignore[no-any-return]  # whatever kind of node it is

    visit_match_case = visit_Match
    visit_MatchValue = visit_Match
    visit_MatchSingleton = visit_Match
    visit_MatchSequence = visit_Match
    visit_MatchOr = visit_Match

    def visit_MatchStar(self, node: Any) -> ast.AST:
        self.check_name(node, node.name)
        return self.node_contents_visit(node)  # type: ignore[no-any-return]  # as above

    visit_MatchAs = visit_MatchStar

    def visit_MatchMapping(self, node: Any) -> ast.AST:
        self.check_name(node, node.rest)
        return self.node_contents_visit(node)  # type: ignore[no-any-return]  # as above

    def visit_MatchClass(self, node: Any) -> ast.AST:
        for name in node.kwd_attrs:
            if name[:1] == "_" or name in self.inspection or name in ("format", "format_map"):
                self.refuse(node, 'the attribute "%s" is not allowed in a pattern' % name, "match without it")
        return self.node_contents_visit(node)  # type: ignore[no-any-return]  # as above


def _bound_in(tree: ast.Module) -> frozenset[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.alias):
            found.add(node.asname or node.name)
    return frozenset(found)


def _call(name: str, arguments: list[ast.expr], place: Any) -> ast.Call:
    call = ast.Call(ast.Name(name, ast.Load()), arguments, [])
    return ast.fix_missing_locations(ast.copy_location(call, place))


def policy_type(transformer: type[Any], inspection: frozenset[str], modules: frozenset[str]) -> type[Rules]:
    """These rules before those of RestrictedPython."""
    return type("Policy", (Rules, transformer), {"inspection": inspection, "modules": modules})
