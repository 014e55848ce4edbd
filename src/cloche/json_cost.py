"""What a line of JSON costs in memory once it is decoded, found before it is: a hostile line is refused undecoded.

Sixty bytes of memory for a byte of text are easily had: ``[],[],[],`` makes a list of three bytes. The figures are
those of CPython, measured as the peak of parsing and of `cloche_guest.values.decode`, which makes a second copy; long
texts and sets take up to as much again for a moment.
`cloche_guest.values` counts the same parts when it encodes, so that what a guest may send is not refused here.
"""

from __future__ import annotations

import json
import re
from typing import Any

from cloche_guest.values import A_DICT, A_HASHED_ITEM, A_LIST, A_TEXT, AN_ITEM

COST_ALLOWED, COST_RATIO = 1 << 24, 16
"""Bytes of memory that data of a stranger may take at least, and for each of its bytes."""
_CHUNK = 1 << 18
_FEW_ITEMS = 1 << 13
_NO_STRUCTURE = bytes(set(range(256)) - set(b'[{,:"'))
_TAG = re.compile(rb'"\$"\s*:\s*"(?:(?:frozen)?set|dict)"')
"""The tag of a set, or of a dict that travels as pairs."""
_HIDDEN_TAG = re.compile(rb"\\u00(?:24|6[3-69eEfF]|7[234aA])")
"""A letter of such a tag, escaped, as only one who hides it would write it."""


def decoded_cost(line: bytes | bytearray, limit: int | None = None) -> int:
    """About how many bytes of memory `line` takes when it is decoded, at the most; counting ends above `limit`."""
    escapes = b"\\" in line
    text = len(line) * _width(line, escapes=escapes)
    bare = line.replace(b"\\\\", b"").replace(b'\\"', b"") if escapes else line
    marks = bare.translate(None, _NO_STRUCTURE)
    cost = text + marks.count(b'"') * A_TEXT // 2
    items, inside = 0, 0
    for start in range(0, len(marks), _CHUNK):
        if limit is not None and cost + items * AN_ITEM > limit:
            break
        pieces = marks[start : start + _CHUNK].split(b'"')
        outside = b"".join(pieces[inside::2])
        cost += outside.count(b"[") * A_LIST + outside.count(b"{") * A_DICT
        items += outside.count(b",") + outside.count(b":")
        inside ^= (len(pieces) - 1) & 1
    return cost + items * (A_HASHED_ITEM if items < _FEW_ITEMS or _has_sets(line) else AN_ITEM)


def loads(data: bytes | bytearray) -> Any:
    """As `json.loads`, for data of a stranger: ValueError where it would take far more memory than it has bytes."""
    limit = len(data) * COST_RATIO + COST_ALLOWED
    if decoded_cost(data, limit) > limit:
        raise ValueError(f"its {len(data)} bytes would take more than {limit} bytes of memory")
    return json.loads(data)


def _width(line: bytes | bytearray, *, escapes: bool) -> int:
    """Bytes that a character may take: one large character in a text makes all of them large."""
    if not line.isascii():
        return 4
    if not escapes or b"\\u" not in line:
        return 1
    return 4 if b"\\ud" in line or b"\\uD" in line else 2


def _has_sets(line: bytes | bytearray) -> bool:
    return _TAG.search(line) is not None or _HIDDEN_TAG.search(line) is not None
