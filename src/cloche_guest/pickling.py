"""How variables are written: functions see the live variables where they are read again, modules are imported."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FUNCTION = type(lambda: 0)


def make_pickler(buffer: Any, names: dict[str, Any]) -> Any:
    """A pickler that takes functions of cells; where the interpreter has cloudpickle, also closures and classes."""
    import pickle

    try:
        from cloudpickle import CloudPickler as Base
    except ImportError:
        Base = pickle.Pickler  # noqa: N806 - a class

    class CellPickler(Base):  # type: ignore[misc]  # which of the two is known here only
        def reducer_override(self, obj: Any) -> Any:
            if type(obj) is _FUNCTION and obj.__globals__ is names and not obj.__closure__:
                return _reduce_function(obj)
            override = getattr(Base, "reducer_override", None)
            return NotImplemented if override is None else override(self, obj)

    return CellPickler(buffer, 4)


def _reduce_function(function: Any) -> tuple[Any, ...]:
    """A function of a cell: its code, and the *live* globals wherever it is restored.

    cloudpickle would give each function a copy of the globals, so that it would neither see a variable that is
    changed later nor another function that is defined anew.
    """
    import marshal

    # `eval` is found by name in any guest; nothing of ours needs to be importable there.
    source = (
        "(lambda code, name, defaults: type(lambda: 0)(__import__('marshal').loads(code), "
        "__import__('sys').modules['__main__'].__dict__, name, defaults))"
    )
    attributes = {
        name: getattr(function, name)
        for name in ("__kwdefaults__", "__qualname__", "__doc__", "__annotations__", "__module__")
    }
    make = (marshal.dumps(function.__code__), function.__name__, function.__defaults__)
    return _Apply(source), make, (function.__dict__ or None, attributes)


def reference(module: Any) -> Any:
    """A module is not saved but imported again, where it is the one that its name stands for."""
    name = getattr(module, "__name__", None)
    if type(name) is not str or sys.modules.get(name) is not module or name == "__main__":
        return None
    return _Apply("__import__('importlib').import_module(%r)" % name)


class _Apply:
    """Pickles as ``eval(source)``."""

    def __init__(self, source: str) -> None:
        self._source = source

    def __call__(self, *args: Any) -> Any:
        return eval(self._source)(*args)

    def __reduce__(self) -> tuple[Any, ...]:
        return eval, (self._source,)
