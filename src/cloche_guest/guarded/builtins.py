"""The builtins of restricted code: the harmless ones, guarded stand-ins, and some that say what to use instead."""

from __future__ import annotations

import builtins

from cloche_guest.guarded.members import NOT_HERE, allows
from cloche_guest.guarded.objects import ClassMaker, Guards, in_place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any, Callable, NoReturn

_PLAIN = (
    "abs", "all", "any", "ascii", "bin", "bool", "bytearray", "bytes", "callable", "chr", "classmethod", "complex",
    "dict", "divmod", "enumerate", "filter", "float", "format", "frozenset", "hash", "hex", "id", "int",
    "isinstance", "issubclass", "iter", "len", "list", "map", "max", "min", "next", "object", "oct", "ord", "pow",
    "print", "property", "range", "repr", "reversed", "round", "set", "slice", "sorted", "staticmethod", "str",
    "sum", "super", "tuple", "zip", "None", "False", "True", "Ellipsis", "NotImplemented", "__build_class__",
    "__debug__",
)  # fmt: skip
_OF_THE_SESSION = ("exit", "quit", "help", "input")


def restricted_builtins(guards: Guards) -> dict[str, Any]:
    """What restricted code finds beside its own names, the hooks that its compiled form calls among it."""
    found = {name: getattr(builtins, name) for name in _PLAIN}
    found.update((name, getattr(builtins, name)) for name in _OF_THE_SESSION if hasattr(builtins, name))
    found.update(
        (name, value)
        for name, value in vars(builtins).items()
        if isinstance(value, type) and issubclass(value, BaseException)
    )
    found.update((name, _absent(name, instead)) for name, instead in NOT_HERE.items())
    found.update(
        {
            "__import__": _import_for(guards),
            "__metaclass__": ClassMaker(),
            "__name__": "__main__",
            "_apply_": lambda function, *args, **kwargs: function(*args, **kwargs),
            "_getattr_": guards.read,
            "_getitem_": lambda owner, key: owner[key],
            "_getiter_": lambda items: items,
            "_in_place_attribute_": guards.in_place_attribute,
            "_in_place_item_": guards.in_place_item,
            "_inplacevar_": in_place,
            # Nothing is hidden from iteration, so unpacking is Python's own.
            "_iter_unpack_sequence_": lambda items, spec, getiter: items,
            "_unpack_sequence_": lambda items, spec, getiter: items,
            "_write_": guards.writable,
            "delattr": guards.remove,
            "getattr": guards.read_or,
            "hasattr": guards.has,
            "setattr": guards.write,
            "type": _type_of,
        }
    )
    return found


def _type_of(value: Any, *more: Any) -> Any:
    """The type of a value."""
    if more:
        raise TypeError("type() takes one argument here; write a class statement")
    return type(value)


def _absent(name: str, instead: str) -> Callable[..., NoReturn]:
    def absent(*args: Any, **kwargs: Any) -> NoReturn:
        raise PermissionError("%s() is not allowed; instead: %s" % (name, instead))

    absent.__name__ = absent.__qualname__ = name
    return absent


def _import_for(guards: Guards) -> Callable[..., ModuleType]:
    load = builtins.__import__

    def guarded_import(name: str, scope: Any = None, local: Any = None, wanted: Any = (), level: int = 0) -> ModuleType:
        if level or not allows(guards.modules, name):
            known = ", ".join(sorted(guards.modules))
            raise ImportError(
                "the module %s is not allowed; use one of: %s. The host allows more with modules=[...]"
                % ("." * level + name, known),
                name=name,
            )
        top = load(name, None, None, (), 0)
        module = top
        for part in name.split(".")[1:]:
            module = guards.member(module, part)
        for member in wanted or ():
            _check_wanted(guards, load, module, member)
        return module if wanted else top

    return guarded_import


def _check_wanted(guards: Guards, load: Callable[..., ModuleType], module: ModuleType, member: str) -> None:
    """What ``from module import member`` takes is read past every other guard."""
    guards.check_name(member)
    if not hasattr(module, member):
        try:
            load(module.__name__ + "." + member, None, None, (), 0)  # it may be a module that nobody has used yet
        except ImportError:
            pass
    try:
        guards.member(module, member)
    except AttributeError as refused:
        raise ImportError(str(refused), name=module.__name__) from None
