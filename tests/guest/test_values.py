"""Values on the wire: they come back as they went, and what comes from a guest builds nothing but values."""

from __future__ import annotations

import collections
import datetime
import decimal
import json
import math
import tracemalloc
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.guest.every_python import Interpreter, python

from cloche_guest.values import MAX_DEPTH, BatchFailure, RemoteObject, TooLarge, decode, encode

__all__ = ["python"]

any_text = st.text(st.characters())  # lone surrogates too
# whole seconds: some versions of Python cannot read back what they wrote of finer offsets
zones = st.none() | st.integers(-86340, 86340).map(lambda seconds: datetime.timezone(datetime.timedelta(0, seconds)))
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**200), 2**200),
    st.floats(),
    any_text,
    st.binary(),
    st.complex_numbers(),
    st.decimals(),
    st.dates(),
    st.timedeltas(),
    st.times(timezones=zones),
    st.datetimes(timezones=zones),
    any_text.map(BatchFailure),
)
hashable = st.recursive(
    scalars.filter(lambda value: not (isinstance(value, decimal.Decimal) and value.is_snan())),
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3),
    max_leaves=5,
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.sets(hashable, max_size=4),
        st.frozensets(hashable, max_size=4),
        st.dictionaries(any_text, inner, max_size=4),
        st.dictionaries(hashable, inner, max_size=4),
        st.dictionaries(st.sampled_from(["$", "v", "a"]), inner, max_size=3),
    ),
    max_leaves=15,
)
plain_types = (
    type(None), bool, int, float, str, bytes, complex, decimal.Decimal, datetime.datetime, datetime.date,
    datetime.time, datetime.timedelta, list, tuple, set, frozenset, dict, BatchFailure, RemoteObject,
)  # fmt: skip


def over_the_wire(value: Any, limit: int = 1 << 30) -> Any:
    return decode(json.loads(json.dumps(encode(value, limit))))


def shape(value: Any) -> Any:
    """Something that is equal when values are the same in type and content, also where == says no (NaN) or too much."""
    if isinstance(value, (list, tuple)):
        return type(value), [shape(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return type(value), sorted(map(repr, map(shape, value)))
    if isinstance(value, dict):
        return dict, [(shape(key), shape(item)) for key, item in value.items()]
    if isinstance(value, (datetime.datetime, datetime.time)):
        return type(value), value.isoformat()
    if type(value) is int:
        return int, hex(value)  # decimal digits are limited
    return type(value), repr(value)


# -- there and back ----------------------------------------------------------------------------


@given(values)
def test_a_value_comes_back_as_it_went(value):
    assert shape(over_the_wire(value)) == shape(value)


@pytest.mark.parametrize(
    "value",
    [
        math.nan, math.inf, -math.inf, -0.0, 5e-324, 2**53, 2**53 + 1, -(2**53) - 1, 16**3000, True, 1, 1.0, "", b"",
        "\ud800", "\udfff\ud800", "\0", "\u2028", "😀", {"$": 1}, {"$": "tuple", "v": [1]},
        {1: "a", None: "b", (1, 2): "c"}, {"a": {"$": {}}}, [], (), set(), frozenset(), {}, ((),),
        {frozenset({1}): {2}}, bytes(range(256)),
        decimal.Decimal("NaN"), decimal.Decimal("-0.00"), decimal.Decimal("1E+999999"), complex(math.nan, -0.0),
        datetime.date.min, datetime.datetime.max.replace(tzinfo=datetime.timezone.utc),  # noqa: UP017 - the guest's spelling
        datetime.time.min, datetime.timedelta.max, datetime.timedelta.min,
        datetime.datetime(2024, 1, 2, 3, 4, 5, 6, datetime.timezone.utc),  # noqa: UP017 - the guest's spelling
        datetime.time(23, 59, 59, 999999, datetime.timezone(datetime.timedelta(hours=-5, minutes=-30))),
    ],
    ids=lambda value: hex(value)[:30] if isinstance(value, int) else repr(value)[:30],
)  # fmt: skip
def test_awkward_values_come_back_too(value):
    assert shape(over_the_wire(value)) == shape(value)


def test_mappings_and_buffers_of_the_library_arrive_as_plain_ones():
    assert shape(over_the_wire(collections.Counter("aab"))) == shape({"a": 2, "b": 1})
    assert shape(over_the_wire(collections.OrderedDict([("b", 1), ("a", 2)]))) == shape({"b": 1, "a": 2})
    assert shape(over_the_wire(collections.defaultdict(list, {1: [2]}))) == shape({1: [2]})
    assert shape(over_the_wire(bytearray(b"ab"))) == shape(b"ab")


def test_a_shared_part_is_no_cycle():
    part = [1, 2]
    assert over_the_wire([part, part, {"a": part}]) == [part, part, {"a": part}]


# -- what does not travel ----------------------------------------------------------------------


def test_an_object_is_described():
    assert over_the_wire([object]) == [RemoteObject("type", "<class 'object'>")]
    assert over_the_wire(range(3)) == RemoteObject("range", "range(0, 3)")


class Odd:
    def __repr__(self) -> str:
        raise ZeroDivisionError


class Text(str):
    __slots__ = ()

    def __repr__(self) -> Text:
        return Text("mine")


def test_a_repr_that_fails_or_is_no_plain_text_does_no_harm():
    assert over_the_wire(Odd()).repr == "<ZeroDivisionError in repr>"
    described = over_the_wire([Text("x")])[0]
    assert type(described.repr) is str


def test_a_class_without_a_proper_name_is_described():
    strange = type("Strange", (), {"__module__": None})
    assert over_the_wire(strange()).type.endswith("Strange")


@pytest.mark.parametrize("module", ["datetime", "decimal", "collections", "numpy"])
@pytest.mark.parametrize("name", ["datetime", "timedelta", "Decimal", "Counter", "float64"])
def test_a_class_that_goes_by_the_name_of_another_is_described(module, name):
    fake = type(name, (), {"__module__": module, "isoformat": lambda self: object(), "days": object()})
    assert type(over_the_wire(fake())) is RemoteObject


def test_a_zone_that_cannot_be_carried_makes_the_whole_value_a_description():
    import zoneinfo

    moment = datetime.datetime(2024, 7, 1, tzinfo=zoneinfo.ZoneInfo("UTC"))
    assert type(over_the_wire(moment)) is RemoteObject
    fraction = datetime.timezone(datetime.timedelta(microseconds=1))
    assert type(over_the_wire(moment.replace(tzinfo=fraction))) is RemoteObject


def test_subclasses_are_described_since_their_own_part_would_be_lost():
    class Celsius(float):
        pass

    assert type(over_the_wire(Celsius(5))) is RemoteObject


@pytest.mark.parametrize("make", [list, dict, collections.defaultdict], ids=["list", "dict", "defaultdict"])
def test_a_cycle_is_described(make):
    value = make()
    if isinstance(value, list):
        value.append([value])
    else:
        value["x"] = [value]
    assert type(over_the_wire(value)) is RemoteObject


@pytest.mark.parametrize(
    "wrap", [lambda v: [v], lambda v: (v,), lambda v: {"a": v}, lambda v: {1: v}, lambda v: {"$": v}]
)
def test_depth_is_bounded_and_all_that_is_allowed_arrives(wrap):
    value: Any = 1
    for _ in range(MAX_DEPTH):
        value = wrap(value)
    assert over_the_wire(value) == value
    assert type(over_the_wire(wrap(value))) is RemoteObject
    for _ in range(100_000):
        value = wrap(value)
    assert type(over_the_wire(value)) is RemoteObject


# -- size --------------------------------------------------------------------------------------


@given(values, st.integers(1, 400))
@example(value=[frozenset()] * 90, limit=400)
@example(value=["😀" * 90], limit=400)
@example(value={"\0" * 390: None}, limit=400)
@example(value=[{}] * 90, limit=400)
@example(value=[-(2**53)] * 90, limit=1500)
@example(value=[2**54] * 20, limit=600)
@example(value=[-2.2250738585072014e-308] * 20, limit=500)
@example(value=[{1: 2}] * 20, limit=900)
@example(value=[b"1"] * 20, limit=900)
@example(value=[complex(-2.2250738585072014e-308, -2.2250738585072014e-308)] * 4, limit=400)
@example(value={(): ()}, limit=120)
def test_a_value_within_the_limit_is_within_it_on_the_wire_too(value, limit):
    """The host bounds frames by the same number: what the guest lets through must not be taken for an attack."""
    try:
        data = encode(value, limit)
    except TooLarge:
        return
    if not _is_description(data):
        assert len(json.dumps(data, separators=(",", ":"))) <= limit


def _is_description(data: Any) -> bool:
    return type(data) is dict and data.get("$") == "object"


@pytest.mark.parametrize(
    "value",
    [
        "x" * 10_000_000, b"x" * 10_000_000, [0] * 5_000_000, {"x" * 10_000_000: 1}, 1 << 80_000_000,
        [datetime.date(2024, 1, 1)] * 100_000, [decimal.Decimal(1)] * 100_000, [1j] * 100_000, ["x" * 1000] * 5000,
        [[]] * 1_000_000, [()] * 1_000_000, BatchFailure("x" * 10_000_000), [None] * 1_000_000,
        RemoteObject("x", "y" * 10_000_000), {number: number for number in range(300_000)},
    ],
    ids=lambda value: f"{type(value).__name__}-{'big' if isinstance(value, int) else repr(value)[:12]}",
)  # fmt: skip
def test_a_value_that_is_too_large_is_refused_before_memory_is_spent_on_it(value):
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge, match="1000000 bytes"):
            encode(value, 1_000_000)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


# -- hostile data ------------------------------------------------------------------------------

tags = st.sampled_from(
    ["tuple", "set", "frozenset", "dict", "int", "float", "bytes", "datetime", "date", "time", "timedelta", "decimal",
     "complex", "failure", "object", "", "eval", "__class__"]
)  # fmt: skip
hostile = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), any_text,
        st.sampled_from(["nan", "0x10", "2024-01-01", "1E9", "inf", "AAAA", "-1"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from(["a", "v", "type", "repr"]), inner, max_size=3),
        st.fixed_dictionaries({"$": tags | inner}, optional={"v": inner, "type": inner, "repr": inner}),
        st.fixed_dictionaries({"$": st.just("dict"), "v": st.lists(st.tuples(inner, inner).map(list), max_size=3)}),
    ),
    max_leaves=20,
)  # fmt: skip


def assert_plain(value: Any) -> None:
    assert type(value) in plain_types
    if isinstance(value, dict):
        for key, item in value.items():
            assert_plain(key)
            assert_plain(item)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            assert_plain(item)


@given(hostile)
def test_any_json_gives_plain_values_or_a_value_error(data):
    try:
        value = decode(data)
    except ValueError:
        return
    assert_plain(value)


@pytest.mark.parametrize(
    "tag", ["object", "failure", "tuple", "set", "dict", "int", "complex", "timedelta", "decimal", ""]
)
@pytest.mark.parametrize("field", ["$", "v", "type", "repr", "other"])
def test_depth_anywhere_is_a_value_error_or_is_ignored(tag, field):
    for depth in (50, 90, *range(700, 1000, 7)):
        data: Any = []
        for _ in range(depth):
            data = [data]
        tagged = {"$": tag, "v": "x", "type": "t", "repr": "r", field: data}
        for _ in range(90):
            tagged = {"$": "tuple", "v": [tagged]}
        try:
            assert_plain(decode(tagged))
        except ValueError:
            continue


def test_data_nested_more_deeply_than_the_stack_is_a_value_error():
    data: Any = []
    for _ in range(100_000):
        data = [data]
    with pytest.raises(ValueError, match="nested"):
        decode(data)


@pytest.mark.parametrize("tag", ["set", "frozenset", "dict"])
def test_a_flood_of_equal_hashes_is_refused(tag):
    numbers = [{"$": "int", "v": hex(number * (2**61 - 1))} for number in range(20_000)]
    payload = [[number, 1] for number in numbers] if tag == "dict" else numbers
    with pytest.raises(ValueError, match="hash"):
        decode({"$": tag, "v": payload})


def test_large_sets_and_mappings_of_ordinary_things_arrive():
    assert over_the_wire(set(range(50_000))) == set(range(50_000))
    assert over_the_wire({(number, -number): number for number in range(5000)}) == {
        (number, -number): number for number in range(5000)
    }


# -- both ends ---------------------------------------------------------------------------------

SAMPLES: list[Any] = [
    None, True, 0, -(2**70), 1.5, "é\ud800😀", b"\0\xff", (1, (2,)), {"$": [1]}, {1: {2, 3}}, [[], {}],
]  # fmt: skip


def test_a_guest_of_any_version_reads_and_writes_the_same(python: Interpreter):
    for sample in SAMPLES:
        assert python.evaluate("cloche_guest.values", "decode(data)", data=encode(sample)) == sample
        assert decode(python.evaluate("cloche_guest.values", "encode(value)", value=sample)) == sample


def test_moments_and_decimals_cross_between_versions(python: Interpreter):
    zone = datetime.timezone(datetime.timedelta(hours=5, minutes=45))
    for sample in (
        datetime.datetime(2024, 2, 29, 1, 2, 3, 4, zone), datetime.datetime(1, 1, 1), datetime.date(9999, 12, 31),  # noqa: DTZ001 - naive on purpose
        datetime.time(1, 2, 3, 4), datetime.timedelta(-1, 2, 3), decimal.Decimal("1.50"), complex(1, -0.0),
    ):  # fmt: skip
        there = python.evaluate("cloche_guest.values", "encode(decode(data))", data=encode(sample))
        assert shape(decode(there)) == shape(sample)


def test_an_offset_that_would_be_lost_on_the_way_back_is_described_instead() -> None:
    zone = datetime.timezone(datetime.timedelta(microseconds=1))
    assert isinstance(decode(encode(datetime.datetime(2000, 1, 1, tzinfo=zone))), RemoteObject)
