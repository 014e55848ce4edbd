"""Things that are done a moment later."""

from __future__ import annotations

import os
import threading
from functools import partial

import pytest

from cloche.session import chores as module
from cloche.session.chores import Chores

PATIENCE = 20


def test_what_is_due_sooner_is_done_sooner() -> None:
    chores, over = Chores(), threading.Event()
    done: list[str] = []
    chores.after(0.08, over.set)
    for name, delay in (("late", 0.05), ("soon", 0.0), ("next", 0.02)):
        chores.after(delay, partial(done.append, name))
    assert over.wait(PATIENCE)
    assert done == ["soon", "next", "late"]


def test_something_urgent_does_not_wait_for_what_is_due_later() -> None:
    chores, soon = Chores(), threading.Event()
    chores.after(1000, lambda: None)
    chores.after(0, soon.set)
    assert soon.wait(PATIENCE)


def test_the_thread_ends_when_there_is_nothing_to_do_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE", 0.01)
    monkeypatch.setattr(module, "LATELY", 0.0)
    chores = Chores()
    threads: list[threading.Thread] = []
    for _ in range(2):
        done = threading.Event()
        chores.after(0, lambda: threads.append(threading.current_thread()))
        chores.after(0, done.set)
        assert done.wait(PATIENCE)
        threads[-1].join(PATIENCE)
        assert not threads[-1].is_alive()
    assert threads[0] is not threads[1]


def test_a_forked_child_does_its_own_only() -> None:
    chores = Chores()
    chores.after(1000, lambda: None)
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        done = threading.Event()
        chores.after(0, done.set)
        os.write(writer, b"y" if done.wait(PATIENCE) and not chores._due else b"n")
        os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(reader, 1) == b"y"
    os.close(reader)
    os.close(writer)


def test_where_no_thread_can_be_had_chores_wait_until_one_can(monkeypatch: pytest.MonkeyPatch) -> None:
    chores, done = Chores(), threading.Semaphore(0)

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        chores.after(0, done.release)
    chores.after(0, done.release)
    assert done.acquire(timeout=10)
    assert done.acquire(timeout=10)
