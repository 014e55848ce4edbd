"""Values that cross the wall, in both directions."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from cloche_guest.values import RemoteObject

if TYPE_CHECKING:
    from cloche.conformance.fixtures import OpenSandbox
    from cloche.sandbox import SessionSandbox

UTC = datetime.UTC
VALUES: dict[str, Any] = {
    "none": None,
    "booleans": [True, False],
    "text": "caf\u00e9 \U0001f600 \0 \r\n \\ \ud800",
    "integers": [0, -1, 2**53, 2**53 + 1, -(2**64), 10**100],
    "floats": [0.1, -0.0, 1e308, 5e-324, 1e22],
    "infinities": [math.inf, -math.inf],
    "complex": 1 - 2j,
    "bytes": b"\0\xff",
    "tuples": (1, (2, ()), [3]),
    "sets": {1, "a", (2, 3)},
    "frozen sets": frozenset({1, 2}),
    "dicts": {"a": {"b": []}, "": 1},
    "dicts with other keys": {1: "int", (2, 3): "tuple", None: "none", 1.5: "float", b"k": "bytes"},
    "dicts that look like tags": {"$": "tuple", "v": [1]},
    "datetime": datetime.datetime(2024, 2, 29, 12, 30, 1, 999, tzinfo=UTC),
    "naive datetime": datetime.datetime(2024, 2, 29, 12, 30),  # noqa: DTZ001 - a naive one is what is tested
    "offset": datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=-3, minutes=-30))),
    "date": datetime.date(1, 1, 1),
    "time": datetime.time(23, 59, 59, 1),
    "timedelta": datetime.timedelta(days=-1, microseconds=1),
    "decimal": [Decimal("0.10"), Decimal("1E+30"), Decimal("-0"), Decimal("Infinity")],
}


def same(one: Any, other: Any) -> bool:
    """Equal, and of the same types all the way down (True is not 1, -0.0 is not 0.0)."""
    return type(one) is type(other) and repr(one) == repr(other) if not isinstance(one, set) else one == other


@pytest.mark.parametrize("kind", VALUES)
def test_a_value_comes_back_as_it_went(sandbox: SessionSandbox, kind: str) -> None:
    """Known defect ("getVariable"): values became JSON or text."""
    sandbox.set_variable("x", VALUES[kind])
    assert same(sandbox.get_variable("x"), VALUES[kind])


@pytest.mark.parametrize("kind", VALUES)
def test_a_value_is_the_same_inside(sandbox: SessionSandbox, kind: str) -> None:
    sandbox.set_variable("x", VALUES[kind])
    if isinstance(VALUES[kind], (set, frozenset)):
        assert sandbox.execute("sorted(map(repr, x))").value == repr(sorted(map(repr, VALUES[kind])))
    else:
        assert sandbox.execute("repr(x)").value == repr(repr(VALUES[kind]))


@pytest.mark.parametrize("kind", VALUES)
def test_a_value_goes_through_a_host_function_unchanged(open_sandbox: OpenSandbox, kind: str) -> None:
    received: list[Any] = []

    def echo(value: Any) -> Any:
        received.append(value)
        return value

    sandbox = open_sandbox(tools={"echo": echo})
    sandbox.set_variable("x", VALUES[kind])
    sandbox.execute("y = echo(x)").check()
    assert same(received[0], VALUES[kind])
    assert same(sandbox.get_variable("y"), VALUES[kind])


def test_not_a_number_comes_back(sandbox: SessionSandbox) -> None:
    """Known defect 1.8.11: NaN made invalid JSON, and the host hung."""
    sandbox.execute("x = [float('nan')]")
    assert math.isnan(sandbox.get_variable("x")[0])


@pytest.mark.parametrize(
    ("code", "type_name"),
    [
        ("class Table(dict): pass\nx = Table(a=1)", "Table"),
        ("class Text(str): pass\nx = Text('a')", "Text"),
        ("import enum\nclass Color(enum.IntEnum): RED = 1\nx = Color.RED", "Color"),
        ("import fractions\nx = fractions.Fraction(1, 3)", "fractions.Fraction"),
    ],
)
def test_a_subclass_is_described_and_not_silently_changed(sandbox: SessionSandbox, code: str, type_name: str) -> None:
    sandbox.execute(code)
    found = sandbox.get_variable("x")
    assert isinstance(found, RemoteObject)
    assert found.type == type_name


def test_an_object_inside_plain_data_is_described_in_its_place(sandbox: SessionSandbox) -> None:
    sandbox.execute("class Thing:\n    def __repr__(self): return 'a thing'\nx = [1, Thing()]")
    assert sandbox.get_variable("x") == [1, RemoteObject("Thing", "a thing")]


def test_a_described_object_passed_to_a_host_function_is_described(open_sandbox: OpenSandbox) -> None:
    received: list[Any] = []
    open_sandbox(tools={"take": received.append}).execute("class Thing: pass\ntake(Thing)")
    assert isinstance(received[0], RemoteObject)


def test_values_shared_but_not_cyclic_come_back(sandbox: SessionSandbox) -> None:
    sandbox.execute("inner = [1]\nx = [inner, inner]")
    assert sandbox.get_variable("x") == [[1], [1]]


def test_a_class_that_poses_as_a_date_does_not_break_the_session(sandbox: SessionSandbox) -> None:
    posing = (
        "class date:\n    __module__ = 'datetime'\n    def isoformat(self): return object()\ndate.__qualname__ = 'date'"
    )
    sandbox.execute(f"{posing}\nx = date(); y = 1")
    assert isinstance(sandbox.get_variable("x"), RemoteObject)
    assert sandbox.get_variable("y") == 1


@pytest.mark.cloche_needs("site_packages")
def test_numbers_of_arrays_come_back_as_plain_numbers(sandbox: SessionSandbox) -> None:
    sandbox.execute("import numpy\nx = [numpy.float64(0.5), numpy.int64(3)]")
    assert sandbox.get_variable("x") == [0.5, 3]
