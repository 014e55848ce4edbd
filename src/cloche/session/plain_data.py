"""Host values on their way to a guest: plain data crosses the wall, and nothing else does.

An object that does not travel would arrive as its type and its `repr`, and a `repr` of the host's may hold a key. So it
is refused, by its place and its type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloche_guest.values import Encoder, TooLarge, Unencodable

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_PATH = 300
"""Characters of a path that an error names."""


class NotPlain(ValueError):
    """A value that does not cross the wall. Its text continues a sentence: where it stands, and what it is."""


class _Stranger(Exception):
    """Found while encoding; where it stands is looked up afterwards."""


class _StrictEncoder(Encoder):
    def stranger(self, value: Any) -> dict[str, str]:
        raise _Stranger


def encode_plain(value: Any, room: int, depth: int = 0) -> tuple[Any, int]:
    """`value` as wire data, and what is left of `room` bytes. `NotPlain` or `TooLarge` where it cannot cross."""
    encoder = _StrictEncoder(room)
    try:
        data = encoder.encode(value, depth)
    except _Stranger:
        path, kind = _find_stranger(value)
        raise NotPlain(f"{path[:MAX_PATH]}: a value of type {kind} does not cross the wall") from None
    except (Unencodable, RecursionError):
        kind = type(value).__name__
        raise NotPlain(f": a {kind} that contains itself, or is nested too deeply, does not cross the wall") from None
    encoder.check_cost()
    return data, encoder.left


def _find_stranger(value: Any) -> tuple[str, str]:
    """(the path to the first object that does not travel, its type)."""
    path = ""
    while True:
        for step, child in _children(value):
            if not _travels(child):
                path, value = path + step, child
                break
        else:
            return path, type(value).__qualname__[:100]


def _children(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield " (a key)", key
            yield f"[{key!r:.60}]" if isinstance(key, (str, int)) else "[...]", item
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield f"[{index}]", item
    elif isinstance(value, (set, frozenset)):
        for item in value:
            yield " (an item)", item


def _travels(value: Any) -> bool:
    try:
        _StrictEncoder(1 << 40).encode(value, 1)
    except (_Stranger, TooLarge, Unencodable, RecursionError):
        return False
    return True
