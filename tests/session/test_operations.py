"""How requests are put on the wire, and what their replies mean."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloche import ProtocolError, RequestError, SnapshotError, ValueTransferError
from cloche.session import operations
from cloche.session.machine import Call, Finished
from cloche.session.operations import context_call, outgoing, read_reply
from cloche.snapshot import Snapshot, SnapshotEntry, SnapshotPiece
from cloche_guest.codes import BAD_STATE, INVALID_PARAMS, TOO_LARGE

LIMIT = 1 << 20


def received(call: Call) -> Any:
    """What a guest makes of a context."""
    if call.params.get("none"):
        return None
    if call.body is None:
        from cloche_guest.values import decode

        return decode(call.params["value"])
    data = b"".join(call.body)
    assert len(data) == call.body_size
    errors = "strict" if call.params["encoding"] in ("ascii", "latin-1") else "surrogatepass"
    return str(data, call.params["encoding"], errors)


@given(st.text(st.characters()))
def test_a_context_of_text_arrives_unchanged(text):
    assert received(context_call(text, LIMIT)) == text


@pytest.mark.parametrize("character", ["a", "\r\n", "\0", "é", "€", "\ud800", "😀", "\udfff😀"])
@pytest.mark.parametrize("size", [0, 1, (1 << 18) - 1, 1 << 18, (1 << 18) + 1, 700_000])
def test_a_context_of_any_width_and_size_arrives_unchanged(character, size):
    text = (character * size)[:size]
    assert received(context_call(text, LIMIT)) == text


def test_a_text_that_carries_its_utf8_form_with_it_is_not_taken_for_a_wider_one():
    for character in ("é", "€", "😀"):
        text = character * 1000
        text.encode()
        compile(f"x = {text!r}", "<cache>", "exec")  # CPython keeps the UTF-8 form of some strings
        assert received(context_call(text, LIMIT)) == text


def test_a_context_is_encoded_as_it_is_sent_and_not_before():
    call = context_call("x" * 10_000_000, LIMIT)
    assert call.body is not None
    assert len(next(iter(call.body))) == 1 << 18


@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_a_context_of_plain_data_arrives_unchanged(value):
    assert received(context_call(value, LIMIT)) == value


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"a": {"b": object()}}, "x['a']['b']: a value of type object"),
        ([1, (2, object())], "x[1][1]: a value of type object"),
        ({1: {object()}}, "x[1] (an item): a value of type object"),
        ({object(): 1}, "x (a key): a value of type object"),
        (object(), "x: a value of type object"),
    ],
)
def test_what_does_not_cross_is_named_by_its_place(value: object, place: str):
    with pytest.raises(ValueTransferError) as caught:
        operations.SetVariable("x", value, 1 << 20).call()
    assert str(caught.value).startswith(place)


def test_a_value_that_contains_itself_is_said_to():
    value: list[object] = []
    value.append(value)
    with pytest.raises(ValueTransferError, match="a list that contains itself"):
        operations.SetVariable("x", value, 1 << 20).call()


@pytest.mark.parametrize("value", [object(), [object()], {"a": {"b": (print,)}}, {1: {2}, "x": range(3)}])
def test_what_would_arrive_as_a_mere_description_is_refused(value):
    with pytest.raises(ValueTransferError, match="does not cross the wall"):
        outgoing(value, LIMIT, "x")


def test_data_that_looks_like_a_description_is_data():
    value = {"$": "object", "type": "t", "repr": "r"}
    call = operations.SetVariable("x", value, LIMIT).call()
    from cloche_guest.values import decode

    assert decode(call.params["value"]) == value


def test_a_value_that_is_too_large_names_the_policy_field():
    with pytest.raises(ValueTransferError, match="value_max_bytes"):
        outgoing("x" * 100, 10, "x")


@pytest.mark.parametrize(
    ("code", "kind"), [(TOO_LARGE, ValueTransferError), (BAD_STATE, SnapshotError), (INVALID_PARAMS, RequestError)]
)
def test_an_error_reply_has_a_type_of_its_own(code, kind):
    with pytest.raises(kind, match="too bad"):
        read_reply(operations.GetVariable("x", None), Finished(error={"code": code, "message": "too bad"}))


def test_a_variable_is_read_or_has_its_default():
    operation = operations.GetVariable("x", "default")
    assert read_reply(operation, Finished(result={"found": False})) == "default"
    assert read_reply(operation, Finished(result={"found": True, "value": {"$": "tuple", "v": [1]}})) == (1,)
    with pytest.raises(ValueTransferError, match="'x'"):
        read_reply(operation, Finished(result={"found": True, "value": {"$": "nonsense"}}))
    with pytest.raises(ProtocolError):
        read_reply(operation, Finished(result={"found": "yes"}))


def test_a_snapshot_carries_the_guests_bytes_unread():
    snapshot = read_reply(
        operations.TakeSnapshot(LIMIT),
        Finished(
            result={
                "entries": [{"names": ["a"], "types": ["int"], "stream": [3], "buffers": []}],
                "skipped": [["b", "no"]],
            },
            attachment=b"\x80\x04.",
        ),
    )
    assert snapshot.variables == ("a",)
    assert [(item.name, item.reason) for item in snapshot.skipped] == [("b", "no")]
    call = operations.Restore(snapshot, LIMIT).call()
    assert call.body_size == 3
    assert b"".join(call.body or ()) == b"\x80\x04."


ENTRY = {"names": ["a"], "types": ["int"], "stream": [3], "buffers": []}


@pytest.mark.parametrize(
    "entries",
    [
        "text",
        [5],
        [{}],
        [{**ENTRY, "stream": [2]}],
        [{**ENTRY, "stream": [4]}],
        [{**ENTRY, "stream": [-1, 4]}],
        [{**ENTRY, "stream": [True, 2]}],
        [{**ENTRY, "stream": ["00" * 32]}],
        [{**ENTRY, "names": [5]}],
        [{**ENTRY, "names": "a"}],
        [{**ENTRY, "buffers": [5]}],
        [{**ENTRY, "buffers": [{"readonly": True, "pieces": [1]}]}],
    ],
)
def test_a_snapshot_that_is_not_what_it_lists_breaks_the_protocol(entries):
    with pytest.raises(ProtocolError):
        read_reply(operations.TakeSnapshot(LIMIT), Finished(result={"entries": entries}, attachment=b"abc"))


def test_a_guest_cannot_make_a_snapshot_grow_by_naming_one_piece_often():
    base = Snapshot((SnapshotEntry(("a",), ("bytes",), (SnapshotPiece(bytes(5000)),)),))
    operation = operations.TakeSnapshot(100_000, base)
    operation.call()
    digest = next(iter(base.held()))
    with pytest.raises(ProtocolError, match="too large"):
        read_reply(operation, Finished(result={"entries": [{**ENTRY, "stream": [digest] * 21}]}, attachment=b""))


def test_a_reply_that_was_read_is_not_held_any_longer():
    """An idle session would otherwise keep its last state in the host's memory, whoever has dropped it."""
    finished = Finished(result={"entries": []}, attachment=bytearray())
    read_reply(operations.TakeSnapshot(1000), finished)
    assert (finished.result, finished.attachment) == (None, None)
