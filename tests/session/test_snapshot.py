"""The container of a snapshot: names and sizes that the host may read, and pieces that it never opens."""

from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloche import Skipped, Snapshot, SnapshotError
from cloche.snapshot import SnapshotEntry, SnapshotPiece

names = st.text(st.characters())
several = st.lists(names, max_size=3).map(tuple)
pieces = st.lists(st.builds(SnapshotPiece, st.binary(max_size=50)), max_size=3).map(tuple)
snapshots = st.builds(
    Snapshot,
    entries=st.lists(
        st.builds(
            SnapshotEntry, several, several, pieces, st.lists(st.tuples(st.booleans(), pieces), max_size=2).map(tuple)
        ),
        max_size=3,
    ).map(tuple),
    skipped=st.lists(st.builds(Skipped, names, names), max_size=3).map(tuple),
    python=st.sampled_from(["3.11.2", ""]),
)


@given(snapshots)
def test_it_comes_back_from_its_bytes(snapshot):
    assert Snapshot.from_bytes(snapshot.to_bytes()) == snapshot


@given(st.binary(max_size=200))
def test_any_other_bytes_are_an_error(data):
    with pytest.raises(SnapshotError):
        Snapshot.from_bytes(data)


@given(snapshots, st.data())
def test_a_changed_byte_is_noticed_wherever_it_is(snapshot, data):
    raw = bytearray(snapshot.to_bytes())
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(SnapshotError):
        Snapshot.from_bytes(bytes(raw))


@given(snapshots, st.data())
def test_bytes_that_were_cut_off_are_refused(snapshot, data):
    raw = snapshot.to_bytes()
    with pytest.raises(SnapshotError):
        Snapshot.from_bytes(raw[: data.draw(st.integers(0, len(raw) - 1))])


@given(snapshots, st.binary(min_size=1, max_size=5))
def test_bytes_that_have_something_after_them_are_refused(snapshot, more):
    with pytest.raises(SnapshotError):
        Snapshot.from_bytes(snapshot.to_bytes() + more)


def as_file(head: bytes, version: int = 2) -> bytes:
    return b"CLSN" + bytes([version]) + len(head).to_bytes(4, "big") + hashlib.sha256(head).digest() + head


ENTRY: dict[str, object] = {"names": [], "types": [], "stream": [], "buffers": []}
HEAD = {"python": "", "skipped": [], "pieces": [], "entries": [ENTRY]}


@pytest.mark.parametrize(
    "head",
    [
        [], None, {}, {**HEAD, "skipped": 5}, {**HEAD, "skipped": [["a"]]}, {**HEAD, "pieces": [[1, "00"]]},
        {**HEAD, "pieces": [[-1, "00"]]}, {**HEAD, "pieces": [["a", "00"]]}, {**HEAD, "entries": [{}]},
        {**HEAD, "entries": [{**ENTRY, "stream": [0]}]}, {**HEAD, "entries": [{**ENTRY, "stream": [-1]}]},
        {**HEAD, "entries": [{**ENTRY, "stream": ["a"]}]}, {**HEAD, "entries": [{**ENTRY, "buffers": [[True]]}]},
        {**HEAD, "entries": [{**ENTRY, "names": [5]}]}, {**HEAD, "entries": [{**ENTRY, "names": "ab"}]},
    ],
)  # fmt: skip
def test_a_head_that_is_none_is_refused(head):
    with pytest.raises(SnapshotError):
        Snapshot.from_bytes(as_file(json.dumps(head).encode()))


def test_the_head_of_these_tests_is_one_where_nothing_is_wrong():
    assert Snapshot.from_bytes(as_file(json.dumps(HEAD).encode())).variables == ()


@pytest.mark.parametrize("head", [b"[" * 5000, b"\xff", b""])
def test_a_head_that_is_not_json_is_refused(head):
    with pytest.raises(SnapshotError):
        Snapshot.from_bytes(as_file(head))


def test_a_snapshot_of_another_version_is_refused_with_both_versions():
    with pytest.raises(SnapshotError) as caught:
        Snapshot.from_bytes(as_file(json.dumps(HEAD).encode(), version=3))
    assert "version 3" in str(caught.value.cause)


@pytest.mark.parametrize("data", [None, "text", 5, [], bytearray(b"CLSN"), memoryview(b"CLSN")])
def test_what_is_not_bytes_is_refused_as_no_snapshot(data):
    with pytest.raises(SnapshotError):
        Snapshot.from_bytes(data)


def test_pieces_that_are_equal_are_kept_once():
    big = SnapshotPiece(bytes(10_000))
    entry = SnapshotEntry(("a", "b"), ("x", "y"), (big,), ((False, (SnapshotPiece(bytes(10_000)),)),))
    assert len(Snapshot((entry,)).to_bytes()) < 11_000
