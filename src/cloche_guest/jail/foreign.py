"""Calls of C functions, by the part of ctypes that is itself written in C.

The Python around it, with all that it imports, would make the start of an interpreter half as long again.
"""

from __future__ import annotations

from _ctypes import (
    FUNCFLAG_CDECL,
    FUNCFLAG_PYTHONAPI,
    FUNCFLAG_USE_ERRNO,
    CFuncPtr,
    _SimpleCData,
    dlopen,
    dlsym,
    get_errno,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "Library",
    "address_of",
    "c_int",
    "c_long",
    "c_size_t",
    "c_uint",
    "c_ulong",
    "c_void_p",
    "get_errno",
    "memory_at",
]

_RESOLVE_NOW = 2


class c_int(_SimpleCData):  # type: ignore[type-arg]  # noqa: N801 - the names that everybody knows them by
    """int"""

    _type_ = "i"


class c_uint(_SimpleCData):  # type: ignore[type-arg]  # noqa: N801
    """unsigned int"""

    _type_ = "I"


class c_long(_SimpleCData):  # type: ignore[type-arg]  # noqa: N801
    """long"""

    _type_ = "l"


class c_ulong(_SimpleCData):  # type: ignore[type-arg]  # noqa: N801
    """unsigned long"""

    _type_ = "L"


class c_void_p(_SimpleCData):  # type: ignore[type-arg]  # noqa: N801
    """A pointer."""

    _type_ = "P"


class _Text(_SimpleCData):  # type: ignore[type-arg]
    _type_ = "z"


class _Object(_SimpleCData):  # type: ignore[type-arg]
    _type_ = "O"


class _Byte(_SimpleCData):  # type: ignore[type-arg]
    _type_ = "c"


c_size_t = c_ulong


class _Function(CFuncPtr):
    """Returns an int. The interpreter's lock is kept, and errno with each thread."""

    _flags_ = FUNCFLAG_CDECL | FUNCFLAG_PYTHONAPI | FUNCFLAG_USE_ERRNO
    _restype_ = c_int


class _TextFunction(CFuncPtr):
    _flags_ = _Function._flags_
    _restype_ = _Text


class _ObjectFunction(CFuncPtr):
    _flags_ = _Function._flags_
    _restype_ = _Object


class Library:
    """Functions of a shared library by their names; without a path, of what is loaded already."""

    def __init__(self, path: str | None = None) -> None:
        self._handle = dlopen(path, _RESOLVE_NOW)  # type: ignore[arg-type]  # None is the program itself

    def __getattr__(self, name: str) -> Any:
        function = _Function(dlsym(self._handle, name))
        self.__dict__[name] = function
        return function

    def text_function(self, name: str) -> Any:
        """One that returns text."""
        return _TextFunction(dlsym(self._handle, name))

    def object_function(self, name: str) -> Any:
        """One of the interpreter's own that returns a new object."""
        return _ObjectFunction(dlsym(self._handle, name))


def memory_at(address: int, size: int) -> memoryview:
    """So many bytes there, to be written. Whoever asks knows whose they are."""
    return memoryview((_Byte * size).from_address(address)).cast("B")


def address_of(data: bytes) -> int:
    """Where the content of `data` lies, as long as somebody keeps it."""
    return c_void_p.from_buffer(_Text(data)).value or 0
