"""The packets between the jail's processes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloche_guest.jail import messages

texts = (
    st.binary(max_size=30).filter(lambda raw: b"\0" not in raw).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
)
values = st.one_of(
    st.integers(),
    texts,
    st.lists(texts, min_size=1, max_size=3),
    st.dictionaries(st.text(max_size=5), st.one_of(st.integers(), st.text(max_size=10), st.none()), min_size=1),
)


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,12}", fullmatch=True), values, min_size=1))
def test_a_message_arrives_as_it_was_sent(message: dict[str, object]) -> None:
    ours, theirs = messages.pair()
    with ours, theirs:
        messages.send(ours, message)
        assert messages.receive(theirs) == (message, [])


def test_a_text_that_would_end_its_field_is_refused() -> None:
    with pytest.raises(ValueError, match="NUL"):
        messages.pack({"path": "/tmp\0uid#0"})


def test_what_was_said_before_the_end_is_heard() -> None:
    ours, theirs = messages.pair()
    messages.send(ours, {"unread": True})
    messages.send(theirs, {"error": "why"})
    theirs.close()
    assert messages.receive(ours)[0] == {"error": "why"}
    assert messages.receive(ours)[0] is None
    ours.close()
