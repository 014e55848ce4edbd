"""A guest that lies: what it may say is answered, what it may not say ends it, and nothing else happens."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.session.guest_side import Bench, frame

from cloche.session.actions import Kill


def assert_broken(bench: Bench) -> None:
    finished = bench.finished()
    assert finished.death == "protocol"
    assert finished.result is None
    assert Kill() in bench.actions


@pytest.mark.parametrize("number", [0, 2, -1, None, "1", [1], {"1": 1}, True, 1.0])
def test_a_reply_to_a_question_that_was_not_asked_ends_the_guest(number):
    bench = Bench()
    bench.begin()
    bench.receive(frame(id=number, result={"outcome": "ok"}))
    assert_broken(bench)


def test_a_second_reply_to_the_same_question_ends_the_guest():
    bench = Bench()
    bench.begin()
    bench.receive(frame(id=1, result={}), frame(id=1, result={"outcome": "ok"}))
    assert_broken(bench)


def test_a_second_reply_that_comes_before_the_next_call_ends_the_guest_then():
    bench = Bench()
    bench.begin()
    bench.reply(outcome="ok")
    bench.begin()
    bench.receive(frame(id=1, result={"outcome": "ok", "value": "'forged'"}))
    assert_broken(bench)


def test_replies_out_of_order_end_the_guest():
    bench = Bench()
    bench.begin("initialize", "execute")
    bench.receive(frame(id=2, result={}))
    assert_broken(bench)


@pytest.mark.parametrize("result", [[], "ok", 1, True, [{"outcome": "ok"}]])
def test_a_result_that_is_no_object_ends_the_guest(result):
    bench = Bench()
    bench.begin()
    bench.receive(frame(id=1, result=result))
    assert_broken(bench)


@pytest.mark.parametrize("error", [[], "no", 1, False, {"code": "x"}, {"code": 1.5}, {"message": []}])
def test_an_error_that_is_none_ends_the_guest(error):
    bench = Bench()
    bench.begin()
    bench.receive(frame(id=1, error=error))
    assert_broken(bench)


@pytest.mark.parametrize("method", ["execute", "shutdown", "", 5, [], {}, ["bridge"]])
def test_a_method_that_does_not_exist_ends_the_guest(method):
    bench = Bench()
    bench.begin()
    bench.receive(frame(id=1, method=method))
    assert_broken(bench)


@pytest.mark.parametrize(
    "params",
    [None, [], {"data": []}, {"data": {"text/plain": 5}}, {"data": {"image/png": "%%%"}}, {"data": {"x" * 101: "y"}}],
)
def test_a_display_that_is_none_ends_the_guest(params):
    bench = Bench()
    bench.begin()
    bench.receive(frame(method="display", params=params))
    assert_broken(bench)


@pytest.mark.parametrize("params", [None, [], {"text": 5}, {"stream": [], "text": "x"}, {"text": ["x"]}])
def test_an_output_that_is_none_ends_the_guest(params):
    bench = Bench()
    bench.begin()
    bench.receive(frame(method="output", params=params))
    assert_broken(bench)


def test_an_attachment_that_nobody_asked_for_ends_the_guest():
    bench = Bench()
    bench.begin()
    bench.receive(frame(id=1, result={}, attachment=10))
    assert_broken(bench)


def test_a_snapshot_may_bring_its_bytes_and_no_more_than_the_policy_allows():
    bench = Bench(snapshot_max_bytes=1000)
    bench.begin("snapshot")
    bench.receive(frame(id=1, result={}, attachment=5) + b"12345")
    assert bench.finished().attachment == b"12345"
    bench.begin("snapshot")
    bench.receive(frame(id=2, result={}, attachment=10_000_000))
    assert_broken(bench)


def test_a_frame_that_never_ends_ends_the_guest():
    bench = Bench(value_max_bytes=1000, display_max_bytes=1000)
    bench.begin()
    for _ in range(100):
        bench.receive(b"x" * 65536)
        if bench.is_over():
            break
    assert_broken(bench)


def test_what_follows_a_broken_frame_is_not_read():
    bench = Bench(["f"])
    bench.begin()
    bench.receive(b"garbage\n", frame(id=1, method="bridge", params={"name": "f"}), frame(id=1, result={}))
    assert_broken(bench)
    assert not bench.machine.desk.busy


def test_calls_that_are_out_are_abandoned_when_the_guest_is_ended():
    bench = Bench(["f"])
    bench.begin()
    bench.bridge(1, "f")
    bench.receive(b"garbage\n")
    assert_broken(bench)
    assert not bench.machine.desk.busy


def test_a_value_of_the_largest_size_fits_into_a_frame_whatever_its_characters():
    """See also the law for all values, in the tests of the codec."""
    import json

    from cloche_guest.values import encode

    for character in ("a", "\0", "é", "\ud800", "€", "😀", '"'):
        bench = Bench(value_max_bytes=300_000, display_max_bytes=0)
        bench.begin("get_variable")
        text = character * 300_000
        while True:
            try:
                value = encode(text, 300_000)
                break
            except ValueError:
                text = text[: len(text) * 9 // 10]
        bench.receive(
            json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"found": True, "value": value}}).encode() + b"\n"
        )
        assert bench.finished().death is None, repr(character)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
hostile_messages = st.fixed_dictionaries(
    {},
    optional={
        "id": st.integers(0, 3) | json_values,
        "method": st.sampled_from(["bridge", "display", "output", "execute"]) | json_values,
        "params": json_values
        | st.fixed_dictionaries(
            {},
            optional={
                "name": st.sampled_from(["f", "llm_query", "llm_query_batched", "g"]) | json_values,
                "args": json_values,
                "kwargs": json_values,
                "data": json_values | st.dictionaries(st.sampled_from(["text/plain", "image/png"]), st.text()),
                "stream": json_values,
                "text": json_values,
            },
        ),
        "result": json_values,
        "error": json_values,
        "attachment": json_values,
    },
)


@given(st.lists(hostile_messages, max_size=6), st.booleans())
def test_whatever_a_guest_says_the_machine_stands(messages: list[dict[str, Any]], stopped: bool):
    bench = Bench(["f", "llm_query"])
    bench.begin()
    if stopped:
        bench.cancel()
    for message in messages:
        bench.receive(frame(**message))
    bench.pass_time(100.0)
    bench.machine.guest_gone("gone")
    assert not bench.machine.desk.busy
