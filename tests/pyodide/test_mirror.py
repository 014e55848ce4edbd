"""The host's copy of a guest's files, without a guest: what is sent in, what is taken, what is left out."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from cloche.backends.pyodide.mirror import Mirror
from cloche.errors import ProtocolError
from cloche.session.workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "work").mkdir()
    return Workspace(tmp_path / "work", private=True)


@pytest.fixture
def mirror(workspace: Workspace) -> Mirror:
    return Mirror(workspace, quota=1_000_000)


def told(path: str, data: bytes, **more: Any) -> dict[str, Any]:
    return {"path": path, "data": base64.b64encode(data).decode(), **more}


def test_what_the_host_has_is_sent_once(mirror: Mirror, workspace: Workspace):
    workspace.write("in/a.txt", b"data")
    assert mirror.errands() == [
        ("put_file", {"path": "in", "folder": True}, None),
        ("put_file", {"path": "in/a.txt"}, b"data"),
    ]
    assert mirror.errands() == []


def test_what_the_host_removed_is_removed_from_the_inside_out(mirror: Mirror, workspace: Workspace):
    workspace.write("in/a.txt", b"data")
    mirror.errands()
    (workspace.root / "in" / "a.txt").unlink()
    (workspace.root / "in").rmdir()
    assert [(method, params["path"]) for method, params, _ in mirror.errands()] == [
        ("remove_file", "in/a.txt"),
        ("remove_file", "in"),
    ]


def test_what_came_from_the_guest_is_not_sent_back(mirror: Mirror, workspace: Workspace):
    mirror.take(told("out.txt", b"made"))
    assert workspace.read("out.txt", 100) == b"made"
    assert mirror.errands() == []


def test_a_file_in_pieces_is_stored_when_it_is_whole(mirror: Mirror, workspace: Workspace):
    mirror.take(told("big", b"one ", more=True))
    assert not (workspace.root / "big").exists()
    mirror.take(told("big", b"two"))
    assert workspace.read("big", 100) == b"one two"


def test_a_file_without_room_is_left_out_whole_and_said_to_be(mirror: Mirror, workspace: Workspace):
    for _ in range(20):
        mirror.take(told("huge", b"x" * 200_000, more=True))
    mirror.take(told("huge", b"end"))
    assert not (workspace.root / "huge").exists()
    assert not workspace.after_cell().complete
    mirror.take(told("small", b"fits"))
    assert workspace.after_cell().created == ("small",)


def test_a_link_is_kept_as_a_link_and_not_followed(mirror: Mirror, workspace: Workspace, tmp_path: Path):
    mirror.take({"path": "out", "link": str(tmp_path)})
    mirror.take(told("out/evil", b"x"))
    assert (workspace.root / "out").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["work"]


@pytest.mark.parametrize("path", ["../evil", "/etc/evil", "a/../../b", "x\0y", "\ud800", "a/" * 100 + "b"])
def test_a_path_that_leads_nowhere_is_left_out(mirror: Mirror, workspace: Workspace, tmp_path: Path, path: str):
    mirror.take(told(path, b"x"))
    assert list(workspace.root.rglob("*")) == []
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["work"]


@pytest.mark.parametrize(
    "params", [None, 5, [], {}, {"path": 5}, {"path": "a", "data": 5}, {"path": "a", "data": "*"}, {"path": "x" * 5000}]
)
def test_what_is_no_message_about_a_file_breaks_the_protocol(mirror: Mirror, params: Any):
    with pytest.raises(ProtocolError):
        mirror.take(params)


def entries(workspace: Workspace) -> int:
    return sum(1 for _ in workspace.root.rglob("*"))


FORGERIES: dict[str, Any] = {
    "folders": lambda n: [{"path": f"a{n}/b/c/d/e/f", "folder": True}],
    "files": lambda n: [told(f"a{n}/b/c/d/e/f", b"")],
    "links": lambda n: [{"path": f"a{n}/b/c/d/e/f", "link": "x"}],
    "other names for one folder": lambda n: [{"path": f"./a{n}//b/./c", "folder": True}],
    "folders that are said to be gone": lambda n: [
        {"path": f"a{n}/b", "folder": True}, {"path": f"a{n}", "gone": True}, {"path": f"a{n}/b", "gone": True},
    ],
    "a name that is too long, below others": lambda n: [{"path": f"a{n}/b/c/{'x' * 300}", "folder": True}],
    "a file that is too long, below others": lambda n: [told(f"a{n}/b/c/{'x' * 300}", b"")],
    "a link of many names": lambda n: [{"path": f"a{n}", "link": "x" * 4000}],
}  # fmt: skip


@pytest.mark.parametrize("forgery", FORGERIES)
def test_every_kind_of_frame_counts_with_the_folders_on_the_way(workspace: Workspace, forgery: str):
    mirror = Mirror(workspace, quota=1_000_000, most_entries=100)
    for number in range(300):
        for frame in FORGERIES[forgery](number):
            mirror.take(frame)
    assert 0 < entries(workspace) <= 100
    assert workspace.incomplete
    workspace.incomplete = False
    mirror.errands()
    mirror.take(told("one/more", b"") if entries(workspace) < 98 else {"path": "a0/b", "gone": True})
    assert entries(workspace) <= 100


def test_all_paths_together_are_bounded(workspace: Workspace, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("cloche.backends.pyodide.mirror.NAMES", 5000)
    mirror = Mirror(workspace, quota=1_000_000)
    for number in range(100):
        mirror.take({"path": f"{number:0>200}", "folder": True})
    assert entries(workspace) == 25


def test_what_was_removed_makes_room_again(workspace: Workspace):
    mirror = Mirror(workspace, quota=1_000_000, most_entries=10)
    for _ in range(50):
        mirror.take(told("folder/file", b"x" * 1000))
        mirror.take({"path": "folder/file", "gone": True})
        mirror.take({"path": "folder", "gone": True})
    assert not workspace.incomplete
    mirror.take(told("file", b"x"))
    assert workspace.read("file", 10) == b"x"
