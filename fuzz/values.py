"""Fuzz target: values that a guest sends."""

from __future__ import annotations

import datetime
import decimal
import json
from typing import Any

from fuzz.engine import main

from cloche_guest.values import BatchFailure, RemoteObject, decode, encode

CORPUS = (
    b'{"$":"tuple","v":[1,{"$":"int","v":"0x1"},{"$":"float","v":"nan"},{"$":"bytes","v":"AAEC"}]}',
    b'{"$":"dict","v":[[1,2],[{"$":"frozenset","v":[1]},{"$":"set","v":["a"]}]]}',
    b'[{"$":"datetime","v":"2024-01-01T00:00:00+01:00"},{"$":"date","v":"2024-01-01"},{"$":"time","v":"01:02:03"}]',
    b'[{"$":"timedelta","v":[1,2,3]},{"$":"decimal","v":"1E+5"},{"$":"complex","v":["1.0","nan"]}]',
    b'{"a":{"$":"failure","v":"[Error: x]"},"b":{"$":"object","type":"T","repr":"R"},"c":[null,true,1.5,"\\ud800"]}',
)
PLAIN = (
    type(None), bool, int, float, str, bytes, complex, decimal.Decimal, datetime.datetime, datetime.date,
    datetime.time, datetime.timedelta, list, tuple, set, frozenset, dict, BatchFailure, RemoteObject,
)  # fmt: skip


def target(data: bytes) -> None:
    """Plain values or a ValueError; and what was read can be sent."""
    try:
        parsed = json.loads(data)
    except (ValueError, RecursionError):
        return
    try:
        value = decode(parsed)
    except ValueError:
        return
    pending: list[Any] = [value]
    while pending:
        item = pending.pop()
        assert type(item) in PLAIN, type(item)
        if isinstance(item, dict):
            pending += [*item.keys(), *item.values()]
        elif isinstance(item, (list, tuple, set, frozenset)):
            pending += item
    json.dumps(encode(value))


if __name__ == "__main__":
    main(target, CORPUS)
