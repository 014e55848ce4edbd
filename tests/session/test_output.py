"""Captured output: what is kept, what is cut, and what the notice says."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.session.test_frames import pieces_of

from cloche.session.output import OutputSink, notice

UNBOUNDED = 10**9

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
cuts = st.lists(st.integers(0, 2000), max_size=8)
data = st.one_of(texts.map(str.encode), st.binary(max_size=300), st.lists(st.sampled_from(
    [b"a", "é".encode(), "€".encode(), "😀".encode(), b"\xff", b"\xe2\x82", b"\xf0\x9f", b"\n"]), max_size=60
).map(b"".join))  # fmt: skip


def collect(sink: OutputSink, chunks: list[bytes]) -> tuple[str, bool, str]:
    """(text, was it cut, what was given out on the way)."""
    live = "".join([sink.feed(chunk) for chunk in chunks])
    text, cut = sink.finish()
    return text, cut, live


@given(data, cuts, st.integers(0, 120), st.integers(0, 400))
def test_any_chunking_gives_the_same_text(raw, places, chars, size):
    whole = collect(OutputSink(chars, size), [raw])
    parts = collect(OutputSink(chars, size), pieces_of(raw, places))
    assert parts[:2] == whole[:2]


@given(data, cuts)
def test_without_a_limit_the_text_is_what_utf8_with_replacement_makes_of_it(raw, places):
    text, cut, live = collect(OutputSink(UNBOUNDED, UNBOUNDED), pieces_of(raw, places))
    assert text == raw.decode("utf-8", "replace")
    assert not cut
    assert text.startswith(live)


@given(data, cuts, st.integers(0, 120))
def test_the_character_limit_counts_what_is_kept_and_the_notice_comes_after(raw, places, chars):
    full = raw.decode("utf-8", "replace")
    text, cut, _ = collect(OutputSink(chars, UNBOUNDED), pieces_of(raw, places))
    if len(full) <= chars:
        assert (text, cut) == (full, False)
    else:
        assert (text, cut) == (full[:chars] + notice(len(full) - chars), True)


@given(data, cuts, st.integers(0, 500), st.integers(0, 120))
def test_the_byte_ceiling_includes_the_notice_and_the_count_is_of_every_character(raw, places, size, chars):
    full = raw.decode("utf-8", "replace")
    text, cut, _ = collect(OutputSink(chars, size), pieces_of(raw, places))
    assert len(text.encode()) <= size
    assert cut == (len(full) > chars or len(full.encode()) > size)
    if cut and size >= len(notice(len(full))):
        found = re.search(r"\n\.\.\. \[truncated, (\d+) chars omitted\]\Z", text)
        assert found is not None
        kept = text[: found.start()]
        assert full.startswith(kept)
        assert int(found[1]) == len(full) - len(kept)


@given(data, cuts, st.integers(100, 500))
def test_under_the_byte_ceiling_no_more_is_given_up_than_the_notice_needs(raw, places, size):
    full = raw.decode("utf-8", "replace")
    text, cut, _ = collect(OutputSink(UNBOUNDED, size), pieces_of(raw, places))
    if cut:
        widest = 4  # bytes of one character, which may just not have fitted
        assert len(text.encode()) > size - widest - len("9" * 4)
        assert full.startswith(text[: text.rindex("\n... [truncated")])


@given(data, cuts, st.integers(0, 120), st.integers(0, 400))
def test_what_is_given_out_live_is_a_prefix_of_the_output_within_both_limits(raw, places, chars, size):
    _, _, live = collect(OutputSink(chars, size), pieces_of(raw, places))
    assert raw.decode("utf-8", "replace").startswith(live)
    assert len(live) <= chars
    assert len(live.encode()) <= size


@given(data, cuts)
def test_every_byte_is_counted_also_those_that_are_cut(raw, places):
    sink = OutputSink(3, 10)
    collect(sink, pieces_of(raw, places))
    assert sink.total_bytes == len(raw)


def test_memory_stays_bounded_however_much_is_written():
    sink = OutputSink(1000, 4000)
    for chunk in [b"x" * 100_000, "é".encode() * 50_000] * 20:
        sink.feed(chunk)
    assert sum(map(len, sink._kept)) == 1000
    assert sink.finish()[0].endswith(notice(20 * 150_000 - 1000))


def test_finish_may_be_asked_twice():
    sink = OutputSink(100, 100)
    sink.feed("é".encode()[:1])
    assert sink.finish() == ("\N{REPLACEMENT CHARACTER}", False)
    assert sink.finish() == ("\N{REPLACEMENT CHARACTER}", False)


@pytest.mark.parametrize("size", [0, 1, 10])
def test_a_ceiling_too_low_for_the_notice_is_still_a_ceiling(size):
    sink = OutputSink(100, size)
    sink.feed(b"x" * 50)
    text, cut = sink.finish()
    assert len(text) <= size
    assert cut
