"""How variables are written: functions see the live variables where they are read again, modules are imported."""

from __future__ import annotations

import sys

from cloche_guest.cell_objects import Apply, quiet_class, reduce_dispatch, reducers
from cloche_guest.codes import StateError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

PROTOCOL = 5  # the first whose buffers may travel apart from the stream


LONGEST_REASON = 300

_FUNCTION = type(lambda: 0)
_CELL: Any = eval("type((lambda x: lambda: x)(0).__closure__[0])")

_make_cell = Apply("type((lambda x: lambda: x)(0).__closure__[0])")
# A module that the function uses is imported for it, unless its name has another meaning by then.
_BIND = "try:\n if name not in space: space[name] = __import__(module, fromlist=['*'])\nexcept ImportError: pass"
_make_function = Apply(
    "(lambda code, name, cells, made_by, modules: [exec(" + repr(_BIND) + ", {"
    "'space': __import__('sys').modules['__main__'].__dict__, 'name': alias, 'module': module})"
    " for alias, module in modules.items()] and None or type(lambda: 0)(__import__('marshal').loads(code),"
    " __import__('sys').modules['__main__'].__dict__, name, None, cells)"
    " if made_by == __import__('sys').implementation.cache_tag"
    " else exec('raise ImportError(text)', {'text': 'it was compiled by ' + str(made_by)}))"
)
_fill_function = Apply(
    "(lambda function, state: (function.__dict__.update(state[0]),"
    " [setattr(function, name, value) for name, value in state[1].items()],"
    " [setattr(cell, 'cell_contents', value) for cell, value in state[2]]) and None)"
)
_KEPT = (
    "__defaults__",
    "__kwdefaults__",
    "__qualname__",
    "__doc__",
    "__annotations__",
    "__module__",
    "__type_params__",
)


def reason(exc: BaseException, with_type: bool = True) -> str:
    """What went wrong, in one line; the exception may be an object of the user's."""
    try:
        text = str(exc)
    except KeyboardInterrupt:  # the deadline
        raise
    except BaseException:
        text = ""
    if type(exc) is not StateError and (with_type or not text):
        text = "%s: %s" % (type(exc).__name__, text) if text else type(exc).__name__
    return text[:LONGEST_REASON]


def picklers(names: dict[str, Any]) -> Callable[..., Any]:
    """Makes picklers that take functions of cells; where the interpreter has cloudpickle, also classes.

    `names` are the live variables. What it gives is called with a file and, for large buffers, a callback as
    `pickle.Pickler` takes it.
    """
    import pickle

    try:
        from cloudpickle import CloudPickler as Base
    except ImportError:
        Base = pickle.Pickler  # noqa: N806 - a class
    has_classes = Base is not pickle.Pickler
    by_type = reducers(has_classes)

    class CellPickler(Base):  # type: ignore[misc]  # which of the two is known here only
        def __init__(self, file: Any, buffer_callback: Callable[[Any], Any] | None = None) -> None:
            Base.__init__(self, file, PROTOCOL, buffer_callback=buffer_callback)
            self.cells: set[int] = set()  # those of functions that were met: these fill them again

        def reducer_override(self, obj: Any) -> Any:
            kind = type(obj)
            if kind is _FUNCTION:
                if obj.__globals__ is names:
                    self.cells.update(map(id, obj.__closure__ or ()))
                    return _reduce_function(obj, names)
                dispatch = reduce_dispatch(obj)
                if dispatch is not None:
                    return dispatch
            reduce = by_type.get(kind)
            if reduce is not None:
                return reduce(obj)
            if kind is _CELL and id(obj) in self.cells:
                return _make_cell, ()
            if has_classes:
                reduction = Base.reducer_override(self, obj)
                return quiet_class(obj, reduction) if issubclass(kind, type) else reduction
            if issubclass(kind, type) and obj.__module__ == "__main__":
                raise pickle.PicklingError(
                    "the class %s was made in a cell; it can be saved where cloudpickle is installed beside the "
                    "sandbox's Python" % obj.__qualname__
                )
            return NotImplemented

    return CellPickler


def _reduce_function(function: Any, names: dict[str, Any]) -> tuple[Any, ...]:
    """A function of a cell: its code, and the *live* globals wherever it is restored.

    cloudpickle would give each function a copy of the globals, so that it would neither see a variable that is
    changed later nor another function that is defined anew. The function is made first and filled afterwards: its
    closure, its defaults and its attributes may lead back to it.
    """
    import marshal

    attributes = {name: value for name, value in ((name, _attribute(function, name)) for name in _KEPT) if value}
    filled = [(cell, cell.cell_contents) for cell in function.__closure__ or () if not _is_empty(cell)]
    made_by, modules = sys.implementation.cache_tag, _modules_of(function.__code__, names)
    make = (marshal.dumps(function.__code__), function.__name__, function.__closure__, made_by, modules)
    return _make_function, make, (function.__dict__, attributes, filled), None, None, _fill_function


def _modules_of(code: Any, names: dict[str, Any]) -> dict[str, str]:
    """Modules that code finds under global names."""
    found: dict[str, str] = {}
    pending = [code]
    while pending:
        code = pending.pop()
        for name in code.co_names:
            value = names.get(name)
            if type(value) is type(sys) and sys.modules.get(value.__name__) is value and name != "__main__":
                found[name] = value.__name__
        pending += [part for part in code.co_consts if type(part) is type(code)]
    return found


def _attribute(function: Any, name: str) -> Any:
    try:
        return getattr(function, name)
    except Exception:  # annotations are evaluated when somebody asks for them
        return None


def _is_empty(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - it raises
    except ValueError:
        return True
    return False


def reference(module: Any) -> Any:
    """A module is not saved but imported again, where it is the one that its name stands for."""
    name = getattr(module, "__name__", None)
    if type(name) is not str or sys.modules.get(name) is not module or name == "__main__":
        return None
    return Apply("__import__('importlib').import_module(%r)" % name)
