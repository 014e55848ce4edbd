"""What a guest that speaks the wire itself may say: frames of every method, at every size, from a seed.

The standard library alone, from 3.8 on: its source is put in front of cells, so that a guest makes the same frames that
a test makes.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

METHODS = ("bridge", "display", "output", "file", "execute", "initialize", "ping", "snapshot", "", "x" * 300)
NAMES = ("f", "slow", "llm_query", "llm_query_batched", "rlm_query_batched", "nothing", "__import__")
IDS = (0, 1, 2, 3, 7, -1, None, "1", 1.5, True, 2**70, [1], {"1": 1})
SHAPES = (
    "call", "batch", "display", "output", "file", "reply", "error", "both", "wrong", "sized", "nested", "raw",
    "attached",
)  # fmt: skip
HARMLESS = ("call", "batch", "display", "output")
"""Shapes that do not end a session: what they ask for is answered, refused or left out."""
SIZES = ("sized", "nested")


def values(choose: random.Random, depth: int = 0) -> Any:
    """Any JSON value; also the tags of values that JSON has not."""
    kind = choose.randrange(14 if depth < 4 else 9)
    if kind < 6:
        return (None, True, choose.randrange(-(2**66), 2**66), choose.random(), "", "text \u20ac \ud800\x00")[kind]
    if kind < 9:
        return "x" * choose.choice((1, 10, 1000, 10000))
    if kind < 11:
        return [values(choose, depth + 1) for _ in range(choose.randrange(5))]
    if kind < 12:
        return {choose.choice(("a", "$", "v", "")): values(choose, depth + 1) for _ in range(choose.randrange(4))}
    tag = choose.choice(("tuple", "set", "frozenset", "dict", "int", "bytes", "decimal", "datetime", "object", "no"))
    return {"$": tag, "v": values(choose, depth + 1)}


def _line(**message: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode("ascii", "replace") + b"\n"


def _call(choose: random.Random, name: str | None = None, args: list[Any] | None = None) -> bytes:
    args = [values(choose) for _ in range(choose.randrange(3))] if args is None else args
    params: dict[str, Any] = {"name": name or choose.choice(NAMES), "args": args}
    if choose.random() < 0.3:
        params["kwargs"] = {"key": values(choose)}
    return _line(id=choose.randrange(100, 10**6), method="bridge", params=params)


def _batch(choose: random.Random) -> bytes:
    items = [[str(number)] for number in range(choose.choice((0, 1, 3, 30)))]
    return _call(choose, choose.choice(("llm_query_batched", "rlm_query_batched")), [items])


def _display(choose: random.Random) -> bytes:
    data = {"text/plain": "x" * choose.choice((0, 1, 5000))}
    if choose.random() < 0.3:
        data["image/png"] = "QUJD"
    return _line(method="display", params={"data": data})


def _wrong(choose: random.Random) -> bytes:
    message: dict[str, Any] = {"jsonrpc": "2.0"}
    for key in ("id", "method", "params", "result", "error", "attachment"):
        if choose.random() < 0.4:
            message[key] = choose.choice(IDS + METHODS) if choose.random() < 0.5 else values(choose)
    return json.dumps(message).encode("ascii", "replace") + b"\n"


def _sized(choose: random.Random, limit: int) -> bytes:
    """A line of a chosen length, its end not counted."""
    size = choose.choice((limit - 1, limit, limit + 1, limit // 2, limit // 3))
    head = b'{"jsonrpc":"2.0","id":500,"method":"bridge","params":{"name":"slow","args":["'
    return head + b"x" * max(0, size - len(head) - 5) + b'"]}}' + b" " + b"\n"


def _nested(choose: random.Random, limit: int) -> bytes:
    part = choose.choice((b"[", b"[],", b'{"a":[]},', b'"",', b"0,", b'{"$":"set","v":[1,2,3]},'))
    many = part * (choose.choice((10, 1000, limit // 10, limit - 200)) // len(part))
    return b'{"jsonrpc":"2.0","id":600,"method":"bridge","params":{"name":"slow","args":[' + many + b"0]}}\n"


NO_FRAMES = (
    b"\n", b"x\n", b"{}\n", b"[]\n", b"null\n", b'{"jsonrpc":"2.0"}\n', b"\xff\xfe\n", b'{"jsonrpc":"2.0","id":1',
    b"0" * 9000 + b"\n",
)  # fmt: skip


def frame(choose: random.Random, limit: int, shapes: Sequence[str] = SHAPES) -> bytes:
    """One frame, or what is none. `choose` is a `random.Random`, `limit` the size of the largest frame."""
    shape = choose.choice(shapes)
    if shape in ("call", "batch", "display", "wrong"):
        return {"call": _call, "batch": _batch, "display": _display, "wrong": _wrong}[shape](choose)
    if shape == "raw":
        return choose.choice(NO_FRAMES)
    if shape in ("sized", "nested"):
        return (_sized if shape == "sized" else _nested)(choose, limit)
    number = choose.choice(IDS)
    if shape == "output":
        return _line(method="output", params={"stream": choose.choice(("stdout", "stderr")), "text": "x" * 100})
    if shape == "file":
        return _line(method="file", params=values(choose))
    if shape == "reply":
        return _line(id=number, result=choose.choice(({}, {"outcome": "ok", "value": "1"}, values(choose))))
    if shape == "error":
        return _line(id=number, error=choose.choice(({"code": 1, "message": "x"}, values(choose))))
    if shape == "attached":
        return _line(id=number, result={}, attachment=choose.choice((0, 1, 10**6, 2**40, -1, "1")))
    return _line(id=number, result={}, method=choose.choice(METHODS), params=values(choose))


def speech(seed: int, count: int, limit: int, shapes: Sequence[str] = SHAPES) -> Iterator[bytes]:
    """Frames of one seed, as they would be written: one after the other."""
    choose = random.Random(seed)
    for _ in range(count):
        yield frame(choose, limit, shapes)
