"""Checks on what the guest replied. Every field is bounded, typed and optional; nothing is believed."""

from __future__ import annotations

import base64
import binascii
from typing import Any, TypeVar

from cloche.errors import ProtocolError
from cloche.result import Display, ExceptionInfo

T = TypeVar("T")

MAX_TEXT = 1_000_000
MAX_DISPLAYS = 200
MAX_FORMS = 50
"""Of one display: each is the same thing in another format."""
MAX_DISPLAY_ID = 100
GUEST_OUTCOMES = frozenset({"ok", "error", "memory", "exited", "interrupted"})
_BINARY_MIME = ("image/png", "image/jpeg")


def word(value: Any) -> str:
    """A value of the guest's as a short text for an error; what is nested is only named."""
    if type(value) is str:
        return repr(value[:80])
    return repr(value)[:80] if value is None or type(value) in (bool, int, float) else type(value).__name__


def field(data: Any, name: str, kind: type[T], default: T) -> T:
    """`data[name]` when it is of that very type, `default` when it is absent; anything else breaks the protocol."""
    if type(data) is not dict:
        raise ProtocolError("the guest's reply is not an object")
    value = data.get(name)
    if value is None:
        return default
    if type(value) is not kind:
        raise ProtocolError(f"the guest's reply has a {name!r} that is not {kind.__name__}")
    return value


def text(data: Any, name: str, default: str = "") -> str:
    """A bounded string field."""
    return field(data, name, str, default)[:MAX_TEXT]


def names_and_reasons(data: Any, name: str) -> list[tuple[str, str]]:
    """A list of [name, reason] pairs."""
    pairs = []
    for pair in field(data, name, list, []):
        if type(pair) is not list or len(pair) != 2 or not all(type(part) is str for part in pair):
            raise ProtocolError(f"the guest's reply has a {name!r} that is not pairs of text")
        pairs.append((pair[0][:1000], pair[1][:1000]))
    return pairs


def strings(data: Any, name: str) -> list[str]:
    """A list of strings."""
    items = field(data, name, list, [])
    if not all(type(item) is str for item in items):
        raise ProtocolError(f"the guest's reply has a {name!r} that is not a list of text")
    return items


def exception(data: Any) -> ExceptionInfo | None:
    """The exception of a cell."""
    raw = field(data, "exception", dict, {})
    if not raw:
        return None
    line = raw.get("line")
    return ExceptionInfo(
        type=text(raw, "type", "Exception")[:200],
        message=text(raw, "message"),
        line=line if type(line) is int and 0 < line <= MAX_TEXT else None,
        traceback=text(raw, "traceback"),
    )


def display(params: Any, room: int) -> tuple[Display, int] | None:
    """A display notification and its size; None when it does not fit."""
    bundle: dict[str, str | bytes] = {}
    size = 0
    data = field(params, "data", dict, {})
    if len(data) > MAX_FORMS:
        raise ProtocolError("the guest sent a display of too many formats")
    for mime, payload in data.items():
        if type(payload) is not str or len(mime) > 100:
            raise ProtocolError("the guest sent a display that is not text")
        size += len(payload)
        if mime in _BINARY_MIME:
            try:
                bundle[mime] = base64.b64decode(payload, validate=True)
            except (binascii.Error, ValueError):
                raise ProtocolError("the guest sent a display that is not base64") from None
        else:
            bundle[mime] = payload
    if size > room or not bundle:
        return None
    name = field(params, "id", str, "")
    return Display(bundle, name[:MAX_DISPLAY_ID] or None), size
