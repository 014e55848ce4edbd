"""Fuzz target: code as models write it, cleaned of characters from prose and looked at by the guard-rails."""

from __future__ import annotations

from fuzz.engine import main

from cloche.guardrails.parsing import parse, parses
from cloche.guardrails.triggers import may_violate
from cloche.guardrails.unicode import sanitize_code_unicode
from cloche.guardrails.visitor import ASTSecurityVisitor, check
from cloche.guardrails.wording import explain

CORPUS = (
    # Degrees, a times sign, a root, a fraction, curly quotes, primes, a power and a subscript.
    "theta = 47\u00b0 \u00d7 \u221a(2\u00bd)  # \u2018note\u2019\nx\u2032 = 10\u207b\u00b3".encode(),
    's = \u201csay "hi"\u201d; y\u2082 = f"{d["\u00d7"]}" \u00b7 2\n'.encode(),
    b"import os\nfrom io import open as o\ndef f(dir, *a: int):\n    global eval\n    return [eval for eval in a]\n",
    b"match x:\n    case A(__class__=c) | {'k': [1, *r]}: '{0.__dict__}'.format(c)\nk = '__' 'globals__'\nx[k].mro()\n",
    b"class A(B, metaclass=M):\n    __match_args__ = ('x',)\n    async def g(self): return (self.f_back for y in z)\n",
)


def target(data: bytes) -> None:
    """No text breaks either of them; code that parses is left as it is."""
    code = data.decode("utf-8", "replace")
    cleaned = sanitize_code_unicode(code)
    if parses(code):
        assert cleaned == code
    assert bool(cleaned.note) == bool(cleaned.replacements)
    lines = code.count("\n") + code.count("\r") + 1
    for walled in (True, False):
        violations = check(code, walled=walled)
        if parses(code) and not may_violate(code, walled=walled):
            visitor = ASTSecurityVisitor(code, walled=walled)
            visitor.visit(parse(code))
            assert visitor.violations == []
        assert all(1 <= found.line <= lines and found.column >= 1 and found.instead for found in violations)
        assert bool(explain(violations, code)) == bool(violations)


if __name__ == "__main__":
    main(target, CORPUS)
