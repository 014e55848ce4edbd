"""The portable file: whole when it is written, and not believed when it is read."""

from __future__ import annotations

import io
import json
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloche.errors import SessionFileError, SnapshotError
from cloche.journal import SessionFile, read_summary
from cloche.journal.container import MOST_MEMBERS
from cloche.snapshot import Snapshot, SnapshotEntry, SnapshotPiece


def test_what_was_written_is_read(recorded: SessionFile, tmp_path: Path) -> None:
    recorded.write(tmp_path / "s.cloche")
    assert SessionFile.read(tmp_path / "s.cloche") == recorded
    assert read_summary(tmp_path / "s.cloche") == recorded.summary


def test_the_same_session_gives_the_same_bytes(recorded: SessionFile) -> None:
    assert recorded.to_bytes() == recorded.to_bytes() == SessionFile.from_bytes(recorded.to_bytes()).to_bytes()


def test_it_can_be_looked_into_with_ordinary_tools(recorded: SessionFile) -> None:
    with zipfile.ZipFile(io.BytesIO(recorded.to_bytes())) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        assert (manifest["format"], manifest["version"]) == ("cloche-session", 1)
        assert len(archive.read("journal.jsonl").splitlines()) == len(recorded.summary.journal)


def test_writing_replaces_as_a_whole_and_leaves_nothing_beside(recorded: SessionFile, tmp_path: Path) -> None:
    path = tmp_path / "s.cloche"
    path.write_bytes(b"before")
    recorded.write(path)
    assert [it.name for it in tmp_path.iterdir()] == ["s.cloche"]
    assert path.stat().st_mode & 0o077 == 0


def test_a_write_that_fails_leaves_what_was_there(
    recorded: SessionFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.cloche"
    path.write_bytes(b"before")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        with pytest.raises(SessionFileError, match="No space left"):
            recorded.write(path)
    assert path.read_bytes() == b"before"
    assert [it.name for it in tmp_path.iterdir()] == ["s.cloche"]


def test_a_file_that_is_not_there_is_an_error_of_ours(tmp_path: Path) -> None:
    for place in (tmp_path / "none", tmp_path):
        with pytest.raises(SessionFileError, match="cannot be read"):
            SessionFile.read(place)


# -- files that somebody else made -----------------------------------------------------------------


def altered(session: SessionFile, change: Callable[[dict[str, Any], dict[str, bytes]], object]) -> bytes:
    """The file with another manifest or other parts; sizes and digests fit again."""
    import hashlib

    with zipfile.ZipFile(io.BytesIO(session.to_bytes())) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(parts.pop("manifest.json"))
    change(manifest, parts)
    manifest["parts"] = {
        name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in parts.items()
    } | manifest.pop("lies", {})
    return zipped({"manifest.json": json.dumps(manifest).encode(), **parts})


def zipped(parts: dict[str, bytes], **options: Any) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, **options) as archive:
        for name, data in parts.items():
            archive.writestr(name, data, zipfile.ZIP_STORED if len(data) > 1 << 20 else zipfile.ZIP_DEFLATED)
    return target.getvalue()


def refuse(data: bytes, match: str | None = None) -> None:
    with pytest.raises(SessionFileError, match=match):
        SessionFile.from_bytes(data)


@pytest.mark.parametrize(
    "path", ["../evil", "/etc/passwd", "a/../../b", "a//b", "./a", "a\0b", "", "..", "x/" * 70 + "x"]
)
def test_a_path_that_leads_out_of_the_workspace_is_refused(recorded: SessionFile, path: str) -> None:
    refuse(altered(recorded, lambda manifest, parts: manifest.update(artifacts=["out.txt", path])), "outside")


def test_a_path_that_is_listed_twice_is_refused(recorded: SessionFile) -> None:
    refuse(altered(recorded, lambda manifest, parts: manifest.update(artifacts=["a", "a"])), "not a whole")


def test_a_file_of_a_later_version_says_what_to_do(recorded: SessionFile) -> None:
    refuse(altered(recorded, lambda manifest, parts: manifest.update(version=2)), r"newer(.|\n)*pip install --upgrade")


def test_a_zip_file_of_something_else_is_refused() -> None:
    refuse(zipped({"a": b"b"}), "manifest")
    refuse(zipped({"manifest.json": b"{}"}), "something else")
    refuse(b"", "too short")
    refuse(b"not a zip file at all" * 100, "not a whole")


def test_parts_that_are_not_listed_are_refused(recorded: SessionFile) -> None:
    data = altered(recorded, lambda manifest, parts: manifest.update(lies={"more": {"size": 1, "sha256": ""}}))
    refuse(data, "not those that it lists")


def test_a_part_that_gives_more_than_it_claims_is_stopped(recorded: SessionFile) -> None:
    """A megabyte of zeros in a kilobyte, said to be small."""

    def swell(manifest: dict[str, Any], parts: dict[str, bytes]) -> None:
        parts["state.bin"] = bytes(1 << 20)
        manifest["lies"] = {"state.bin": {"size": 1000, "sha256": "0" * 64}}

    refuse(altered(recorded, swell), "claims 1048576 bytes; 1000 is the most")


def test_a_part_whose_size_lies_in_the_zip_too_is_stopped(recorded: SessionFile) -> None:
    def swell(manifest: dict[str, Any], parts: dict[str, bytes]) -> None:
        parts["state.bin"] = bytes(999_999)
        manifest["lies"] = {"state.bin": {"size": 1000, "sha256": "0" * 64}}

    data = altered(recorded, swell)
    refuse(data.replace(struct.pack("<L", 999_999), struct.pack("<L", 1000)), "not a whole")


def test_a_journal_of_a_gigabyte_is_not_unpacked(recorded: SessionFile, monkeypatch: pytest.MonkeyPatch) -> None:
    data = altered(recorded, lambda manifest, parts: parts.update({"journal.jsonl": b"{}\n" * 1000}))
    monkeypatch.setattr("cloche.journal.session_file._JOURNAL_BYTES", 1000)
    refuse(data, "1000 is the most")


@pytest.mark.parametrize("line", [b'{"kind": "undo"}\n' * 200_001, b'{"kind": [' + b"[]," * 5_000_000 + b"0]}"])
def test_a_small_file_that_would_fill_the_memory_is_refused(recorded: SessionFile, line: bytes) -> None:
    data = altered(recorded, lambda manifest, parts: parts.update({"journal.jsonl": line}))
    refuse(data, "longer than any")


@pytest.mark.parametrize("number", [1, 100])
def test_a_small_file_does_not_load_as_a_large_session(recorded: SessionFile, number: int) -> None:
    """A hundred megabytes of zeros in a hundred kilobytes, in one part, or in parts of which each is allowed."""
    zeros = bytes((100 << 20) // number)
    data = packed({f"inputs/{place}": zeros for place in range(number)})
    assert len(data) < 200_000
    refuse(data, "would take 104857600 bytes when it is unpacked; ")


def test_a_session_of_many_small_files_is_still_read(recorded: SessionFile) -> None:
    """What cannot be compressed within the bounds is stored as it is."""
    files = {f"{number}.txt": bytes(1 << 20) for number in range(70)}
    summary = replace(recorded.summary, artifacts={name: len(data) for name, data in files.items()})
    data = replace(recorded, summary=summary, artifacts=files).to_bytes()
    assert SessionFile.from_bytes(data).artifacts == files


def packed(parts: dict[str, bytes]) -> bytes:
    """All of them compressed."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return target.getvalue()


def test_a_journal_that_could_not_be_read_is_not_written(
    recorded: SessionFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cloche.journal.session_file._MOST_EVENTS", 3)
    with pytest.raises(SessionFileError, match="begin another session"):
        recorded.to_bytes()


def test_more_parts_than_can_be_are_refused_before_they_are_read() -> None:
    refuse(zipped({f"{number}": b"" for number in range(MOST_MEMBERS + 1)}), "parts")


def test_parts_that_overlap_are_refused(recorded: SessionFile) -> None:
    """Each entry of the directory points to the same data: unpacked, it is many times the file."""
    data = zipped({"a": bytes(range(256)) * 400, "b": bytes(range(255, -1, -1)) * 400})
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        first = archive.infolist()[0]
    start = data.index(b"PK\x01\x02")
    entry = bytearray(data[start : data.index(b"PK\x01\x02", start + 4)])
    struct.pack_into("<L", entry, 20, 90_000)
    directory = bytes(entry) * 50
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 50, 50, len(directory), start, 0)
    assert first.filename == "a"
    refuse(data[:start] + directory + end, "not a whole")


def test_an_encrypted_part_is_refused(recorded: SessionFile) -> None:
    data = bytearray(recorded.to_bytes())
    place = data.index(b"PK\x01\x02")
    data[place + 8] |= 1
    refuse(bytes(data), "encrypted")


@pytest.mark.parametrize(
    "change",
    [
        {"name": 7}, {"created": "now"}, {"saved": None}, {"packages": {"a": 1}}, {"limits": {"timeout_ms": "long"}},
        {"artifacts": "all"}, {"artifacts": [1]}, {"variables": [{"type": "int"}]}, {"skipped": ["x"]},
        {"tools": [{"name": "f"}]}, {"bridges": [1]}, {"left_out": {}}, {"version": "1"},
        {"created": 1e400},
    ],
)  # fmt: skip
def test_a_manifest_with_something_else_in_it_is_refused(recorded: SessionFile, change: dict[str, Any]) -> None:
    refuse(altered(recorded, lambda manifest, parts: manifest.update(change)))


@pytest.mark.parametrize(
    "line",
    [
        b"[]", b"7", b"{", b'{"kind": "cell"}', b'{"kind": "sing"}', b"[" * 100_000, b'{"kind": "file", "path": 7}',
        b'{"kind": "variable", "name": []}', b'{"kind": "context", "text": ["x"]}', b'{"kind": "restore", "size": "1"}',
        b'{"kind": "file", "path": "a", "size": 1, "input": {}}',
    ],
)  # fmt: skip
def test_a_journal_with_something_else_in_it_is_refused(recorded: SessionFile, line: bytes) -> None:
    refuse(altered(recorded, lambda manifest, parts: parts.update({"journal.jsonl": line})))


def test_a_state_that_is_none_is_refused(recorded: SessionFile) -> None:
    data = altered(recorded, lambda manifest, parts: parts.update({"state.bin": b"pickle me"}))
    with pytest.raises(SnapshotError):
        SessionFile.from_bytes(data)


@settings(max_examples=60)
@given(place=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
def test_a_file_with_one_wrong_byte_is_read_rightly_or_refused(recorded: SessionFile, place: float, flip: int) -> None:
    data = bytearray(recorded.to_bytes())
    data[int(place * len(data))] ^= flip
    try:
        read = SessionFile.from_bytes(bytes(data))
    except (SessionFileError, SnapshotError):
        return
    assert read == recorded


@settings(max_examples=30)
@given(share=st.floats(0, 1, exclude_max=True))
def test_a_file_that_was_cut_is_refused(recorded: SessionFile, share: float) -> None:
    data = recorded.to_bytes()
    with pytest.raises(SessionFileError):
        SessionFile.from_bytes(data[: int(share * len(data))])


def test_reading_a_hostile_state_runs_nothing_of_it_in_the_host(recorded: SessionFile, tmp_path: Path) -> None:
    """What is in the state would write a file, were it unpickled here."""
    bomb = b"cos\nsystem\n(S'touch " + str(tmp_path / "ran").encode() + b"'\ntR."
    hostile = Snapshot((SnapshotEntry(("x",), ("int",), (SnapshotPiece(bomb),)),)).to_bytes()
    data = altered(recorded, lambda manifest, parts: parts.update({"state.bin": hostile}))
    (tmp_path / "s.cloche").write_bytes(data)
    code = "import sys; from cloche.journal import SessionFile; SessionFile.read(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, tmp_path / "s.cloche"], capture_output=True, check=True)
    assert not (tmp_path / "ran").exists()
