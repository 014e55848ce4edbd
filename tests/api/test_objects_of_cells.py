"""Functions, classes and what is made of them: saved in one session, they work in another and see its variables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from cloche import SessionSandbox, create_sandbox

# (what is made, an expression over there, what it gives). `rate` is 2 where it is made and 10 where it comes back.
CASES = {
    "a_method": (
        "class A:\n  def m(self, x): return x * rate\na = A(); bound = a.m",
        "bound(1), bound.__self__ is a",
        (10, True),
    ),
    "closures_that_share_a_cell": (
        (
            "def make():\n  n = 0\n  def more():\n    nonlocal n; n += rate\n  def get(): return n\n"
            "  return more, get\n"
            "more, get = make()"
        ),
        "more(), get()",
        (None, 10),
    ),
    "a_decorated_function": (
        (
            "import functools\ndef twice(f):\n  @functools.wraps(f)\n  def g(*a): return f(*a) * 2\n  return g\n"
            "@twice\ndef h(x):\n  'doc'\n  return x * rate"
        ),
        "h(1), h.__name__, h.__doc__, h.__wrapped__(1)",
        (20, "h", "doc", 10),
    ),
    "a_dataclass": (
        (
            "import dataclasses\n@dataclasses.dataclass\nclass P:\n  x: int\n"
            "  y: list = dataclasses.field(default_factory=list)\n  def scaled(self): return self.x * rate\np = P(1)"
        ),
        "p.scaled(), p == P(1), repr(p)",
        (10, True, "P(x=1, y=[])"),
    ),
    "an_enum": (
        "import enum\nclass C(enum.Enum):\n  R = 1\n  G = 2\n  def scaled(self): return self.value * rate\nc = C.G",
        "c is C.G, c.scaled(), C(1) is C.R",
        (True, 20, True),
    ),
    "a_function_with_attributes": ("def f(): return f.n * rate\nf.n = 3; f.me = f", "f(), f.me is f", (30, True)),
    "a_recursive_closure": (
        "def make():\n  def fact(n): return rate if n < 2 else n * fact(n - 1)\n  return fact\nfact = make()",
        "fact(3)",
        60,
    ),
    "a_partial": ("import functools\ndef f(x, y): return x * y * rate\np = functools.partial(f, 3)", "p(1)", 30),
    "a_cached_function": (
        "import functools\n@functools.lru_cache(maxsize=7)\ndef f(x): return x * rate\nf.tag = 5; f(1)",
        "f(1), f.cache_info().maxsize, f.tag",
        (10, 7, 5),
    ),
    "a_cached_method": (
        "import functools\nclass A:\n  @functools.cache\n  def m(self): return rate\na = A()",
        "a.m()",
        10,
    ),
    "a_cached_recursive_closure": (
        (
            "import functools\ndef make():\n"
            "  @functools.cache\n  def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\n"
            "  return fib\nfib = make()"
        ),
        "fib(30), fib.cache_info().misses",
        (832040, 31),
    ),
    "a_cached_property": (
        "import functools\nclass A:\n  @functools.cached_property\n  def p(self): return rate\na = A()",
        "a.p, a.p",
        (10, 10),
    ),
    "a_function_by_type": (
        (
            "import functools\n@functools.singledispatch\ndef f(x): return 'any', rate\n"
            "@f.register\ndef _(x: int): return 'int', rate\n@f.register(list)\ndef of_list(x): return 'list', rate"
        ),
        "f(''), f(1), f([])",
        (("any", 10), ("int", 10), ("list", 10)),
    ),
    "a_method_by_type": (
        (
            "import functools\nclass A:\n  @functools.singledispatchmethod\n  def f(self, x): return 'any'\n"
            "  @f.register\n  def _(self, x: int): return rate\na = A()"
        ),
        "a.f(''), a.f(1)",
        ("any", 10),
    ),
    "async_functions": (
        "async def f(): return rate\nasync def g():\n  yield rate",
        "await f(), [x async for x in g()]",
        (10, [10]),
    ),
    "properties_and_kinds_of_methods": (
        (
            "class A:\n  @property\n  def p(self): return rate\n  @staticmethod\n  def s(): return rate\n"
            "  @classmethod\n  def c(cls): return cls.__name__, rate\na = A()"
        ),
        "a.p, a.s(), A.c()",
        (10, 10, ("A", 10)),
    ),
    "a_metaclass": (
        (
            "class M(type):\n  made = []\n  def __new__(m, name, bases, names, **options):\n"
            "    M.made.append(name); return super().__new__(m, name, bases, {**names, 'tag': rate})\n"
            "  def __init__(cls, name, bases, names, **options): super().__init__(name, bases, names)\n"
            "class A(metaclass=M, option=1): pass\na = A()"
        ),
        "type(A) is M, M.made, a.tag, type('B', (A,), {}).tag, M.made",
        (True, ["A", "B"], 2, 10, ["A", "B"]),
    ),
    "a_register_of_subclasses": (
        "known = []\nclass Base:\n  def __init_subclass__(cls): known.append(cls)\nclass P(Base): pass\np = P()",
        "known == [P], isinstance(p, Base), type('Q', (Base,), {}) and len(known)",
        (True, True, 2),
    ),
    "an_abstract_class": (
        (
            "import abc\nclass B(abc.ABC):\n  def __init_subclass__(cls): log.append(rate)\n"
            "  @abc.abstractmethod\n  def f(self): ...\nlog = []\n"
            "class D(B):\n  def f(self): return rate\nB.register(int)"
        ),
        "log, D().f(), isinstance(3, B)",
        ([2], 10, True),
    ),
    "a_descriptor": ("class D:\n  def __get__(self, it, kind): return rate\nclass A:\n  d = D()\na = A()", "a.d", 10),
    "a_hash_that_needs_a_variable": (
        (
            "class H:\n  def __hash__(self): return hash(salt)\n  def __eq__(self, other): return self is other\n"
            "salt = 3\nh = H(); held = {h}"
        ),
        "h in held",
        True,
    ),
    "a_constructor_that_needs_a_variable": (
        "class F:\n  def __reduce__(self): return make, ()\ndef make(): return F()\nf = F()",
        "isinstance(f, F)",
        True,
    ),
    "an_exception_that_needs_a_variable": (
        (
            "class E(Exception):\n  def __init__(self, code): super().__init__(code); self.text = texts[code]\n"
            "texts = {1: 'x'}\ne = E(1)"
        ),
        "e.text",
        "x",
    ),
    "a_pickle_in_a_pickle": (
        (
            "import pickle\nclass I: pass\nclass O:\n  def __getstate__(self): return pickle.dumps(self.i)\n"
            "  def __setstate__(self, data): self.i = pickle.loads(data)\no = O(); o.i = I()"
        ),
        "isinstance(o.i, I)",
        True,
    ),
    "slots": ("class S:\n  __slots__ = ('x', 'y')\ns = S(); s.x = 1", "s.x, hasattr(s, 'y')", (1, False)),
    "named_tuples": (
        "import typing\nclass T(typing.NamedTuple):\n  a: int\n  b: str = 'z'\nt = T(1)",
        "t.b, isinstance(t, T)",
        ("z", True),
    ),
    "types_that_have_only_a_name": ("import typing\nU = typing.NewType('U', int)", "U(4), U.__name__", (4, "U")),
    "a_generic_class": (
        "import typing\nT = typing.TypeVar('T')\nclass G(typing.Generic[T]): pass\ng = G[int]()",
        "G.__parameters__[0] is T, isinstance(g, G)",
        (True, True),
    ),
    "a_default_factory": ("import collections\nd = collections.defaultdict(lambda: rate)", "d[1]", 10),
    "cycles": (
        "a = []; a.append(a)\nclass N: pass\nn = N(); n.n = n; s = {n}; t = ([],); t[0].append(t)",
        "a[0] is a, n.n is n, n in s, t[0][0] is t",
        (True, True, True, True),
    ),
}


@pytest.fixture(scope="module")
def sandboxes() -> Iterator[tuple[SessionSandbox, SessionSandbox]]:
    with create_sandbox(backend="native") as here, create_sandbox(backend="native") as there:
        yield here, there


@pytest.fixture
def pair(sandboxes):
    for sandbox in sandboxes:
        sandbox.reset()
    return sandboxes


@pytest.mark.parametrize("form", ["snapshot", "text"])
@pytest.mark.parametrize("case", CASES)
def test_it_comes_back_whole_and_sees_the_live_variables(pair, case, form):
    here, there = pair
    made, asked, found = CASES[case]
    here.execute(f"rate = 2\n{made}").check()
    if form == "snapshot":
        saved = here.snapshot()
        assert saved.skipped == ()
        assert there.restore(saved.to_bytes()) == ()
    else:
        text = here.save_text()
        assert text.errors == {}
        there.load_text(text.text)
    assert there.execute(f"rate = 10\n{asked}").check().value == repr(found)


@pytest.mark.parametrize(
    "case", ["a_cached_function", "a_function_by_type", "types_that_have_only_a_name", "a_partial"]
)
def test_it_comes_back_where_cloudpickle_is_not_there(pair, case):
    here, there = pair
    made, asked, found = CASES[case]
    here.execute(
        f"import sys, typing; sys.modules['cloudpickle'] = None\nT = typing.TypeVar('T')\nrate = 2\n{made}"
    ).check()
    saved = here.snapshot()
    assert saved.skipped == ()
    assert there.restore(saved) == ()
    assert there.execute(f"rate = 10\nT.__name__, ({asked})").check().value == repr(("T", found))


def test_a_text_that_cannot_be_read_leaves_no_variable(pair):
    here, there = pair
    here.execute("x = 1\nclass E:\n  def __setstate__(self, state): raise ValueError\ne = E(); e.x = 1").check()
    with pytest.raises(Exception, match="ValueError"):
        there.load_text(here.save_text().text)
    assert there.list_variables() == {}


def test_names_that_begin_with_underscores_are_saved_and_pythons_own_are_not(pair):
    here, there = pair
    here.execute("__mine = 1; _also = 2; __spec__ = 3").check()
    saved = here.snapshot()
    assert set(saved.variables) == {"__mine", "_also"}
    there.restore(saved)
    assert there.get_variable("__mine") == 1


@pytest.mark.parametrize("form", ["snapshot", "text"])
def test_variables_are_saved_as_they_were_before_code_of_one_changed_the_others(pair, form):
    here, there = pair
    here.execute(
        "class E:\n  def __reduce__(self):\n    globals().pop('last', None); globals().update(y=9, new=1)\n"
        "    return int, ()\ne = E(); y = 2; last = 3"
    ).check()
    if form == "snapshot":
        there.restore(here.snapshot())
    else:
        there.load_text(here.save_text().text)
    assert there.execute("y, last").check().value == "(2, 3)"
    assert "new" not in there.list_variables()


def test_a_state_cannot_replace_the_builtins(pair):
    here, there = pair
    here.execute("x = {}").check()
    saved = here.snapshot()
    hostile = replace(saved, entries=tuple(replace(entry, names=("__builtins__",)) for entry in saved.entries))
    there.restore(hostile)
    assert there.execute("len('ab')").check().value == "2"
