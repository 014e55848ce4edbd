"""The guards of restricted code: every reading and writing of an attribute or item goes through here."""

from __future__ import annotations

import operator
import string
from _string import formatter_field_name_split  # type: ignore[import-not-found]  # what string.Formatter itself uses
from types import (
    BuiltinFunctionType,
    CodeType,
    FrameType,
    FunctionType,
    GeneratorType,
    MethodType,
    ModuleType,
    TracebackType,
)

from cloche_guest.guarded.members import ONLY, READABLE, REFUSED, REFUSED_METHODS, allows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Mapping

INSPECTION = frozenset({"mro", "tb_frame", "tb_next"})
"""Refused here beside what RestrictedPython lists."""

_READ_ONLY = (
    ModuleType, MethodType, BuiltinFunctionType, CodeType, FrameType, GeneratorType, TracebackType,
)  # fmt: skip
_IN_PLACE: dict[str, Callable[[Any, Any], Any]] = {
    "+=": operator.iadd,
    "-=": operator.isub,
    "*=": operator.imul,
    "/=": operator.itruediv,
    "%=": operator.imod,
    "**=": operator.ipow,
    "<<=": operator.ilshift,
    ">>=": operator.irshift,
    "|=": operator.ior,
    "^=": operator.ixor,
    "&=": operator.iand,
    "//=": operator.ifloordiv,
    "@=": operator.imatmul,
}
_module_of = type.__dict__["__module__"].__get__  # by the type's own descriptor: a class could lie


class Guards:
    """One session's guards. `modules` may be imported; `inspection` are attributes that lead to frames and code."""

    def __init__(self, modules: frozenset[str], inspection: frozenset[str]) -> None:
        self.modules = modules
        self._inspection = inspection | INSPECTION
        self._formatter = _GuardedFormatter(self)

    # -- reading -------------------------------------------------------------------------------

    def read(self, owner: Any, name: str) -> Any:
        """``owner.name``."""
        if type(name) is not str:
            raise TypeError("attribute name must be a plain str, not %s" % type(name).__name__)
        self.check_name(name)
        if isinstance(owner, ModuleType):
            return self.member(owner, name)
        if name in ("format", "format_map") and isinstance(owner, (str, type)):
            return self._format_method(owner, name)
        refused = REFUSED_METHODS.get(_module_of(type(owner)).partition(".")[0])
        if refused is not None and name in refused:
            raise AttributeError("%s.%s is not allowed; %s" % (type(owner).__name__, name, refused[name]))
        return getattr(owner, name)

    def check_name(self, name: str) -> None:
        """Refuse names that lead out of the guards."""
        if name[:1] == "_" and name not in READABLE:
            raise AttributeError('"%s" is not allowed: names with an underscore in front are private' % name)
        if name in self._inspection:
            raise AttributeError('"%s" is not allowed: it leads to frames, code or the tree of classes' % name)

    def member(self, module: ModuleType, name: str) -> Any:
        """What a module has under a name, unless that is kept back."""
        called = module.__name__
        if called in ONLY and name not in ONLY[called]:
            raise AttributeError(
                "%s.%s is not allowed; of %s there are %s" % (called, name, called, ", ".join(sorted(ONLY[called])))
            )
        instead = REFUSED.get(called, {}).get(name)
        if instead is not None:
            raise AttributeError("%s.%s is not allowed; %s" % (called, name, instead))
        value = getattr(module, name)
        if isinstance(value, ModuleType) and not allows(self.modules, value.__name__):
            raise AttributeError("%s.%s is the module %s, which is not allowed" % (called, name, value.__name__))
        return value

    def read_or(self, owner: Any, name: str, *default: Any) -> Any:
        """`getattr`."""
        try:
            return self.read(owner, name)
        except AttributeError:
            if default and _may_be_absent(name, self._inspection):
                return default[0]
            raise

    def has(self, owner: Any, name: str) -> bool:
        """`hasattr`: what may not be read is not there."""
        try:
            self.read(owner, name)
        except AttributeError:
            return False
        return True

    def _format_method(self, owner: Any, name: str) -> Any:
        """`str.format` that reads attributes as the code itself would."""
        formatter = self._formatter
        if isinstance(owner, type):
            if not issubclass(owner, str):
                return getattr(owner, name)
            if name == "format":
                return lambda text, *args, **kwargs: formatter.vformat(text, args, kwargs)
            return lambda text, mapping: formatter.vformat(text, (), mapping)
        if name == "format":
            return lambda *args, **kwargs: formatter.vformat(owner, args, kwargs)
        return lambda mapping: formatter.vformat(owner, (), mapping)

    # -- writing -------------------------------------------------------------------------------

    def writable(self, owner: Any) -> Any:
        """`owner`, where code may write to it: data, and classes and functions of its own; nothing that others use."""
        if (
            isinstance(owner, _READ_ONLY)
            or (isinstance(owner, type) and _module_of(owner) != "__main__")
            or (isinstance(owner, FunctionType) and owner.__module__ != "__main__")
        ):
            kind = owner.__name__ if isinstance(owner, (type, ModuleType)) else "a %s" % type(owner).__name__
            raise TypeError("%s cannot be changed here; keep the value in a variable or a class of your own" % kind)
        return owner

    def write(self, owner: Any, name: str, value: Any) -> None:
        """`setattr`."""
        self._check_written(name)
        setattr(self.writable(owner), name, value)

    def remove(self, owner: Any, name: str) -> None:
        """`delattr`."""
        self._check_written(name)
        delattr(self.writable(owner), name)

    def _check_written(self, name: str) -> None:
        if type(name) is not str:
            raise TypeError("attribute name must be a plain str, not %s" % type(name).__name__)
        if name[:1] == "_":
            raise AttributeError('"%s" is not allowed: names with an underscore in front are private' % name)

    # -- augmented assignment: the target is evaluated and read once, before the value ----------

    def in_place_item(self, sign: str, owner: Any, key: Any) -> Callable[[Any], None]:
        """``owner[key] += value``, in two calls."""
        owner, before = self.writable(owner), owner[key]

        def assign(value: Any) -> None:
            owner[key] = _IN_PLACE[sign](before, value)

        return assign

    def in_place_attribute(self, sign: str, owner: Any, name: str) -> Callable[[Any], None]:
        """``owner.name += value``, in two calls."""
        owner, before = self.writable(owner), self.read(owner, name)

        def assign(value: Any) -> None:
            setattr(owner, name, _IN_PLACE[sign](before, value))

        return assign


def in_place(sign: str, before: Any, value: Any) -> Any:
    """``name += value``."""
    return _IN_PLACE[sign](before, value)


def _may_be_absent(name: str, inspection: frozenset[str]) -> bool:
    return (name[:1] != "_" or name in READABLE) and name not in inspection


class _GuardedFormatter(string.Formatter):
    """Fields such as ``{0.name[key]}`` go through the guards."""

    def __init__(self, guards: Guards) -> None:
        self._guards = guards

    def get_field(self, field_name: str, args: Any, kwargs: Mapping[str, Any]) -> Any:
        first, rest = formatter_field_name_split(field_name)
        found = self.get_value(first, args, kwargs)
        for is_attribute, name in rest:
            found = self._guards.read(found, name) if is_attribute else found[name]
        return found, first


class ClassMaker:
    """Stands where a metaclass would: makes a class as its bases want it made."""

    def __prepare__(self, name: str, bases: tuple[type, ...]) -> Any:
        return _metaclass_of(bases).__prepare__(name, bases)

    def __call__(self, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> Any:
        return _metaclass_of(bases)(name, bases, body)


def _metaclass_of(bases: tuple[type, ...]) -> type:
    chosen = type
    for base in bases:
        if issubclass(type(base), chosen):
            chosen = type(base)
    return chosen
