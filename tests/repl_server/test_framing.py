"""The delimited framing, for any data in any pieces."""

from __future__ import annotations

import json
import re
import tracemalloc
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloche.errors import ProtocolError
from cloche.executor.process import parse_frame
from cloche_guest.plain_json import dumps
from cloche_guest.repl_frames import (
    CUT,
    REQUEST,
    RESPONSE,
    DelimitedReader,
    FrameTooLarge,
    cut_out_state,
    enclose,
    is_base64,
)

MARKERS = [marker.decode() for marker in (*REQUEST, *RESPONSE)]
texts = st.lists(st.one_of(st.text(), st.sampled_from([*MARKERS, "\n", "\r\n"]))).map("".join)
messages = st.dictionaries(texts, st.one_of(texts, st.none(), st.lists(texts, max_size=3)), max_size=4)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:end] for start, end in pairwise(places)]


def read(reader: DelimitedReader, chunks: list[bytes]) -> list[tuple[bool, bytes]]:
    return [(is_frame, b"".join(parts)) for chunk in chunks for is_frame, parts in reader.feed(chunk)]


@given(st.lists(messages, max_size=4), st.lists(st.integers(min_value=0)), st.booleans())
def test_what_was_enclosed_is_found_again_however_it_is_cut(
    sent: list[dict[str, Any]], cuts: list[int], noisy: bool
) -> None:
    noise = b"\r\nnoise " + b"x" * 5000 + b"\n" if noisy else b""
    data = b"".join(noise + b"".join(enclose(RESPONSE, dumps(message))) for message in sent)
    found = read(DelimitedReader(RESPONSE), pieces(data, cuts))
    assert [json.loads(text) for is_frame, text in found if is_frame] == sent


@given(st.binary(), st.lists(st.integers(min_value=0)))
def test_any_bytes_are_read_without_an_error_and_the_next_frame_is_found(noise: bytes, cuts: list[int]) -> None:
    data = noise + b"\n" + b"".join(enclose(REQUEST, "{}"))
    assert read(DelimitedReader(REQUEST), pieces(data, cuts))[-1] == (True, b"{}")


@given(messages)
def test_no_line_of_json_is_a_marker(message: dict[str, Any]) -> None:
    for text in (dumps(message), json.dumps(message, indent=1, ensure_ascii=False)):
        assert not {line.strip() for line in text.split("\n")} & set(MARKERS)


@given(st.integers(min_value=1, max_value=200), st.lists(st.integers(min_value=0)))
def test_a_frame_is_bounded_whatever_its_lines_are(size: int, cuts: list[int]) -> None:
    data = RESPONSE[0] + b"\n" + b"x" * size + b"\n" * size
    reader = DelimitedReader(RESPONSE, limit=100)
    if 2 * size <= 100:
        read(reader, pieces(data, cuts))
    else:
        with pytest.raises(FrameTooLarge):
            read(reader, pieces(data, cuts))


def test_noise_outside_of_frames_is_not_kept() -> None:
    reader = DelimitedReader(RESPONSE, limit=100)
    for _ in range(1000):
        assert list(reader.feed(b"x" * 100_000)) == []
    assert read(reader, [b"\nline\n" + b"".join(enclose(RESPONSE, "{}"))]) == [(False, b"line"), (True, b"{}")]


@given(messages, st.text("AZaz09+/", min_size=1), st.integers(0, 9), st.sampled_from([",", ", "]))
def test_a_state_that_is_cut_out_leaves_the_rest_as_it_was(
    message: dict[str, Any], text: str, place: int, comma: str
) -> None:
    sent = {"first": 1, **message, "state": text * 4, "last": message}
    data = json.dumps(sent, separators=(comma, ": " if comma == ", " else ":")).encode()
    start = data.index((text * 4).encode() + b'"' + comma.encode() + b'"last"')
    rest, state = cut_out_state(pieces(data, [start + place % len(text), start + len(text)]))
    assert state is not None
    assert b"".join(state).decode() == text * 4
    assert json.loads(rest) == {**sent, "state": CUT}


@given(messages, st.lists(st.integers(min_value=0)))
def test_a_frame_without_a_large_state_is_left_alone(message: dict[str, Any], cuts: list[int]) -> None:
    rest, state = cut_out_state(pieces(json.dumps({**message, "state": None}).encode(), cuts))
    assert (json.loads(rest), state) == ({**message, "state": None}, None)


def test_a_large_state_is_cut_out_and_one_with_escapes_is_not() -> None:
    for state, is_cut in (("AAAA" * 1000, True), ("AA\\nAA==" * 1000, False)):
        frame = pieces(b'{"code":"x","state":"' + state.encode() + b'"}', [1000, 2000])
        assert (cut_out_state(frame)[1] is not None) is is_cut


@given(st.lists(st.one_of(st.binary(max_size=5), st.text("AZaz09+/=", max_size=9).map(str.encode))))
def test_what_is_base64_in_pieces_is_what_is_base64_as_a_whole(parts: list[bytes]) -> None:
    form = rb"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==|[A-Za-z0-9+/]=))?"
    assert is_base64(*parts) == (re.fullmatch(form, b"".join(parts)) is not None)


@pytest.mark.slow
def test_a_frame_of_nothing_but_line_ends_takes_little_more_than_its_bytes() -> None:
    reader = DelimitedReader(RESPONSE, limit=1 << 21)
    tracemalloc.start()
    try:
        read(reader, [RESPONSE[0] + b"\n", *([b"\n" * 4096] * 250)])
        assert tracemalloc.get_traced_memory()[0] < 2 * 250 * 4096 + 200_000
    finally:
        tracemalloc.stop()


def test_a_frame_that_comes_byte_by_byte_takes_little_more_than_its_bytes() -> None:
    reader = DelimitedReader(RESPONSE, limit=1 << 21)
    read(reader, [RESPONSE[0] + b"\n"])
    tracemalloc.start()
    try:
        for _ in range(100_000):
            read(reader, [b"xy"])
        assert tracemalloc.get_traced_memory()[0] < 2 * 200_000 + 100_000
    finally:
        tracemalloc.stop()


def test_a_response_of_many_parts_is_refused_before_it_is_decoded() -> None:
    with pytest.raises(ProtocolError, match="more parts than a response has"):
        parse_frame([b'{"stdout":[' + b"[]," * 1_000_000 + b"0]}"])
