"""Objects of cells that pickle would only name, or not take at all, though everything they are made of can be saved.

Named in ``__main__``, they would be saved in name only: where the state is read, nothing has that name yet.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Tuple

    Reduction = Tuple[Any, ...]

HOOKS_OF_METACLASSES = ("__new__", "__init__", "__prepare__")


class Apply:
    """Pickles as ``eval(source)``: nothing of ours needs to be importable where a state is read."""

    def __init__(self, source: str) -> None:
        self._source = source

    def __call__(self, *args: Any) -> Any:
        return eval(self._source)(*args)

    def __reduce__(self) -> Reduction:
        return eval, (self._source,)


# What came of a class when it was made is saved with it, and with others: running its hooks again would do it twice.
_QUIET = """
def make(hooks, skeleton, *args):
    held = [(owner, name, owner.__dict__[name]) for owner, name in hooks if name in owner.__dict__]
    for owner, name, _ in held:
        type.__delattr__(owner, name)
    try:
        return skeleton(*args)
    finally:
        for owner, name, hook in held:
            type.__setattr__(owner, name, hook)
"""
_make_class = Apply("(lambda space: exec(" + repr(_QUIET) + ", space) or space['make'])({})")
_make_cached = Apply("(lambda function, most, typed: __import__('functools').lru_cache(most, typed)(function))")
_make_dispatch = Apply(
    "(lambda base, table: [[made, [made.register(kind, function) for kind, function in table]][0]"
    " for made in [__import__('functools').singledispatch(base)]][0])"
)
_make_alias = Apply(
    "(lambda name, value, parameters: __import__('typing').TypeAliasType(name, value, type_params=parameters))"
)
_make_variable = Apply(
    "(lambda name, constraints, bound, covariant, contravariant: __import__('typing').TypeVar(name, *constraints,"
    " bound=bound, covariant=covariant, contravariant=contravariant))"
)
_OF_CACHED = ("__wrapped__", "cache_parameters")
_OF_DISPATCH = ("register", "dispatch", "registry", "_clear_cache")


def quiet_class(kind: Any, reduction: Any) -> Any:
    """cloudpickle's way to write a class, changed so that no hook of a cell runs when it is read."""
    if type(reduction) is not tuple or getattr(reduction[0], "__name__", "") != "_make_skeleton_class":
        return reduction
    hooks = [(base, "__init_subclass__") for base in kind.__mro__[1:] if _has(base, "__init_subclass__")]
    hooks += [(meta, name) for meta in type(kind).__mro__ for name in HOOKS_OF_METACLASSES if _has(meta, name)]
    if not hooks:
        return reduction
    return (_make_class, (hooks, reduction[0], *reduction[1]), *reduction[2:])


def _has(kind: Any, name: str) -> bool:
    return kind.__module__ == "__main__" and name in kind.__dict__


def reducers(beside_cloudpickle: bool) -> dict[type, Callable[[Any], Any]]:
    """By type; of modules that are imported already. cloudpickle makes one variable of all that were the same."""
    try:
        import _typing  # type: ignore[import-not-found]  # where CPython 3.12 has them, whoever imports typing
    except ImportError:
        _typing = None
    functools, typing = sys.modules.get("functools"), sys.modules.get("typing")
    found: dict[type, Callable[[Any], Any]] = {}
    for module, name, reduce in (
        (functools, "_lru_cache_wrapper", _reduce_cached),
        (functools, "cached_property", _reduce_cached_property),
        (functools, "singledispatchmethod", _reduce_method_by_type),
        (typing, "NewType", _reduce_new_type),
        *[(typing, name, reduce) for name, reduce in _OF_TYPING],
        *[(_typing, name, reduce) for name, reduce in _OF_TYPING],
    ):
        kind = getattr(module, name, None)
        if type(kind) is type and not (beside_cloudpickle and name == "TypeVar"):
            found[kind] = reduce
    return found


def _is_found_by_name(found: Any) -> bool:
    """Whether whoever reads its name will have it."""
    module = sys.modules.get(found.__module__)
    return found.__module__ != "__main__" and getattr(module, found.__name__, None) is found


def reduce_dispatch(function: Any) -> Reduction | None:
    """A function that `functools.singledispatch` made; None for any other."""
    functools: Any = sys.modules.get("functools")
    if functools is None or function.__globals__ is not functools.__dict__ or function.__module__ != "__main__":
        return None
    attributes = function.__dict__
    if not all(name in attributes for name in _OF_DISPATCH):
        return None
    table = list(attributes["registry"].items())
    base = dict(table)[object]
    own = {name: value for name, value in attributes.items() if name not in (*_OF_DISPATCH, "__wrapped__")}
    return _make_dispatch, (base, [pair for pair in table if pair[0] is not object]), own or None


def _reduce_cached(function: Any) -> Any:
    """What it remembers is not saved: nobody can ask it."""
    if function.__module__ != "__main__":
        return NotImplemented
    if hasattr(function, "cache_parameters"):
        told = function.cache_parameters()
        most, typed = told["maxsize"], told["typed"]
    else:  # before CPython 3.9
        most, typed = function.cache_info().maxsize, False
    own = {name: value for name, value in function.__dict__.items() if name not in _OF_CACHED}
    return _make_cached, (function.__wrapped__, most, typed), own or None


def _reduce_cached_property(found: Any) -> Any:
    """Before CPython 3.12 it holds a lock."""
    return type(found), (found.func,), {"attrname": found.attrname}


def _reduce_method_by_type(found: Any) -> Any:
    """Since CPython 3.13 it remembers, weakly, whom it was asked for."""
    return type(found), (found.func,), {"func": found.func, "dispatcher": found.dispatcher}


def _reduce_new_type(found: Any) -> Any:
    if _is_found_by_name(found):
        return NotImplemented
    return type(found), (found.__name__, found.__supertype__)


def _reduce_alias(found: Any) -> Any:
    if _is_found_by_name(found):
        return NotImplemented
    return _make_alias, (found.__name__, found.__value__, found.__type_params__)


def _reduce_variable(found: Any) -> Any:
    if _is_found_by_name(found):
        return NotImplemented
    options = found.__constraints__, found.__bound__, found.__covariant__, found.__contravariant__
    return _make_variable, (found.__name__, *options)


def _reduce_named(found: Any) -> Any:
    if _is_found_by_name(found):
        return NotImplemented
    return type(found), (found.__name__,)


_OF_TYPING = (
    ("TypeVar", _reduce_variable),
    ("ParamSpec", _reduce_named),
    ("TypeVarTuple", _reduce_named),
    ("TypeAliasType", _reduce_alias),
)
