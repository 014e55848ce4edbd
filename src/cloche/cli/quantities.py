"""Durations and sizes as people write them: 500ms, 2s, 1m; 256M, 2G."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    _Number = click.ParamType[int]
else:  # not generic before click 8.2
    _Number = click.ParamType

NO_LIMIT = 0
"""What ``none`` means where a limit may be lifted."""

_DURATIONS = {"": 1, "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000}
_SIZES = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_QUANTITY = re.compile(r"(\d+(?:_\d+)*(?:\.\d+)?)\s*([a-z]*)", re.ASCII)
_LARGEST = 2**53


def milliseconds(text: str) -> int:
    """``500``, ``500ms``, ``2s``, ``1.5m``, ``1h`` in milliseconds."""
    return _quantity(text, _DURATIONS, "a duration such as 500 (ms), 500ms, 2s or 1m")


def size_in_bytes(text: str) -> int:
    """``256M``, ``2G``, ``512KiB`` in bytes (multiples of 1024); ``none`` is `NO_LIMIT`."""
    word = text.strip().lower()
    if word == "none":
        return NO_LIMIT
    return _quantity(re.sub(r"(?<=[kmgt])i?b$|(?<=\d)b$", "", word), _SIZES, "a size such as 50000, 256M, 2G or none")


def _quantity(text: str, units: dict[str, int], kind: str) -> int:
    found = _QUANTITY.fullmatch(text.strip().lower())
    if found is None or found[2] not in units:
        raise ValueError(f"{text!r} is not {kind}")
    amount = float(found[1]) * units[found[2]]
    if not 0 < amount <= _LARGEST:
        raise ValueError(f"{text!r} is out of range")
    return math.ceil(amount)


class Duration(_Number):
    """An option in milliseconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return milliseconds(value) if isinstance(value, str) else int(value)
        except ValueError as exc:
            self.fail(str(exc), param, ctx)


class Size(_Number):
    """An option in bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return size_in_bytes(value) if isinstance(value, str) else int(value)
        except ValueError as exc:
            self.fail(str(exc), param, ctx)
