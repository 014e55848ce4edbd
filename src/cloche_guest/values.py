"""Values on the wire: plain JSON, with tags for what JSON does not have.

A tagged value is an object whose only first-class key is ``"$"``: ``{"$": "tuple", "v": [...]}``. A dict that has
a key ``"$"`` or a key that is not a string travels as ``{"$": "dict", "v": [[key, value], ...]}``. What has no
tag becomes ``{"$": "object", "type": ..., "repr": ...}``. Both sides use this module; nothing is ever unpickled.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

MAX_DEPTH = 100
SAFE_INT = 2**53  # beyond this a reader in another language would round
MAX_REPR = 2000


class TooLarge(ValueError):
    """The encoded value would exceed the limit."""


class RemoteObject:
    """Stands for a guest object that does not travel: its type name and its repr."""

    __slots__ = ("repr", "type")

    def __init__(self, type: str, repr: str) -> None:  # noqa: A002 - the field names are the wire's
        self.type = type
        self.repr = repr

    def __repr__(self) -> str:
        return "RemoteObject(type=%r, repr=%r)" % (self.type, self.repr)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemoteObject) and (self.type, self.repr) == (other.type, other.repr)

    def __hash__(self) -> int:
        return hash((self.type, self.repr))


class _Unencodable(Exception):
    """Cyclic or too deep: the outermost value becomes an object."""


class _Encoder:
    """One encoding: counts what it makes, so that a huge value is refused before it is built."""

    def __init__(self, limit: int) -> None:
        self.left = limit
        self.limit = limit
        self.open: set[int] = set()

    def spend(self, amount: int) -> None:
        self.left -= amount
        if self.left < 0:
            raise TooLarge("the value is larger than %d bytes" % self.limit)

    def encode(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if value is None or kind is bool:
            self.spend(5)
            return value
        if kind is str:
            self.spend(len(value) + 2)
            return value
        if kind is int:
            self.spend(value.bit_length() // 4 + 1)
            if -SAFE_INT <= value <= SAFE_INT:
                return value
            return {"$": "int", "v": hex(value)}
        if kind is float:
            self.spend(20)
            if value - value == 0.0:
                return value
            return {"$": "float", "v": repr(value)}
        if kind is list or kind is dict or kind is tuple or kind is set or kind is frozenset:
            return self.container(value, kind, depth)
        if kind is bytes or kind is bytearray:
            import binascii

            self.spend(len(value) * 4 // 3 + 16)
            return {"$": "bytes", "v": binascii.b2a_base64(value, newline=False).decode("ascii")}
        return self.rich(value, kind, depth)

    def container(self, value: Any, kind: type, depth: int) -> Any:
        mark = id(value)
        if depth >= MAX_DEPTH or mark in self.open:
            raise _Unencodable
        self.open.add(mark)
        try:
            self.spend(2 * len(value) + 2)
            if kind is list:
                return [self.encode(item, depth + 1) for item in value]
            if kind is dict:
                if "$" not in value and all(type(key) is str for key in value):
                    self.spend(sum(map(len, value)))
                    return {key: self.encode(item, depth + 1) for key, item in value.items()}
                pairs = [[self.encode(key, depth + 1), self.encode(item, depth + 1)] for key, item in value.items()]
                return {"$": "dict", "v": pairs}
            return {"$": kind.__name__, "v": [self.encode(item, depth + 1) for item in value]}
        finally:
            self.open.discard(mark)

    def rich(self, value: Any, kind: type, depth: int) -> Any:
        module, name = kind.__module__, kind.__qualname__
        if module == "collections" and name in ("Counter", "OrderedDict", "defaultdict"):
            return self.container(dict(value), dict, depth)
        if module == "numpy" and _is_numpy_scalar(value):
            return self.encode(value.item(), depth)
        if module == "datetime" and name in ("datetime", "date", "time") and not _foreign_zone(value):
            return {"$": name, "v": value.isoformat()}
        if module == "datetime" and name == "timedelta":
            return {"$": "timedelta", "v": [value.days, value.seconds, value.microseconds]}
        if module == "decimal" and name == "Decimal":
            return {"$": "decimal", "v": str(value)}
        if kind is complex:
            return {"$": "complex", "v": [repr(value.real), repr(value.imag)]}
        if kind is BatchFailure:
            return {"$": "failure", "v": str(value)}
        if kind is RemoteObject:
            return {"$": "object", "type": value.type, "repr": value.repr}
        self.spend(MAX_REPR)
        return describe(value)


class BatchFailure(str):
    """One failed item of a batch: reads ``[Error: ...]``, and can be told from an answer by its type."""

    __slots__ = ()


def _is_numpy_scalar(value: Any) -> bool:
    """A numpy number or truth value that has an ordinary form (a long double has none and would come back as it is)."""
    import sys

    numpy = sys.modules.get("numpy")
    return (
        numpy is not None
        and isinstance(value, numpy.generic)
        and type(value.item()) in (bool, int, float, complex, str)
    )


def _foreign_zone(value: Any) -> bool:
    """A zone that isoformat cannot carry (anything but none, UTC and fixed offsets)."""
    zone = getattr(value, "tzinfo", None)
    return zone is not None and type(zone).__name__ != "timezone"


def describe(value: Any) -> dict[str, str]:
    """The tag for an object that does not travel. ``repr`` is user code: it may raise what it likes."""
    kind = type(value)
    name = (
        kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else kind.__module__ + "." + kind.__qualname__
    )
    try:
        text = repr(value)
        if type(text) is not str:
            text = str.__str__(text)
    except Exception as exc:
        text = "<%s in repr>" % type(exc).__name__
    if len(text) > MAX_REPR:
        text = text[: MAX_REPR - 3] + "..."
    return {"$": "object", "type": str(name)[:200], "repr": text}


def encode(value: Any, limit: int = 1 << 30) -> Any:
    """`value` as JSON data. Raises `TooLarge` beyond about `limit` bytes."""
    try:
        return _Encoder(limit).encode(value, 0)
    except (_Unencodable, RecursionError):
        return describe(value)


def _decode_float(text: Any) -> float:
    return {"nan": float("nan"), "inf": float("inf"), "-inf": -float("inf")}[text]


def _decode_int(text: Any) -> int:
    return int(text, 16)


def _decode_bytes(text: Any) -> bytes:
    import binascii

    return binascii.a2b_base64(text)


def _decode_datetime(kind: str) -> Callable[[Any], Any]:
    def read(payload: Any) -> Any:
        import datetime

        if kind == "timedelta":
            days, seconds, micros = payload
            return datetime.timedelta(int(days), int(seconds), int(micros))
        return getattr(datetime, kind).fromisoformat(payload)

    return read


def _decode_decimal(text: Any) -> Any:
    import decimal

    return decimal.Decimal(text)


_LEAVES: dict[str, Callable[[Any], Any]] = {
    "float": _decode_float,
    "int": _decode_int,
    "bytes": _decode_bytes,
    "datetime": _decode_datetime("datetime"),
    "date": _decode_datetime("date"),
    "time": _decode_datetime("time"),
    "timedelta": _decode_datetime("timedelta"),
    "decimal": _decode_decimal,
    "complex": lambda pair: complex(float(pair[0]), float(pair[1])),
    "failure": BatchFailure,
}
_BOXES: dict[str, Callable[[Any], Any]] = {"tuple": tuple, "set": set, "frozenset": frozenset}


def decode(data: Any, depth: int = 0) -> Any:
    """The value behind JSON data. Raises ValueError for anything that `encode` does not make."""
    kind = type(data)
    if kind is list:
        if depth > MAX_DEPTH:
            raise ValueError("nested too deeply")
        return [decode(item, depth + 1) for item in data]
    if kind is not dict:
        return data
    if depth > MAX_DEPTH:
        raise ValueError("nested too deeply")
    tag = data.get("$")
    if tag is None:
        return {key: decode(item, depth + 1) for key, item in data.items()}
    return _decode_tagged(tag, data, depth)


def _decode_tagged(tag: Any, data: dict[str, Any], depth: int) -> Any:
    try:
        if tag == "object":
            return RemoteObject(str(data["type"])[:200], str(data["repr"])[:MAX_REPR])
        payload = data["v"]
        if tag in _BOXES:
            return _BOXES[tag]([decode(item, depth + 1) for item in payload])
        if tag == "dict":
            return {decode(key, depth + 1): decode(item, depth + 1) for key, item in payload}
        return _LEAVES[tag](payload)
    except ValueError:
        raise
    except (KeyError, TypeError, ArithmeticError, AttributeError, IndexError) as exc:
        raise ValueError("bad tagged value %.40r: %s" % (tag, type(exc).__name__)) from None
