"""guard="restricted": ordinary Python works, and what leads around the guards does not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cloche import ExecutionPolicy, InProcessSandbox, PolicyError, SessionSandbox, create_sandbox
from cloche.backends.inprocess import guards
from cloche.errors import BackendUnavailableError

WORKS = {
    "augmented assignment of a name": ("x = 1\nx += 1\nx", "2"),
    "of an item": ("d = {'a': 1}\nd['a'] += 2\nd", "{'a': 3}"),
    "of an attribute": ("class A: n = 1\na = A()\na.n *= 5\na.n", "5"),
    "of an item, read before its value": ("l = [1]\ndef f():\n    l[0] = 10\n    return 1\nl[0] += f()\nl", "[2]"),
    "every sign": (
        ("n = 7\nn -= 1; n *= 4; n //= 5; n **= 2; n %= 9; n <<= 2; n >>= 1; n |= 8; n &= 12; n ^= 1\nn"),
        "13",
    ),
    "self.x = 1": ("class A:\n    def __init__(self): self.x = 1\nA().x", "1"),
    "a property": ("class A:\n    @property\n    def x(self): return 5\nA().x", "5"),
    "a setter": (
        (
            "class A:\n    @property\n    def x(self): return self.y\n    @x.setter\n"
            "    def x(self, v): self.y = v\na = A(); a.x = 3\na.x"
        ),
        "3",
    ),
    "inheritance and super": (
        ("class A:\n    def f(self): return 'a'\nclass B(A):\n    def f(self): return super().f() + 'b'\nB().f()"),
        "'ab'",
    ),
    "super().__init__": (
        (
            "class A:\n    def __init__(self, n): self.n = n\nclass B(A):\n    def __init__(self):\n"
            "        super().__init__(4)\nB().n"
        ),
        "4",
    ),
    "class attributes": ("class A: count = 0\nA.count += 1\nA.count", "1"),
    "operators of a class": (
        (
            "class V:\n    def __init__(self, n): self.n = n\n"
            "    def __add__(self, o): return V(self.n + o.n)\n"
            "    def __repr__(self): return f'V({self.n})'\nV(1) + V(2)"
        ),
        "V(3)",
    ),
    "a dataclass": (
        "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\n    y: int = 2\nP(1)",
        "P(x=1, y=2)",
    ),
    "an enum": ("from enum import Enum\nclass C(Enum):\n    RED = 1\nC.RED.name", "'RED'"),
    "a named tuple": ("from typing import NamedTuple\nclass P(NamedTuple):\n    x: int\nP(3)", "P(x=3)"),
    "comprehensions": (
        "[a * b for a, b in [(1, 2), (3, 4)] if a], {k: v for k, v in {'x': 1}.items()}, {i for i in (1,)}",
        "([2, 12], {'x': 1}, {1})",
    ),
    "unpacking": ("(a, b), *c = [(1, 2), 3, 4]\na, b, c", "(1, 2, [3, 4])"),
    "star arguments": ("def f(*a, k=0, **o): return a, k, o\nf(*[1], **{'k': 2, 'z': 3})", "((1,), 2, {'z': 3})"),
    "with": ("from contextlib import suppress\nwith suppress(ZeroDivisionError): 1/0\n5", "5"),
    "try": (
        "try: 1/0\nexcept ZeroDivisionError as e: x = type(e).__name__\nfinally: y = 1\nx, y",
        "('ZeroDivisionError', 1)",
    ),
    "f-strings": ("x = 3\nf'{x:>4}|{x!r}'", "'   3|3'"),
    "str.format": ("'{:>4}|{0}'.replace('{0}', '{x.real}').format(1, x=2)", "'   1|2'"),
    "lambdas and sorting": ("sorted([3, 1, 2], key=lambda n: -n)", "[3, 2, 1]"),
    "decorators": ("def twice(f): return lambda *a: f(f(*a))\n@twice\ndef inc(n): return n + 1\ninc(1)", "3"),
    "generators": ("def g():\n    yield 1\n    yield from [2]\nlist(g())", "[1, 2]"),
    "nonlocal": (
        (
            "def f():\n    n = 0\n    def g():\n        nonlocal n\n        n += 1\n        return n\n"
            "    return g()\nf()"
        ),
        "1",
    ),
    "global": ("n = 0\ndef f():\n    global n\n    n += 1\nf(); f()\nn", "2"),
    "match": ("match {'a': [1, 2]}:\n    case {'a': [first, *rest]}: x = first, rest\nx", "(1, [2])"),
    "the walrus": ("[y := 5, y ** 2]", "[5, 25]"),
    "annotations": ("n: int = 4\ndef f(a: int) -> str: return str(a)\nf(n)", "'4'"),
    "slices": ("[1, 2, 3, 4][1:3], 'abc'[::-1]", "([2, 3], 'cba')"),
    "a key that begins with an underscore": ("{'_key': 1, '__dict__': 2}['__dict__']", "2"),
    "builtins that RestrictedPython lacks": (
        "sum([1]), max(1, 2), list('ab'), any([0]), dict(a=1), type(1) is int",
        "(1, 2, ['a', 'b'], False, {'a': 1}, True)",
    ),
    "submodules": (
        (
            "from collections.abc import Mapping\nimport urllib.parse\n"
            "urllib.parse.quote('a b'), isinstance({}, Mapping)"
        ),
        "('a%20b', True)",
    ),
    "the name of the module": ("__name__", "'__main__'"),
    "a missing attribute with a default": ("getattr(1, 'nothing', 7), hasattr(1, 'real')", "(7, True)"),
    "numpy": ("import numpy as np\na = np.zeros(3)\na[1] += 2\na[0] = 1\na.sum()", "np.float64(3.0)"),
}

REFUSED = {
    "a private attribute": "x = []\nx._private",
    "a dunder": "().__class__",
    "the tree of classes": "type(0).mro()",
    "a frame": "(x for x in [1]).gi_frame",
    "a traceback": "try: 1/0\nexcept Exception as e: e.__traceback__",
    "str.format on attributes": "'{0.__class__}'.format(1)",
    "str.format_map on attributes": "'{x.__class__}'.format_map({'x': 1})",
    "str.format of the class": "str.format('{0.__class__}', 1)",
    "format by a pattern": "match '{0.__class__}':\n    case str(format=f): f(1)",
    "an attribute by name": "getattr(1, '__cla' + 'ss__')",
    "an attribute by name with a default": "getattr(1, '__class__', None).x",
    "attrgetter": "import operator\noperator.attrgetter('__class__')(1)",
    "a module behind a module": "import statistics\nstatistics.sys",
    "a module from a module": "from json import codecs",
    "files of an allowed module": "from io import open as o\no('/etc/passwd')",
    "string.Formatter": "import string\nstring.Formatter()",
    "type hints that are text": "import typing\ntyping.get_type_hints(int)",
    "numpy's files": "import numpy\nnumpy.loadtxt('/etc/passwd', dtype=str)",
    "a module": "import os",
    "open": "open('x')",
    "eval": "eval('1')",
    "a changed module": "import math\nmath.pi = 3",
    "a changed builtin class": "int.x = 1",
    "a changed host function": "llm_query.x = 1",
    "a guard of another name": "_getattr_ = 1",
    "a metaclass": "class A(metaclass=int): pass",
    "a class made by type": "type('A', (), {})",
    "a module above": "from . import x",
}


@pytest.fixture(scope="module")
def inline() -> Iterator[SessionSandbox]:
    with create_sandbox(backend="inprocess", guard="restricted", worker="inline") as sandbox:
        yield sandbox


@pytest.mark.parametrize("what", WORKS)
def test_ordinary_code_works(inline: SessionSandbox, what: str):
    code, value = WORKS[what]
    assert inline.execute(code).check().value == value


@pytest.mark.parametrize("what", REFUSED)
def test_what_leads_around_the_guards_is_refused_with_its_line(inline: SessionSandbox, what: str):
    result = inline.execute(REFUSED[what])
    assert result.outcome == "error", what
    assert result.exception is not None
    assert result.exception.line is not None
    assert (
        "allowed" in result.exception.message
        or "changed" in result.exception.message
        or "type()" in result.exception.message
    )


def test_prints_of_nested_functions_come_in_order():
    code = "def f():\n    print('in')\n    def g(): print('deep')\n    g()\nprint('before'); f(); print('after')"
    with InProcessSandbox(guard="restricted") as sandbox:
        assert sandbox.execute(code).stdout == "before\nin\ndeep\nafter\n"


def test_every_violation_is_reported_with_its_place_and_what_to_use_instead():
    with InProcessSandbox(guard="ast") as sandbox:
        result = sandbox.execute("x = 1\nimport os\ny = [].__class__\nopen('f')")
    assert result.exception is not None
    assert (result.exception.type, result.exception.line) == ("GuardrailError", 2)
    for place in ("line 2, column 8", "line 3, column 5", "line 4, column 1"):
        assert place in result.exception.message
    assert result.exception.message.count("instead:") == 3
    assert result.guidance is not None


def test_nothing_of_a_refused_cell_is_run():
    with InProcessSandbox(guard="ast") as sandbox:
        sandbox.execute("done = 1\nimport os")
        assert sandbox.list_variables() == {}


def test_the_host_says_which_modules_may_be_imported():
    with InProcessSandbox(guard="restricted", worker="inline", modules=["colorsys"]) as sandbox:
        assert sandbox.execute("import colorsys").success
        assert "use one of: __future__, colorsys" in str(sandbox.execute("import math").error)


def test_a_guard_that_does_not_exist_is_named():
    with pytest.raises(PolicyError, match="guard must be one of ast, restricted, not 'none'"):
        InProcessSandbox(guard="none")


def test_the_missing_extra_comes_with_the_command(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("importlib.metadata.version", lambda name: "8.4")
    assert guards.why_not_restricted() == "RestrictedPython 8.4 is too old"
    with pytest.raises(BackendUnavailableError, match=r"8\.5 or later") as caught:
        InProcessSandbox(guard="restricted")
    assert "pip install 'cloche[restricted]'" in str(caught.value.remedy)


def test_output_is_bounded():
    with InProcessSandbox(guard="restricted", policy=ExecutionPolicy(max_output_length=1000)) as sandbox:
        result = sandbox.execute("for n in range(10_000): print('x' * 100)")
    assert result.stdout_truncated
    assert len(result.stdout) < 1100


def test_auto_never_takes_it():
    from cloche.factory import AUTO_ORDER

    assert "inprocess" not in AUTO_ORDER
