"""Every field of a reply is typed, bounded and optional; nothing is believed."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.session.test_machine_hostile import json_values

from cloche import ProtocolError
from cloche.session import replies


def test_a_missing_field_has_its_default_and_a_wrong_one_breaks_the_protocol():
    assert replies.field({}, "a", int, 7) == 7
    assert replies.field({"a": None}, "a", int, 7) == 7
    assert replies.field({"a": 5}, "a", int, 7) == 5
    for wrong in ("5", 5.0, True, [5]):
        with pytest.raises(ProtocolError, match="'a' that is not int"):
            replies.field({"a": wrong}, "a", int, 7)


@pytest.mark.parametrize("data", [None, [], "x", 5])
def test_what_is_no_object_has_no_fields(data):
    with pytest.raises(ProtocolError, match="not an object"):
        replies.field(data, "a", int, 7)


def test_text_is_bounded():
    assert len(replies.text({"a": "x" * 5_000_000}, "a")) == replies.MAX_TEXT


def test_pairs_are_bounded_and_typed():
    assert replies.names_and_reasons({"p": [["a" * 5000, "b" * 5000]]}, "p") == [("a" * 1000, "b" * 1000)]
    for wrong in (["ab"], [["a"]], [["a", "b", "c"]], [["a", 5]], [{"a": "b"}], [None]):
        with pytest.raises(ProtocolError):
            replies.names_and_reasons({"p": wrong}, "p")


def test_strings_are_strings():
    assert replies.strings({"s": ["a", "b"]}, "s") == ["a", "b"]
    for wrong in ([5], [["a"]], [None]):
        with pytest.raises(ProtocolError):
            replies.strings({"s": wrong}, "s")


def test_an_exception_is_text_with_a_line():
    raw = {"type": "T" * 500, "message": "m", "line": 3, "traceback": "tb"}
    found = replies.exception({"exception": raw})
    assert found is not None
    assert (found.type, found.message, found.line, found.traceback) == ("T" * 200, "m", 3, "tb")
    assert replies.exception({}) is None
    strange = replies.exception({"exception": {**raw, "line": "3"}})
    assert strange is not None
    assert strange.line is None


def test_a_display_fits_or_is_none():
    fits = replies.display({"data": {"text/plain": "12345", "image/png": base64.b64encode(b"12").decode()}}, 9)
    assert fits is not None
    assert fits[1] == 9
    assert fits[0].data == {"text/plain": "12345", "image/png": b"12"}
    assert replies.display({"data": {"text/plain": "12345"}}, 4) is None
    assert replies.display({"data": {}}, 100) is None


@given(json_values)
def test_any_value_can_be_named_in_an_error(value: Any):
    assert len(replies.word(value)) <= 90


@given(json_values, st.sampled_from(["exception", "data", "p"]))
def test_any_data_is_read_or_breaks_the_protocol(value: Any, name: str):
    for read in (
        replies.exception,
        lambda data: replies.display(data, 100),
        lambda data: replies.strings(data, name),
        lambda data: replies.names_and_reasons(data, name),
        lambda data: replies.text(data, name),
    ):
        for data in (value, {name: value}):
            try:
                read(data)
            except ProtocolError:
                continue
