"""Saving and restoring variables, one by one: what cannot be saved costs only itself.

The bytes are made and read here, inside the wall; the host carries them and never looks inside.
"""

from __future__ import annotations

import sys

from cloche_guest.pickling import make_pickler, reference

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
            value = reference(value)
            if value is None:
                skipped.append([name, "a module that cannot be imported by its name"])
                continue
        try:
            buffer = io.BytesIO()
            make_pickler(buffer, names).dump(value)
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


def _reason(exc: BaseException) -> str:
    try:
        text = str(exc)
    except KeyboardInterrupt:
        raise
    except BaseException:
        text = ""
    return ("%s: %s" % (type(exc).__name__, text))[:300]
