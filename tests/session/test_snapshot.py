"""The container of a snapshot: names that the host may read, and a payload that it never opens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloche import Skipped, Snapshot, SnapshotError

names = st.text(st.characters())
snapshots = st.builds(
    Snapshot,
    variables=st.lists(names, max_size=4).map(tuple),
    skipped=st.lists(st.builds(Skipped, names, names), max_size=4).map(tuple),
    payload=st.binary(max_size=200),
)


@given(snapshots)
def test_it_comes_back_from_its_bytes(snapshot):
    assert Snapshot.from_bytes(snapshot.to_bytes()) == snapshot


@given(st.binary(max_size=200))
def test_any_bytes_are_a_snapshot_or_an_error(data):
    with pytest.raises(SnapshotError):
        Snapshot.from_bytes(data)


@given(snapshots, st.data())
def test_damaged_bytes_are_another_snapshot_or_an_error(snapshot, data):
    raw = bytearray(snapshot.to_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        read = Snapshot.from_bytes(bytes(raw))
    except SnapshotError:
        return
    assert all(type(name) is str for name in read.variables)


@given(snapshots, st.integers(0, 60))
def test_bytes_that_were_cut_off_in_the_head_are_refused(snapshot, kept):
    raw = snapshot.to_bytes()
    head = len(raw) - len(snapshot.payload)
    with pytest.raises(SnapshotError):
        Snapshot.from_bytes(raw[: min(kept, head - 1)])


@pytest.mark.parametrize(
    "head",
    [b"[]", b"null", b"{}", b'{"variables":1,"skipped":[]}', b"[" * 5000, b'{"variables":[],"skipped":[["a"]]}',
     b'{"variables":[],"skipped":5}', b"\xff"],
)  # fmt: skip
def test_a_head_that_is_none_is_refused(head):
    with pytest.raises(SnapshotError):
        Snapshot.from_bytes(b"CLSN\x01" + len(head).to_bytes(4, "big") + head)


@pytest.mark.parametrize("data", [None, "text", 5, [], bytearray(b"CLSN"), memoryview(b"CLSN")])
def test_what_is_not_bytes_is_refused_as_no_snapshot(data):
    with pytest.raises(SnapshotError):
        Snapshot.from_bytes(data)
