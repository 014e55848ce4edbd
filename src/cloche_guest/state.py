"""Saving and restoring variables, one by one: what cannot be saved costs only itself.

The bytes are made and read here, inside the wall; the host carries them and never looks inside.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAGIC = b"cloche-state-1\n"


class StateError(ValueError):
    """These bytes are not a state of ours."""


def save(names: dict[str, Any], wanted: list[str], limit: int) -> tuple[list[str], list[list[str]], bytes]:
    """(saved names, [name, reason] of the others, bytes)."""
    import io
    import pickle

    saved: list[str] = []
    skipped: list[list[str]] = []
    entries: list[tuple[str, bytes]] = []
    total = len(MAGIC)
    for name in wanted:
        value = names[name]
        if issubclass(type(value), type(sys)):  # not isinstance: that asks the object
            value = _reference(value)
            if value is None:
                skipped.append([name, "a module that cannot be imported by its name"])
                continue
        try:
            buffer = io.BytesIO()
            _make_pickler(pickle, buffer, names).dump(value)
            data = buffer.getvalue()
        except KeyboardInterrupt:  # the deadline
            raise
        except BaseException as exc:
            skipped.append([name, _reason(exc)])
            continue
        if total + len(data) > limit:
            skipped.append([name, "%d bytes; the snapshot may hold %d" % (len(data), limit)])
            continue
        total += len(data)
        saved.append(name)
        entries.append((name, data))
    return saved, skipped, MAGIC + pickle.dumps(entries, 4)


def load(names: dict[str, Any], data: bytes | bytearray, reserved: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Put saved variables back. ([names], [name, reason] of those that could not be read here)."""
    import pickle

    if bytes(data[: len(MAGIC)]) != MAGIC:
        raise StateError("these bytes are not a saved state")
    try:
        entries = pickle.loads(memoryview(data)[len(MAGIC) :])
        pairs = [(str(name), bytes(blob)) for name, blob in entries]
    except Exception as exc:
        raise StateError("the saved state is damaged: %s" % _reason(exc)) from None
    restored: list[str] = []
    failed: list[list[str]] = []
    for name, blob in pairs:
        if name in reserved:
            continue
        try:
            names[name] = pickle.loads(blob)
        except KeyboardInterrupt:  # the deadline
            raise
        except BaseException as exc:
            failed.append([name, _reason(exc)])
        else:
            restored.append(name)
    return restored, failed


def _make_pickler(pickle: Any, buffer: Any, names: dict[str, Any]) -> Any:
    """A pickler that takes functions of cells; where the interpreter has cloudpickle, also closures and classes."""
    try:
        from cloudpickle import CloudPickler as Base
    except ImportError:
        Base = pickle.Pickler  # noqa: N806 - a class

    class CellPickler(Base):  # type: ignore[misc]  # which of the two is known here only
        def reducer_override(self, obj: Any) -> Any:
            if type(obj) is type(_reason) and obj.__globals__ is names and not obj.__closure__:
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


def _reference(module: Any) -> Any:
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


def _reason(exc: BaseException) -> str:
    try:
        text = str(exc)
    except KeyboardInterrupt:
        raise
    except BaseException:
        text = ""
    return ("%s: %s" % (type(exc).__name__, text))[:300]
