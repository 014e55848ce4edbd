"""Objects that were dropped without being closed: their clean-up hangs nobody, and is done."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import pytest
from tests.waiting import until_gone

from cloche import create_sandbox
from cloche.conformance.waiting import wait_until
from cloche.factory import probe_backends
from cloche.host.abandoned import CleanupThread
from cloche.session.call_loop import Bell

ROOT = Path(__file__).parents[2]
WALLS = ("native", "jail", "wasm", "inprocess", "pyodide")
SHORT = {("native", "async"), ("jail", "sync"), ("wasm", "sync")}
"""Those that are tried in `make test`."""


class Thing:
    """Something that can be referred to weakly, and refer to itself."""

    itself: Thing


@pytest.mark.timeout(170)
@pytest.mark.parametrize(
    ("backend", "api"),
    [
        pytest.param(wall, api, marks=() if (wall, api) in SHORT else pytest.mark.slow)
        for wall in WALLS
        for api in ("sync", "async")
    ],
)
def test_a_collection_in_any_lock_hangs_nobody(backend: str, api: str) -> None:
    if not probe_backends()[backend].available:
        pytest.skip(f"{backend} cannot run on this machine")
    command = [sys.executable, "-m", "tests.host.collecting", backend, api, "9" if backend == "pyodide" else "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=160)
    assert done.stdout.splitlines()[-1:] == ["done"], done.stderr[-2000:]
    assert done.returncode == 0


def test_a_collected_object_is_cleaned_up_in_another_thread() -> None:
    threads: list[int] = []
    cleaner, thing = CleanupThread(), Thing()
    thing.itself = thing
    cleaner.watch(thing, lambda: threads.append(threading.get_ident()))
    del thing
    gc.collect()
    wait_until(lambda: bool(threads), "nothing was cleaned up")
    assert threads != [threading.get_ident()]


def test_an_object_that_was_closed_is_not_cleaned_up_again() -> None:
    seen: list[str] = []
    cleaner, closed, dropped = CleanupThread(), Thing(), Thing()
    cleaner.watch(closed, lambda: seen.append("closed")).cancel()
    cleaner.watch(dropped, lambda: seen.append("dropped"))
    del closed, dropped
    wait_until(lambda: bool(seen), "nothing was cleaned up")
    assert seen == ["dropped"]


def test_a_clean_up_that_fails_does_not_stop_the_next(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []
    cleaner, first, second = CleanupThread(), Thing(), Thing()
    cleaner.watch(first, lambda: 1 / 0)
    cleaner.watch(second, lambda: seen.append("second"))
    del first, second
    wait_until(lambda: bool(seen), "the second was not cleaned up")
    assert "division by zero" in caplog.text


def test_the_guest_of_a_forgotten_sandbox_ends() -> None:
    sandbox = create_sandbox(backend="native")
    pid = int(sandbox.execute("import os; os.getpid()").check().value or 0)
    watch = weakref.ref(sandbox)
    vars(sandbox)["itself"] = sandbox
    del sandbox
    gc.collect()
    assert watch() is None
    until_gone(pid)


def test_a_process_that_closes_nothing_ends_and_leaves_nothing(tmp_path: Path) -> None:
    program = """
import gc, cloche
gc.set_threshold(50, 2, 2)
kept = []
for _ in range(12):
    sandbox = cloche.create_sandbox(backend="native")
    sandbox.itself = sandbox
    print(sandbox.execute("import os; os.getpid()").value)
    if len(kept) < 3:
        kept.append(sandbox)
"""
    environment = {**os.environ, "CLOCHE_SESSIONS_DIR": str(tmp_path)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=50, check=True)
    until_gone(*map(int, done.stdout.split()))
    assert list(tmp_path.iterdir()) == []


def test_a_forked_child_has_a_thread_of_its_own() -> None:
    cleaner = CleanupThread()
    held = Thing()
    cleaner.watch(held, lambda: None)
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        thing = Thing()
        cleaner.watch(thing, lambda: os.write(writer, b"cleaned"))
        del thing
        signal.alarm(20)
        signal.pause()
    os.close(writer)
    try:
        assert os.read(reader, 100) == b"cleaned"
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(reader)


def test_a_signal_handler_may_cancel_whatever_it_interrupts() -> None:
    bell = Bell()
    rung: list[int] = []

    def handler(number: int, frame: object) -> None:
        rung.append(number)
        bell.ring()

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with bell._open:  # as if it had come in the middle of another ring
            signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert rung == [signal.SIGUSR1]
    assert os.read(bell.reader, 10) == b"!"
    bell.close()
