"""A folder whose every name belongs to the guest: what changed in it, and safe reading and writing."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloche import WorkspaceFileError
from cloche.session import workspace as workspace_module
from cloche.session.workspace import Workspace

LIMIT = 1_000_000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def space(root: Path) -> Workspace:
    return Workspace(root, private=True)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file outside that no path of the guest's may reach."""
    path = tmp_path / "secret.txt"
    path.write_text("secret")
    return path


# -- single files ------------------------------------------------------------------------------


def test_what_was_put_can_be_read(space, root):
    space.write("a/b/c.bin", b"\0\xff")
    assert space.read("a/b/c.bin", LIMIT) == b"\0\xff"
    assert (root / "a/b/c.bin").read_bytes() == b"\0\xff"


@pytest.mark.parametrize("path", ["./a.txt", "a.txt/", ".//a.txt", "/app/a.txt"])
def test_other_spellings_of_a_path_mean_the_same_file(space, path):
    space.write("a.txt", b"x")
    assert space.read(path, LIMIT) == b"x"


@pytest.mark.parametrize(
    "path",
    ["", ".", "/", "..", "../secret.txt", "a/../../secret.txt", "a/..", "/etc/passwd", "/app/../x", "a\0b",
     "a/" * 100 + "b", "//app/x", "/application", "/app", "/app//etc/passwd"],
)  # fmt: skip
@pytest.mark.parametrize("action", ["read", "write"])
def test_a_path_that_leads_out_or_nowhere_is_refused(space, secret, path, action):
    with pytest.raises(WorkspaceFileError):
        space.write(path, b"x") if action == "write" else space.read(path, LIMIT)
    assert secret.read_text() == "secret"


@pytest.mark.parametrize("name", ["\ud800", "a/\udfff\ud800/b", "x" * 300, "a/" + "é" * 200])
@pytest.mark.parametrize("action", ["read", "write"])
def test_a_name_that_the_file_system_cannot_have_is_refused_as_such(space, name, action):
    with pytest.raises(WorkspaceFileError):
        space.write(name, b"x") if action == "write" else space.read(name, LIMIT)


@pytest.mark.parametrize("name", ["a\nb", "\x1b[31m", "  ", "-rf", "*", "a\udcffb", "…"])
def test_odd_names_are_names(space, name):
    space.write(name, b"x")
    assert space.read(name, LIMIT) == b"x"
    assert [file.path for file in space.list()] == [name]


def test_a_missing_file_is_said_to_be_missing(space):
    for path in ("a.txt", "a/b.txt"):
        with pytest.raises(WorkspaceFileError, match="does not exist"):
            space.read(path, LIMIT)


def test_a_link_is_not_followed_when_read(space, root, secret):
    (root / "link").symlink_to(secret)
    (root / "outside").symlink_to(secret.parent)
    for path in ("link", "outside/secret.txt"):
        with pytest.raises(WorkspaceFileError, match="not a plain file"):
            space.read(path, LIMIT)


def test_a_link_is_replaced_and_not_written_through(space, root, secret):
    (root / "link").symlink_to(secret)
    space.write("link", b"mine")
    assert secret.read_text() == "secret"
    assert space.read("link", LIMIT) == b"mine"


def test_a_folder_behind_a_link_is_not_written_to(space, root, secret):
    (root / "outside").symlink_to(secret.parent)
    with pytest.raises(WorkspaceFileError):
        space.write("outside/planted.txt", b"x")
    assert not (secret.parent / "planted.txt").exists()


def test_a_file_with_a_second_name_is_replaced_and_its_other_name_keeps_its_bytes(space, root, secret):
    os.link(secret, root / "twin")
    space.write("twin", b"mine")
    assert secret.read_text() == "secret"


def test_pipes_sockets_devices_and_folders_are_not_files(space, root):
    os.mkfifo(root / "pipe")
    (root / "folder").mkdir()
    (root / "zero").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as server:
        home = os.getcwd()
        os.chdir(root)  # a socket's path is short
        try:
            server.bind("socket")
        finally:
            os.chdir(home)
        for name in ("pipe", "folder", "zero", "socket"):
            with pytest.raises(WorkspaceFileError):
                space.read(name, LIMIT)
        assert space.list() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a device")
def test_a_device_is_not_read(space, root):
    try:
        os.mknod(root / "zero", 0o20666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("this machine lets nobody make a device")
    with pytest.raises(WorkspaceFileError):
        space.read("zero", LIMIT)


def test_a_folder_is_not_replaced_by_a_file(space, root):
    (root / "folder").mkdir()
    with pytest.raises(WorkspaceFileError):
        space.write("folder", b"x")
    assert sorted(os.listdir(root)) == ["folder"], "no temporary file stays"


def test_a_file_in_the_way_of_a_folder_is_reported(space):
    space.write("a", b"x")
    with pytest.raises(WorkspaceFileError):
        space.write("a/b", b"x")


def test_a_file_over_the_limit_is_not_read(space, root):
    (root / "a").write_bytes(b"x" * 101)
    assert space.read("a", 101) == b"x" * 101
    with pytest.raises(WorkspaceFileError, match="101 bytes"):
        space.read("a", 100)


def test_a_sparse_giant_is_refused_by_its_size(space, root):
    with open(root / "giant", "wb") as handle:
        handle.truncate(1 << 40)
    with pytest.raises(WorkspaceFileError, match=str(1 << 40)):
        space.read("giant", LIMIT)


def test_a_file_that_claims_no_size_and_has_bytes_is_bounded(tmp_path):
    proc = Workspace(Path(f"/proc/{os.getpid()}"), private=False)
    assert os.stat("/proc/self/maps").st_size == 0
    with pytest.raises(WorkspaceFileError, match="limit of 10 bytes"):
        proc.read("maps", 10)


def test_a_workspace_that_the_guest_removed_or_replaced_is_reported(space, root, secret):
    root.rmdir()
    for _ in range(2):
        with pytest.raises(WorkspaceFileError):
            space.write("a", b"x")
        with pytest.raises(WorkspaceFileError):
            space.read("secret.txt", LIMIT)
        if not root.is_symlink():
            root.symlink_to(secret.parent)
    assert not (secret.parent / "a").exists()


# -- what changed ------------------------------------------------------------------------------


def test_created_modified_and_deleted_files_are_told_apart(space, root):
    (root / "keep").write_text("k")
    (root / "change").write_text("c")
    (root / "drop").write_text("d")
    space.before_cell()
    assert space.after_cell().created == ("change", "drop", "keep")
    (root / "change").write_text("longer")
    (root / "drop").unlink()
    (root / "sub").mkdir()
    (root / "sub/new").write_text("n")
    space.before_cell()
    delta = space.after_cell()
    assert (delta.created, delta.modified, delta.deleted) == (("sub/new",), ("change",), ("drop",))
    assert delta.complete


def test_a_cell_that_does_nothing_changes_nothing(space, root):
    (root / "a").write_text("a")
    space.after_cell()
    for _ in range(3):
        delta = space.after_cell()
        assert (delta.created, delta.modified, delta.deleted) == ((), (), ())


def test_files_of_every_cell_are_seen_however_quickly_they_come(space, root):
    for number in range(200):
        space.before_cell()
        (root / f"{number}").write_text("x")
        assert space.after_cell().created == (f"{number}",)
        (root / f"{number}").unlink()
        assert space.after_cell().deleted == (f"{number}",)


def test_a_change_of_content_within_one_tick_of_the_clock_is_seen(space, root):
    for number in range(300):
        space.before_cell()
        (root / "a").write_text(f"{number:5}")
        delta = space.after_cell()
        assert delta.created + delta.modified == ("a",), number


def test_a_file_that_was_replaced_by_another_of_the_same_size_is_modified(space, root):
    (root / "a").write_text("1")
    space.after_cell()
    (root / "b").write_text("2")
    (root / "b").rename(root / "a")
    assert space.after_cell().modified == ("a",)


def test_what_the_host_put_there_is_not_the_next_cells_doing(space, root):
    space.write("mine.txt", b"x")
    space.write("./sub//mine.txt", b"x")
    assert space.after_cell() == workspace_module.Delta(total_bytes=space.after_cell().total_bytes)
    (root / "mine.txt").write_text("changed")
    assert space.after_cell().modified == ("mine.txt",)


def test_a_folder_that_was_given_may_change_between_cells(root):
    given_space = Workspace(root, private=False)
    (root / "before").write_text("x")
    given_space.before_cell()
    (root / "during").write_text("x")
    assert given_space.after_cell().created == ("during",)
    (root / "between").write_text("x")
    (root / "before").unlink()
    given_space.before_cell()
    delta = given_space.after_cell()
    assert (delta.created, delta.deleted) == ((), ())


def test_a_link_is_listed_as_created_but_not_followed(space, root, secret):
    (root / "link").symlink_to(secret.parent)
    assert space.after_cell().created == ("link",)


def test_a_tree_without_end_is_looked_at_up_to_a_bound(space, root, monkeypatch):
    monkeypatch.setattr(workspace_module, "MAX_ENTRIES", 50)
    space.after_cell()
    for number in range(100):
        (root / f"{number:03}").write_text("")
    delta = space.after_cell()
    assert not delta.complete
    assert len(delta.created) <= 50
    for number in range(60, 100):
        (root / f"{number:03}").unlink()
    delta = space.after_cell()
    assert delta.deleted == (), "what was not seen may still be there"


def test_very_deep_folders_are_looked_at_up_to_a_bound(space, root):
    home = os.getcwd()
    os.chdir(root)
    try:
        for _ in range(300):
            os.mkdir("d")
            os.chdir("d")
        Path("deep.txt").write_text("x")
    finally:
        os.chdir(home)
    assert space.after_cell().created == ()


def test_a_workspace_that_was_removed_counts_its_files_as_deleted(space, root):
    (root / "a").write_text("x")
    space.after_cell()
    (root / "a").unlink()
    root.rmdir()
    assert space.after_cell().deleted == ("a",)


def test_the_size_is_what_lies_on_disk(space, root):
    with open(root / "sparse", "wb") as handle:
        handle.truncate(1 << 30)
    (root / "full").write_bytes(b"x" * 100_000)
    total = space.after_cell().total_bytes
    assert 100_000 <= total < 10_000_000


def test_the_list_is_sorted_and_has_plain_files_only(space, root):
    space.write("b/x", b"12")
    space.write("a", b"1")
    (root / "link").symlink_to(root / "a")
    os.mkfifo(root / "pipe")
    assert [(file.path, file.size) for file in space.list()] == [("a", 1), ("b/x", 2)]


def test_looking_at_the_list_does_not_hide_what_a_cell_did(space, root):
    (root / "new").write_text("x")
    space.list()
    assert space.after_cell().created == ("new",)


def test_emptying_removes_what_is_inside_a_private_folder_only(space, root, secret):
    space.write("a/b", b"x")
    (root / "link").symlink_to(secret.parent)
    space.empty()
    assert os.listdir(root) == []
    assert secret.exists()
    assert space.after_cell().deleted == ()
    theirs = Workspace(root, private=False)
    theirs.write("a", b"x")
    theirs.empty()
    assert os.listdir(root) == ["a"]


def test_a_private_folder_is_made_anew_where_the_guest_took_it_away(space, root, secret):
    root.rmdir()
    space.ensure()
    assert root.is_dir()
    root.rmdir()
    root.symlink_to(secret.parent)
    space.ensure()
    assert not root.is_symlink()
    assert root.is_dir()
    assert secret.exists()


@given(st.lists(st.sampled_from(["write", "same", "delete", "replace", "nothing"]), max_size=12))
def test_the_sum_of_all_changes_is_what_is_there(tmp_path_factory, steps):
    root = tmp_path_factory.mktemp("changes")
    space = Workspace(root, private=True)
    there: set[str] = set()
    for number, step in enumerate(steps):
        if step == "write":
            (root / f"f{number}").write_text("x")
        elif step == "delete" and there:
            (root / min(there)).unlink()
        elif step == "replace" and there:
            (root / "tmp").write_text("y")
            (root / "tmp").rename(root / min(there))
        delta = space.after_cell()
        there = (there | set(delta.created)) - set(delta.deleted)
        assert there == set(os.listdir(root))
