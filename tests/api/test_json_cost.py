"""What a line of JSON costs when it is decoded, against what it then takes."""

from __future__ import annotations

import json
import tracemalloc
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cloche.errors import ProtocolError
from cloche.json_cost import decoded_cost
from cloche.session.frames import COST_AT_MOST, FrameReader, encode_frame
from cloche_guest.values import COST_PER_BYTE, TooLarge, decode, encode

MANY = 20_000
KINDS = {
    "lists": b"[" + b"[]," * MANY + b"0]",
    "dicts": b"[" + b"{}," * MANY + b"0]",
    "dicts of one": b"[" + b'{"":0},' * MANY + b"0]",
    "dicts of lists": b"[" + b'{"a":[]},' * MANY + b"0]",
    "small numbers": b"[" + b"0," * MANY + b"0]",
    "numbers": b"[" + b",".join(b"%d" % (1000 + i) for i in range(MANY)) + b"]",
    "fractions": b"[" + b"0.5," * MANY + b"0]",
    "texts": b"[" + b'"abc",' * MANY + b"0]",
    "keys": b"{" + b",".join(b'"%d":0' % i for i in range(MANY)) + b"}",
    "a set": b'{"$":"set","v":[' + b",".join(b"%d" % i for i in range(MANY)) + b"]}",
    "a set whose tag is hidden": b'{"\\u0024":"s\\u0065t","v":[' + b",".join(b"%d" % i for i in range(MANY)) + b"]}",
    "a set whose tag stands apart": b'{"$" : "set","v":[' + b",".join(b"%d" % i for i in range(MANY)) + b"]}",
    "small sets": b"[" + b'{"$":"set","v":[1,2,3,4,5,6]},' * (MANY // 10) + b"0]",
    "pairs": b'{"$":"dict","v":[' + b",".join(b"[%d,0]" % i for i in range(MANY)) + b"]}",
    "large integers": b"[" + b'{"$":"int","v":"0"},' * MANY + b"0]",
    "decimals": b"[" + b'{"$":"decimal","v":"1"},' * MANY + b"0]",
    "spans": b"[" + b'{"$":"timedelta","v":[1,2,3]},' * MANY + b"0]",
    "one text": b'["' + b"x" * MANY * 50 + b'"]',
    "one text with a wide letter": b'["' + b"x" * MANY * 50 + b'\\u20ac"]',
    "one text with an emoji": b'["' + b"x" * MANY * 50 + b'\\ud83d\\ude00"]',
    "one text with an emoji as it is": b'["' + b"x" * MANY * 50 + '\U0001f600"]'.encode(),
    "nested texts": b'["' + b"x" * MANY + b'\\\\",[],[],["\\"' + b"],[" * MANY + b'"]]',
}


@pytest.mark.parametrize("kind", KINDS)
def test_no_line_takes_much_more_than_its_cost_while_it_is_decoded(kind):
    line = KINDS[kind]
    text = line.decode()
    tracemalloc.start()
    try:
        decode(json.loads(text))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= decoded_cost(line) * 2
    assert peak <= len(line) * COST_AT_MOST


def test_what_stands_in_a_text_costs_what_the_text_does():
    line = json.dumps({"a": '[{,:"\\' * 10_000}).encode()
    assert decoded_cost(line) < len(line) + 2_000


def test_counting_ends_above_the_limit():
    line = b"[" + b"[]," * 1_000_000 + b"0]"
    assert 1_000_000 < decoded_cost(line, 1_000_000) < decoded_cost(line) / 2


LEAVES: Any = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(max_size=30) | st.complex_numbers()
)
KEYS: Any = st.text(max_size=5) | st.integers()
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(KEYS, inner, max_size=4)
        | st.tuples(inner, inner)
        | st.sets(KEYS, max_size=5)
        | st.timedeltas()
        | st.builds(Decimal, st.integers())
    ),
    max_leaves=30,
)


@given(VALUES, st.integers(1, 40), st.integers(1, 6))
@example([[]], 40, 1)
@example({1: 2}, 40, 1)
@example({"$"}, 40, 1)
def test_the_host_takes_whatever_the_guest_may_send(value: Any, times: int, depth: int):
    for _ in range(depth):
        value = [value] * times if len(repr(value)) < 10_000 else value
    limit = len(json.dumps(encode(value)))
    try:
        data = encode(value, limit * 2)
    except TooLarge:
        return
    line = encode_frame({"jsonrpc": "2.0", "result": data})
    assert decoded_cost(line) <= limit * 2 * COST_PER_BYTE + len(line) * 4 + 4_000_000


def test_a_value_of_too_many_parts_is_refused_by_the_guest_with_the_figure():
    with pytest.raises(TooLarge, match="more parts than a value of 100000 bytes"):
        encode([[]] * 20_000, 100_000)


def test_a_value_of_the_largest_size_passes_when_it_is_ordinary():
    for value in ("x" * 990_000, list(range(100_000)), ["word"] * 80_000, [0.1 + i for i in range(30_000)]):
        encode(value, 1_000_000)


def test_a_nested_line_is_refused_undecoded():
    reader = FrameReader(1 << 20, 0)
    line = b'{"jsonrpc":"2.0","x":[' + b"[]," * 200_000 + b"0]}\n"
    with pytest.raises(ProtocolError, match="too large when it is decoded"):
        list(reader.feed(line))
