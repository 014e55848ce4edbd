"""Killed at any moment of a save, a writer loses at most the save that was not acknowledged."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cloche.stores import EmbeddedStore

KILLS = 12

WRITER = """
import sys
from cloche.stores import EmbeddedStore

store = EmbeddedStore(sys.argv[1])
number, version = int(sys.argv[2]), sys.argv[3] or None
while True:
    number += 1
    # small in the row and large in a file, in turn
    data = b"%d:" % number + bytes([number % 251]) * (200_000 if number % 2 else 1_000)
    version = store.put("k", data, owner="me", if_match=version, if_none_match=version is None).version
    print(number, flush=True)
"""


def read(store: EmbeddedStore) -> tuple[int, str]:
    """The number that was saved last, whole, and its version."""
    stored = store.get("k", owner="me")
    number = int(stored.data.partition(b":")[0])
    assert stored.data == b"%d:" % number + bytes([number % 251]) * (200_000 if number % 2 else 1_000)
    return number, stored.entry.version


def test_kill_nine_during_saves_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    chance = random.Random(7)
    number, version = 0, ""
    for _ in range(KILLS):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, folder, str(number), version], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        for _ in range(chance.randrange(1, 12)):
            acknowledged = int(writer.stdout.readline())
        strike = time.perf_counter() + chance.random() * 0.012  # anywhere in the next save or two
        while time.perf_counter() < strike:
            pass
        writer.send_signal(signal.SIGKILL)
        rest = writer.communicate()[0].split()
        acknowledged = int(rest[-1]) if rest else acknowledged
        with EmbeddedStore(folder) as store:
            number, version = read(store)
            assert number in (acknowledged, acknowledged + 1)
            store.collect()
            assert read(store) == (number, version)
            assert len(list(folder.glob("blobs/*/*/[0-9a-f]*"))) == number % 2, "a file that nobody refers to"


def test_what_a_killed_writer_left_is_collected(tmp_path: Path) -> None:
    import os

    with EmbeddedStore(tmp_path / "store") as store:
        store.put("k", bytes(100_000), owner="me")
        (used,) = (tmp_path / "store").glob("blobs/*/*/*")
        orphan, half, young = used.parent / ("ab" * 32), used.parent / ".new-1", used.parent / ".new-2"
        for path in (orphan, half, young):
            path.write_bytes(b"12345")
        os.utime(half, (1, 1))
        done = store.collect()
        assert (done.entries, done.leftovers, done.freed_bytes) == (0, 2, 10)
        assert young.exists(), "somebody may be writing it"
        assert store.get("k", owner="me").data == bytes(100_000)


def test_a_file_that_is_collected_before_the_row_is_switched_is_written_again(tmp_path: Path) -> None:
    with EmbeddedStore(tmp_path / "store") as store, EmbeddedStore(tmp_path / "store") as collector:
        write, times = store._blobs.write, []

        def write_and_lose(owner: str, sha256: str, data: bytes) -> None:
            write(owner, sha256, data)
            times.append(1)
            if len(times) == 1:
                assert collector.collect().leftovers == 1

        store._blobs.write = write_and_lose  # type: ignore[method-assign]  # the moment between the two steps
        store.put("k", bytes(100_000), owner="me")
        assert len(times) == 2
        assert store.get("k", owner="me").data == bytes(100_000)


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno
    import os

    from cloche.errors import StoreError

    with EmbeddedStore(tmp_path / "store") as store:
        store.put("k", b"before" * 10_000, owner="me")

        def full(*_: object) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as patched:
            patched.setattr("os.fsync", full)
            with pytest.raises(StoreError, match="No space left"):
                store.put("k", b"after" * 10_000, owner="me")
        assert store.get("k", owner="me").data == b"before" * 10_000
        assert not list((tmp_path / "store").glob("blobs/*/*/.new-*"))
        assert store.collect().leftovers == 0


def test_a_change_that_was_made_is_not_said_to_have_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of the value before is removed after the switch; when that fails, it is a leftover and nothing more."""

    def fail(*_: object) -> None:
        raise OSError("no")

    with EmbeddedStore(tmp_path / "store") as store:
        store.put("k", b"before" * 10_000, owner="me")
        with monkeypatch.context() as patched:
            patched.setattr("cloche.stores.blobs.BlobFolder.remove", fail)
            store.put("k", b"after" * 10_000, owner="me")
            assert store.get("k", owner="me").data == b"after" * 10_000
            assert store.delete("k", owner="me")
        assert store.collect().leftovers == 2


def test_a_full_disk_can_be_emptied_again(tmp_path: Path) -> None:
    """Really full: in a file system of its own, where there is the right to mount one."""
    code = """
import os, sys
from cloche.errors import StoreError
from cloche.stores import EmbeddedStore

store, kept = EmbeddedStore(sys.argv[1] + "/store"), 0
try:
    while True:
        store.put(f"k{kept}", os.urandom(500_000), owner="me")
        kept += 1
except StoreError as exc:
    assert "make room" in exc.remedy, exc
assert all(len(store.get(f"k{n}", owner="me").data) == 500_000 for n in range(kept))
for number in range(kept):
    assert store.delete(f"k{number}", owner="me")
store.put("again", os.urandom(500_000), owner="me")
print("emptied", kept > 2)
"""
    mounted = 'mount -t tmpfs -o size=6m none "$1" && exec "$2" -c "$3" "$1"'
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mounted, "sh", tmp_path, sys.executable, code],
        capture_output=True,
        text=True,
        check=False,
    )
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip("no file system can be mounted here")
    assert done.stdout == "emptied True\n", done.stderr


def test_a_store_that_was_opened_before_a_fork_works_on_both_sides(tmp_path: Path) -> None:
    code = """
import os, sys
from cloche.stores import EmbeddedStore

store = EmbeddedStore(sys.argv[1])
store.put("k", b"1", owner="me")
child = os.fork()
if child == 0:
    store.put("child", store.get("k", owner="me").data + b"2", owner="me")
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
store.put("k", b"3", owner="me")
print(store.get("child", owner="me").data, store.get("k", owner="me").data)
"""
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "store"], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("b'12' b'3'\n", "")


def test_many_processes_open_a_new_store_at_once(tmp_path: Path) -> None:
    code = """
import sys
from cloche.stores import EmbeddedStore

sys.stdin.read()
EmbeddedStore(sys.argv[1]).put(sys.argv[2], b"x" * 40_000, owner="me")
"""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, tmp_path / "store", str(number)],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    for process in started:
        assert process.stdin is not None
        process.stdin.close()
    for process in started:
        assert process.stderr is not None
        assert process.stderr.read() == ""
        assert process.wait() == 0
        process.stderr.close()
    with EmbeddedStore(tmp_path / "store") as store:
        assert len(store.list(owner="me")) == 4


def test_only_the_user_can_read_what_is_kept(tmp_path: Path) -> None:
    with EmbeddedStore(tmp_path / "store") as store:
        store.put("k", bytes(100_000), owner="me")
        for path in [tmp_path / "store", *(tmp_path / "store").rglob("*")]:
            assert path.stat().st_mode & 0o077 == 0, path
