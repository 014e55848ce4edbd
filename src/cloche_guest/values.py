"""Values on the wire: plain JSON, with tags for what JSON does not have.

A tagged value is an object whose only first-class key is ``"$"``: ``{"$": "tuple", "v": [...]}``. A dict that has
a key ``"$"`` or a key that is not a string travels as ``{"$": "dict", "v": [[key, value], ...]}``. What has no
tag becomes ``{"$": "object", "type": ..., "repr": ...}``. Both sides use this module; nothing is ever unpickled.
"""

from __future__ import annotations

from _json import encode_basestring_ascii

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

MAX_DEPTH = 100
SAFE_INT = 2**53  # beyond this a reader in another language would round
MAX_REPR = 2000
TAG = 26  # characters of a tag around its value, at the most
RICH = 100  # and of a leaf with a tag: a complex number is the longest
MAX_EQUAL_HASHES = 100

COST_PER_BYTE = 8
"""Bytes of memory that a value may take in the reader, for each byte of the limit of its text."""
A_LIST, A_DICT, A_TEXT, AN_ITEM, A_HASHED_ITEM = 112, 280, 32, 40, 128
"""Bytes that a list, a dict, a text and an item of a list or dict take in the reader, as measured; and an item of a
value in which there are sets, or dicts that travel as pairs."""


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


class PlainText(str):
    """A text that knows more of itself. It travels as the text that it is."""

    __slots__ = ()


class PlainList(list):  # type: ignore[type-arg]  # the guest runs where list cannot be subscripted
    """A list that knows more of itself. It travels as the list that it is."""


class Unencodable(Exception):
    """Cyclic or too deep: the outermost value becomes an object."""


class Encoder:
    """One encoding: counts what it makes, so that a huge value is refused before it is built."""

    def __init__(self, limit: int) -> None:
        self.left = limit
        self.limit = limit
        self.open: set[int] = set()
        self.lists = self.dicts = self.texts = self.items = 0
        self.item_cost = AN_ITEM
        self.width = 1

    def spend(self, amount: int) -> None:
        self.left -= amount
        if self.left < 0:
            raise TooLarge("the value is larger than %d bytes" % self.limit)

    def text(self, value: str) -> str:
        """Counted as it will stand in the frame, escapes included: the reader's bound is then the same as ours."""
        self.spend(len(value) + 2)
        escaped = encode_basestring_ascii(value)
        more = len(escaped) - len(value) - 2
        self.texts += 1
        if more:
            self.spend(more)
            if self.width < 4 and "\\u" in escaped:
                self.width = 4 if "\\ud" in escaped or "\\uD" in escaped else 2
        return value

    def tag(self) -> None:
        """One dict around a value, with a name."""
        self.dicts += 1
        self.texts += 3
        self.items += 3

    def check_cost(self) -> None:
        """Refuse what the reader would refuse since it takes too much memory when it is decoded."""
        cost = (self.limit - self.left) * self.width + self.lists * A_LIST + self.dicts * A_DICT
        cost += self.texts * A_TEXT + self.items * self.item_cost
        if cost > self.limit * COST_PER_BYTE:
            raise TooLarge("the value has more parts than a value of %d bytes may have" % self.limit)

    def encode(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if value is None or kind is bool:
            self.spend(5)
            return value
        if kind is str:
            return self.text(value)
        if kind is int:
            self.spend(value.bit_length() // 3 + 2)
            if -SAFE_INT <= value <= SAFE_INT:
                return value
            self.spend(TAG)
            self.tag()
            return {"$": "int", "v": hex(value)}
        if kind is float:
            self.spend(TAG)
            if value - value == 0.0:
                return value
            self.tag()
            return {"$": "float", "v": repr(value)}
        if kind is list or kind is dict or kind is tuple or kind is set or kind is frozenset:
            return self.container(value, kind, depth)
        if kind is bytes or kind is bytearray:
            import binascii

            self.spend(len(value) * 4 // 3 + 4 + TAG)
            self.tag()
            return {"$": "bytes", "v": binascii.b2a_base64(value, newline=False).decode("ascii")}
        return self.rich(value, kind, depth)

    def container(self, value: Any, kind: type, depth: int) -> Any:
        mark = id(value)
        if depth >= MAX_DEPTH or mark in self.open:
            raise Unencodable
        self.open.add(mark)
        try:
            self.spend(2 * len(value) + 2)
            self.items += len(value)
            if kind is list:
                self.lists += 1
                return [self.encode(item, depth + 1) for item in value]
            if kind is dict:
                self.dicts += 1
                self.items += len(value)
                if "$" not in value and all(type(key) is str for key in value):
                    return {self.text(key): self.encode(item, depth + 1) for key, item in value.items()}
                self.spend(2 * len(value) + TAG)
                self.lists += len(value) + 1
                self.tag()
                self.item_cost = A_HASHED_ITEM
                pairs = [[self.encode(key, depth + 1), self.encode(item, depth + 1)] for key, item in value.items()]
                return {"$": "dict", "v": pairs}
            self.spend(TAG)
            self.lists += 1
            self.tag()
            if kind is not tuple:
                self.item_cost = A_HASHED_ITEM
            return {"$": kind.__name__, "v": [self.encode(item, depth + 1) for item in value]}
        finally:
            self.open.discard(mark)

    def rich(self, value: Any, kind: type, depth: int) -> Any:
        if issubclass(kind, PlainText):
            return self.text(str.__str__(value))
        if issubclass(kind, PlainList):
            return self.container(value, list, depth)
        if _is_from(kind, "collections", ("Counter", "OrderedDict", "defaultdict")):
            return self.container(dict(value), dict, depth)
        if kind.__module__ == "numpy" and _is_numpy_scalar(value):
            return self.encode(value.item(), depth)
        self.spend(RICH)
        self.tag()
        if _is_from(kind, "datetime", ("datetime", "date", "time")) and not _foreign_zone(value):
            return {"$": kind.__name__, "v": value.isoformat()}
        if _is_from(kind, "datetime", ("timedelta",)):
            self.lists += 1
            self.items += 2
            return {"$": "timedelta", "v": [value.days, value.seconds, value.microseconds]}
        if _is_from(kind, "decimal", ("Decimal",)):
            return {"$": "decimal", "v": self.text(str(value))}
        if kind is complex:
            self.lists += 1
            self.items += 1
            return {"$": "complex", "v": [repr(value.real), repr(value.imag)]}
        if kind is BatchFailure:
            return {"$": "failure", "v": self.text(str(value))}
        return self.stranger(value)

    def stranger(self, value: Any) -> dict[str, str]:
        """An object that does not travel."""
        if type(value) is RemoteObject:
            described = {"$": "object", "type": value.type, "repr": value.repr}
        else:
            described = describe(value)
        self.tag()  # it has two names more than other tags
        self.text(described["type"])
        self.text(described["repr"])
        return described


class BatchFailure(str):
    """One failed item of a batch: reads ``[Error: ...]``, and can be told from an answer by its type."""

    __slots__ = ()


def _is_from(kind: type, module: str, names: tuple[str, ...]) -> bool:
    """Whether a class is the library's own: a user's class may go by the same name."""
    import sys

    if kind.__module__ != module or kind.__qualname__ not in names:
        return False
    return getattr(sys.modules.get(module), kind.__qualname__, None) is kind


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
    """A zone that isoformat cannot carry: anything but none, UTC and fixed offsets of whole seconds.

    Fractions of a second are lost on the way back by some versions of Python.
    """
    zone = getattr(value, "tzinfo", None)
    if zone is None:
        return False
    return type(zone).__name__ != "timezone" or bool(zone.utcoffset(None).microseconds)


def describe(value: Any) -> dict[str, str]:
    """The tag for an object that does not travel. ``repr`` is user code, and so may its class be."""
    kind = type(value)
    try:
        name = str(kind.__qualname__)
        if kind.__module__ not in ("builtins", "__main__"):
            name = "%s.%s" % (kind.__module__, name)
    except Exception:  # a metaclass of the user's
        name = "object"
    try:
        text = repr(value)
        if type(text) is not str:
            text = str.__str__(text)
    except Exception as exc:
        text = "<%s in repr>" % type(exc).__name__
    if len(text) > MAX_REPR:
        text = text[: MAX_REPR - 3] + "..."
    return {"$": "object", "type": name[:200], "repr": text}


def encode(value: Any, limit: int = 1 << 30) -> Any:
    """`value` as JSON data. Raises `TooLarge` beyond about `limit` bytes."""
    encoder = Encoder(limit)
    try:
        data = encoder.encode(value, 0)
    except (Unencodable, RecursionError):
        return describe(value)
    encoder.check_cost()
    return data


def encode_call(args: tuple[Any, ...], kwargs: dict[str, Any], limit: int) -> dict[str, Any]:
    """The arguments of a call, all of them together within `limit`. One that contains itself is described."""
    encoder = Encoder(limit)
    encoder.spend(2 * (len(args) + len(kwargs)) + TAG)
    encoder.items += len(args) + 2 * len(kwargs)
    params: dict[str, Any] = {"args": [_encoded_or_described(encoder, item) for item in args]}
    if kwargs:
        params["kwargs"] = {encoder.text(key): _encoded_or_described(encoder, item) for key, item in kwargs.items()}
    encoder.check_cost()
    return params


def _encoded_or_described(encoder: Encoder, value: Any) -> Any:
    try:
        return encoder.encode(value, 1)
    except (Unencodable, RecursionError):
        described = describe(value)
        return encoder.encode(RemoteObject(described["type"], described["repr"]), 1)


def _expect(payload: Any, kind: type) -> Any:
    if type(payload) is not kind:
        raise ValueError("not what belongs there: " + type(payload).__name__)
    return payload


def _list(payload: Any) -> list[Any]:
    return _expect(payload, list)  # type: ignore[no-any-return]  # that is what it makes sure of


def _decode_float(text: Any) -> float:
    return {"nan": float("nan"), "inf": float("inf"), "-inf": -float("inf")}[text]


def _decode_int(text: Any) -> int:
    return int(_expect(text, str), 16)


def _decode_bytes(text: Any) -> bytes:
    import binascii

    return binascii.a2b_base64(_expect(text, str))


def _decode_datetime(kind: str) -> Callable[[Any], Any]:
    def read(payload: Any) -> Any:
        import datetime

        return getattr(datetime, kind).fromisoformat(_expect(payload, str))

    return read


def _decode_timedelta(payload: Any) -> Any:
    import datetime

    days, seconds, micros = _list(payload)
    return datetime.timedelta(_expect(days, int), _expect(seconds, int), _expect(micros, int))


def _decode_decimal(text: Any) -> Any:
    import decimal

    return decimal.Decimal(_expect(text, str))


def _decode_complex(payload: Any) -> complex:
    real, imaginary = _list(payload)
    return complex(float(_expect(real, str)), float(_expect(imaginary, str)))


_LEAVES: dict[str, Callable[[Any], Any]] = {
    "float": _decode_float,
    "int": _decode_int,
    "bytes": _decode_bytes,
    "datetime": _decode_datetime("datetime"),
    "date": _decode_datetime("date"),
    "time": _decode_datetime("time"),
    "timedelta": _decode_timedelta,
    "decimal": _decode_decimal,
    "complex": _decode_complex,
    "failure": lambda text: BatchFailure(_expect(text, str)),
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
    if tag is None and "$" not in data:
        return {key: decode(item, depth + 1) for key, item in data.items()}
    if type(tag) is not str:
        raise ValueError("a tag that is not text")
    return _decode_tagged(tag, data, depth)


def _decode_tagged(tag: str, data: dict[str, Any], depth: int) -> Any:
    try:
        if tag == "object":
            return RemoteObject(_expect(data["type"], str)[:200], _expect(data["repr"], str)[:MAX_REPR])
        payload = data["v"]
        if tag in _BOXES:
            items = [decode(item, depth + 1) for item in _list(payload)]
            if tag != "tuple":
                _refuse_equal_hashes(items)
            return _BOXES[tag](items)
        if tag == "dict":
            pairs = [(decode(key, depth + 1), decode(item, depth + 1)) for key, item in map(_list, _list(payload))]
            _refuse_equal_hashes([key for key, _ in pairs])
            return dict(pairs)
        return _LEAVES[tag](payload)
    except ValueError:
        raise
    except (KeyError, TypeError, ArithmeticError, AttributeError, IndexError) as exc:
        raise ValueError("bad tagged value %.40r: %s" % (tag, type(exc).__name__)) from None


def _refuse_equal_hashes(items: list[Any]) -> None:
    """Hashes of numbers can be foreseen: a set of a million that are all equal would take hours to build."""
    if len(items) > MAX_EQUAL_HASHES:
        seen: dict[int, int] = {}
        for item in items:
            number = hash(item)
            seen[number] = count = seen.get(number, 0) + 1
            if count > MAX_EQUAL_HASHES:
                raise ValueError("too many items with one hash")
