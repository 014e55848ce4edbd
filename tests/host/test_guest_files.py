"""What a guest can have named is opened by descriptor, without links, whatever is renamed meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager

import pytest

from cloche.host import guest_files
from cloche.session.workspace import Workspace

SECRET = b"x" * 4321
SWAP = """
import os, sys
os.chdir(sys.argv[1])
print(flush=True)
while True:
    os.rename("folder", "away")
    os.rename("link", "folder")
    os.rename("folder", "link")
    os.rename("away", "folder")
"""


@pytest.fixture
def root(tmp_path):
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
def outside(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_bytes(SECRET)
    return tmp_path / "outside"


@pytest.fixture
def opened(root):
    descriptor = guest_files.open_folder(root)
    yield descriptor
    os.close(descriptor)


@contextmanager
def swapping(root, outside):
    """`root/folder` is by turns a folder with a small file and a link to a folder outside."""
    (root / "folder").mkdir()
    (root / "folder" / "file").write_bytes(b"own")
    (root / "link").symlink_to(outside)
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", SWAP, str(root)], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield
        finally:
            process.kill()


def test_a_list_of_files_never_has_a_size_from_behind_a_link_that_comes_and_goes(root, outside):
    space = Workspace(root, private=True)
    with swapping(root, outside):
        sizes = {info.size for _ in range(3000) for info in space.list()}
    assert sizes <= {len(b"own")}


def test_a_walk_never_enters_a_link_that_comes_and_goes(root, outside, opened):
    (outside / "only-there").write_bytes(b"")
    with swapping(root, outside):
        found = {path for _ in range(2000) for path, _ in guest_files.Walk(opened, max_entries=100, max_depth=8)}
    assert not [path for path in found if path.endswith("only-there")]


def test_a_walk_over_thousands_of_folders_needs_two_descriptors(root, opened):
    import resource

    for number in range(300):
        (root / f"{number}" / "inner").mkdir(parents=True)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir("/proc/self/fd")))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 4, hard))
    try:
        errors: list[OSError] = []
        walk = guest_files.Walk(opened, max_entries=10_000, max_depth=8, on_error=lambda _path, exc: errors.append(exc))
        found = [path for path, _ in walk]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (len(found), errors, walk.complete) == (600, [], True)


def test_a_walk_says_that_there_was_more(root, opened):
    for number in range(5):
        (root / f"{number}").write_bytes(b"")
    walk = guest_files.Walk(opened, max_entries=3, max_depth=8)
    assert (len(list(walk)), walk.complete) == (3, False)


def test_a_new_file_takes_no_name_that_is_a_link(root, outside, opened):
    (root / "made").symlink_to(outside / "made")
    with pytest.raises(FileExistsError):
        guest_files.create_file("made", opened)
    guest_files.write_file("made", opened, (b"data",))
    assert not (outside / "made").exists()
    assert (root / "made").read_bytes() == b"data"
    assert sorted(os.listdir(root)) == ["made"]


def test_a_file_is_read_up_to_its_limit(root, opened):
    (root / "file").write_bytes(SECRET)
    with pytest.raises(guest_files.FileTooLargeError):
        guest_files.read_file("file", opened, limit=len(SECRET) - 1)
    assert guest_files.read_file("file", opened, limit=len(SECRET)) == SECRET


def test_a_pipe_in_the_place_of_a_file_is_refused_at_once(root, opened):
    os.mkfifo(root / "pipe")
    with pytest.raises(guest_files.NotPlainFileError):
        guest_files.open_file("pipe", opened)


def test_a_folder_is_reached_through_no_link(root, outside, opened):
    (root / "link").symlink_to(outside)
    with pytest.raises(OSError, match="Not a directory"), guest_files.inner_folder(opened, ["link"]):
        pass
