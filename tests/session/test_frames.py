"""Cutting hostile bytes into frames."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.session.guest_side import frame

from cloche import ProtocolError
from cloche.session.frames import FrameReader, encode_frame

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
messages = st.dictionaries(st.text().filter(lambda key: key not in ("jsonrpc", "attachment")), plain, max_size=4)
frames = st.lists(st.tuples(messages, st.none() | st.binary(max_size=300)), max_size=6)


def on_the_wire(message: dict[str, Any], body: bytes | None) -> bytes:
    full = {"jsonrpc": "2.0", **message}
    if body is not None:
        full["attachment"] = len(body)
    return json.dumps(full).encode() + b"\n" + (body or b"")


def pieces_of(data: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(places)]


def read(reader: FrameReader, chunks: list[bytes]) -> list[Any]:
    return [found for chunk in chunks for found in reader.feed(chunk)]


@given(frames, st.lists(st.integers(0, 5000), max_size=12))
def test_any_chunking_gives_the_same_frames(sequence, cuts):
    data = b"".join(on_the_wire(message, body) for message, body in sequence)
    found = read(FrameReader(1 << 20, 1 << 20), pieces_of(data, cuts))
    assert [body for _, body in found] == [body for _, body in sequence]
    for (message, _), (sent, _) in zip(found, sequence, strict=True):
        assert {key: value for key, value in message.items() if key not in ("jsonrpc", "attachment")} == sent


@given(st.binary(max_size=400), st.lists(st.integers(0, 400), max_size=5))
def test_any_bytes_give_frames_or_a_protocol_error(data, cuts):
    try:
        found = read(FrameReader(200, 50), pieces_of(data, cuts))
    except ProtocolError:
        return
    assert all(type(message) is dict for message, _ in found)


@given(messages)
def test_what_the_host_sends_is_one_line_of_ascii(message):
    data = encode_frame({"jsonrpc": "2.0", **message})
    assert data.isascii()
    assert data.count(b"\n") == 1
    assert data.endswith(b"\n")
    assert json.loads(data) == {"jsonrpc": "2.0", **message}


@pytest.mark.parametrize(
    "line",
    [
        b"", b" ", b"hello", b"{", b"[]", b'"2.0"', b"null", b"1", b"{}", b'{"jsonrpc":"1.0"}', b'{"jsonrpc":2.0}',
        b'{"jsonrpc":"2.0"} x', b'{"jsonrpc":"2.0"}{"jsonrpc":"2.0"}', b"\xff\xfe", b'{"jsonrpc":"2.0","a":\xff}',
        b"[" * 100_000, b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b"}", b'\xef\xbb\xbf{"jsonrpc":"2.0"}',
    ],
)  # fmt: skip
def test_a_line_that_is_no_frame_breaks_the_protocol(line):
    with pytest.raises(ProtocolError):
        list(FrameReader(1 << 20, 0).feed(line + b"\n"))


def test_blanks_around_a_frame_are_allowed():
    assert len(list(FrameReader(1 << 20, 0).feed(b'{"jsonrpc":"2.0"} \r\n'))) == 1


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_a_line_over_the_limit_is_refused_before_its_end_is_seen(chunk):
    reader = FrameReader(100, 0)
    line = b'{"jsonrpc":"2.0","a":"' + b"x" * 1000
    with pytest.raises(ProtocolError, match="too large"):
        read(reader, [line[start : start + chunk] for start in range(0, len(line), chunk)])


def test_a_line_of_just_the_limit_is_taken():
    line = b'{"jsonrpc":"2.0","a":"' + b"x" * 50 + b'"}'
    assert len(list(FrameReader(len(line), 0).feed(line + b"\n"))) == 1
    with pytest.raises(ProtocolError, match="too large"):
        list(FrameReader(len(line) - 1, 0).feed(line + b"\n"))


def test_the_limit_is_of_each_frame_and_not_of_all():
    reader = FrameReader(60, 0)
    assert len(read(reader, [frame(id=number) for number in range(1000)])) == 1000
    assert len(read(reader, [b"".join(frame(id=number) for number in range(1000))])) == 1000


@pytest.mark.parametrize("announced", [-1, 11, 10**30, 1.0, True, "5", [], {}, [[[1]]]])
def test_an_attachment_that_is_not_allowed_is_refused(announced):
    with pytest.raises(ProtocolError, match="attachment"):
        list(FrameReader(1 << 20, 10).feed(frame(attachment=announced)))


def test_an_attachment_may_be_empty_and_may_be_just_the_limit():
    reader = FrameReader(1 << 20, 10)
    assert [body for _, body in reader.feed(frame(attachment=0) + frame(attachment=10) + b"\n\n{}[]\0abc")] == [
        b"",
        b"\n\n{}[]\0abc",
    ]


def test_an_announced_attachment_takes_no_memory_before_it_comes():
    import tracemalloc

    tracemalloc.start()
    try:
        reader = FrameReader(1 << 20, 1 << 40)
        assert list(reader.feed(frame(attachment=1 << 40) + b"first bytes")) == []
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_nesting_of_any_depth_is_a_protocol_error_and_not_a_stack_overflow():
    for depth in (1, 10, 100, *range(900, 1001), 5000, 100_000):
        line = b'{"jsonrpc":"2.0","attachment":' + b"[" * depth + b"]" * depth + b"}\n"
        with pytest.raises(ProtocolError):
            list(FrameReader(1 << 20, 10).feed(line))
