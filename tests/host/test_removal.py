"""Removing what a guest left behind."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from cloche.host import late_removal, removal
from cloche.host.late_removal import late_removals
from cloche.host.removal import remove_tree


def dig(root: Path, depth: int) -> None:
    """Folders so deep that no path reaches the last one."""
    folder = os.open(root, os.O_RDONLY)
    try:
        for _ in range(depth):
            os.mkdir("d" * 20, dir_fd=folder)
            inner = os.open("d" * 20, os.O_RDONLY, dir_fd=folder)
            os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=inner))
            os.close(folder)
            folder = inner
    finally:
        os.close(folder)


def test_a_tree_deeper_than_any_path_or_stack_goes(tmp_path):
    root = tmp_path / "deep"
    root.mkdir()
    dig(root, 1500)
    remove_tree(root)
    assert not root.exists()


def test_a_wide_tree_with_pipes_links_and_odd_names_goes(tmp_path):
    root, outside = tmp_path / "wide", tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("kept")
    for number in range(20):
        (root / f"folder{number}/inner").mkdir(parents=True)
        (root / f"folder{number}/inner/a\nb\udcff").write_text("x")
    os.mkfifo(root / "pipe")
    (root / "link").symlink_to(outside)
    (root / "folder0/link").symlink_to(outside)
    (root / "dangling").symlink_to("nowhere")
    remove_tree(root)
    assert not root.exists()
    assert (outside / "file").read_text() == "kept"


def test_a_link_goes_and_its_target_stays(tmp_path):
    target = tmp_path / "target"
    target.mkdir()
    link = tmp_path / "link"
    link.symlink_to(target)
    remove_tree(link)
    assert not link.is_symlink()
    assert target.is_dir()


def test_what_is_not_there_is_no_trouble(tmp_path):
    remove_tree(tmp_path / "nothing")
    assert list(tmp_path.iterdir()) == []


def test_no_descriptor_stays_open(tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    for name in ("a", "b"):
        (tmp_path / name / "x/y").mkdir(parents=True)
        remove_tree(tmp_path / name)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody for whom permissions count")
def test_folders_whose_permissions_were_taken_away_go(tmp_path):
    root = tmp_path / "locked"
    for name, mode in (("none", 0), ("unreadable", 0o300), ("unwritable", 0o500), ("unsearchable", 0o600)):
        inner = root / "top" / name / "inner"
        inner.mkdir(parents=True)
        (inner / "file").write_text("x")
        os.chmod(inner, mode)
        os.chmod(inner.parent, mode)
    nobody = 65534
    for path, folders, files in os.walk(root):
        for name in ("", *folders, *files):
            os.chown(os.path.join(path, name), nobody, nobody)
    os.chown(root, nobody, nobody)
    os.chmod(root / "top", 0)
    os.chmod(root, 0)
    handle = os.open(tmp_path, os.O_RDONLY)
    os.fchown(handle, nobody, nobody)
    child = os.fork()
    if child == 0:
        try:
            os.fchdir(handle)
            os.setgroups([])
            os.setgid(nobody)
            os.setuid(nobody)
            remove_tree(Path("locked"))
            os._exit(1 if os.path.lexists("locked") else 0)
        finally:
            os._exit(2)
    os.close(handle)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_more_than_a_call_may_wait_for_goes_on_by_itself(tmp_path, monkeypatch):
    monkeypatch.setattr(late_removal, "MOMENT", -1.0)
    root, gone = tmp_path / "wide", threading.Event()
    for number in range(200):
        (root / f"folder{number}/inner").mkdir(parents=True)
    assert not late_removals.remove(root, gone.set)
    assert gone.wait(30)
    assert not root.exists()


def test_what_is_quick_is_gone_when_the_call_returns(tmp_path):
    root = tmp_path / "small"
    (root / "folder/inner").mkdir(parents=True)
    (root / "file").write_text("x")
    assert late_removals.remove(root)
    assert not root.exists()


def test_names_that_cannot_be_removed_do_not_keep_the_rest(tmp_path, monkeypatch):
    monkeypatch.setattr(removal, "_BATCH", 3)
    real = os.unlink

    def refuse(name, **more):
        if str(name).startswith("kept"):
            raise PermissionError
        real(name, **more)

    monkeypatch.setattr(os, "unlink", refuse)
    for number in range(5):
        (tmp_path / f"kept{number}").write_text("x")
        (tmp_path / f"file{number}").write_text("x")
    remove_tree(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"kept{number}" for number in range(5)]
