"""The one deadline of a call holds for every wait that it takes, whatever the guest does to be waited for."""

from __future__ import annotations

import ast
import itertools
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import anyio
import pytest
from tests.jail.sessions import jail, value

import cloche
from cloche.backends.daemon.link import links
from cloche.backends.daemon.places import SOCKET_VARIABLE, Places
from cloche.daemon import lifecycle
from cloche.session import deadline

PACKAGE = Path(cloche.__file__).parent
SLACK = 3.0
"""Seconds for a busy machine; every limit that was waited out before was 10."""

FORGE = """
import sys
frame = sys._getframe()
while frame is not None:
    for found in list(frame.f_locals.values()):
        methods = getattr(found, "_methods", None)
        if isinstance(methods, dict) and "branch" in methods:
            methods["branch"] = lambda params, body: ({}, None)
            forged = True
    frame = frame.f_back
"""
"""From now on the guest answers that it has copied itself, and has not."""

STOPPED_AT_BIRTH = """
import os, signal, sys
def settle(branches, *rest):
    os.kill(os.getpid(), signal.SIGSTOP)
    return settled(branches, *rest)
frame = sys._getframe()
while frame is not None:
    for found in list(frame.f_locals.values()):
        methods = getattr(found, "_methods", None)
        if isinstance(methods, dict) and "branch" in methods:
            kind = type(methods["branch"].__self__)
            if kind._settle is not settle:
                settled, kind._settle = kind._settle, settle
    frame = frame.f_back
"""
"""Every copy of the session stops itself before it has shown itself to the host."""

STOP_ALL_ELSE = """
import os, signal
for number in range(2, 300):
    if number != os.getpid():
        try:
            os.kill(number, signal.SIGSTOP)
        except OSError:
            pass
"""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """What is done in here takes no longer, and a grace."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds + SLACK


def test_a_stopped_savepoint_is_returned_to() -> None:
    with jail(protect_state=True, grace_ms=200) as session:
        session.execute("x = [1]").check()
        with within(1.0):
            died = session.execute(STOP_ALL_ELSE + "os._exit(3)", timeout_ms=1000)
        assert died.session_state == "restored"
        assert value(session, "x") == "[1]"


def test_a_savepoint_that_is_stopped_before_it_has_shown_itself_is_returned_to() -> None:
    with jail(protect_state=True, grace_ms=200) as session:
        session.execute("x = [1]" + STOPPED_AT_BIRTH).check()
        with within(1.0):
            died = session.execute("import os; os._exit(3)", timeout_ms=1000)
        assert died.session_state == "restored"
        assert value(session, "x") == "[1]"


def test_a_group_signal_of_the_guest_does_not_end_its_savepoint() -> None:
    with jail(protect_state=True) as session:
        session.execute("x = [1]").check()
        assert session.execute("import os; os.kill(0, 9)").session_state == "restored"
        assert value(session, "x") == "[1]"


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda session: session.fork(timeout_ms=1000), id="fork"),
        pytest.param(lambda session: session.fork_many(3, timeout_ms=1000), id="fork_many"),
        pytest.param(lambda session: session.savepoint(timeout_ms=1000), id="savepoint"),
    ],
)
def test_a_copy_that_never_comes_is_waited_for_until_the_deadline(
    ask: Callable[[cloche.SessionSandbox], object],
) -> None:
    with jail(grace_ms=200) as session:
        session.execute(FORGE + "\nassert forged").check()
        with within(1.0), pytest.raises(cloche.BranchError):
            ask(session)
        assert value(session, "1 + 1") == "2"


def test_an_event_loop_waits_for_a_copy_until_the_deadline_too() -> None:
    async def work() -> None:
        async with cloche.create_async_sandbox(backend="jail", grace_ms=200) as session:
            (await session.execute(FORGE + "\nassert forged")).check()
            with within(1.0), pytest.raises(cloche.BranchError):
                await session.fork(timeout_ms=1000)

    anyio.run(work)


def test_the_daemon_waits_for_a_copy_until_its_clients_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = Places(tmp_path / "daemon.sock")
    monkeypatch.setenv(SOCKET_VARIABLE, str(places.socket))
    lifecycle.start(places, [])
    try:
        with cloche.create_sandbox(backend="daemon", grace_ms=200) as session:
            session.execute(FORGE + "\nassert forged").check()
            with within(1.0), pytest.raises(cloche.BranchError):
                session.fork(timeout_ms=1000)
            assert value(session, "1 + 1") == "2"
    finally:
        links.close()
        lifecycle.stop(places, force=True)


def test_many_folders_take_few_descriptors() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with jail(protect_state=True) as session:
        session.execute("x = [1]").check()
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 100, hard))
        try:
            session.execute("import os\nfor number in range(400): os.mkdir(str(number))").check()
            assert session.execute("os._exit(1)").session_state == "restored"
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert value(session, "len(os.listdir())") == "400"


def _first_numbers_free(count: int) -> int:
    """The limit under which so many descriptors can be opened: it is one on their numbers, and there are gaps."""
    taken = {int(name) for name in os.listdir("/proc/self/fd")}
    return next(itertools.islice((number for number in itertools.count() if number not in taken), count, None))


def test_a_cell_whose_state_cannot_be_saved_gives_a_result_that_says_so() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with jail(protect_state=True) as session:
        session.execute("x = [1]").check()
        resource.setrlimit(resource.RLIMIT_NOFILE, (_first_numbers_free(4), hard))
        try:
            ran = session.execute("x.append(2)")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert (ran.success, ran.session_state) == (True, "kept")
        assert "could not be saved" in str(ran.guidance)
        assert session.execute("x").guidance is None  # it could be saved again
        assert session.execute("import os; os._exit(1)").session_state == "restored"
        assert value(session, "x") == "[1, 2]"


def test_a_wait_has_what_the_call_has_left() -> None:
    assert deadline.time_left(5.0) == 5.0
    with deadline.working_for(2.0):
        assert 1.0 < deadline.time_left(5.0) <= 2.0
        assert deadline.time_left(0.5) == 0.5
        with deadline.working_for(-3.0):
            assert deadline.time_left(5.0) == 0.0
            assert deadline.time_left(5.0, least=1.0) == 1.0
    assert deadline.current_deadline() == float("inf")


NOT_FOR_A_CALL = {
    "PROBE_PATIENCE": "looks at the machine before there is a session",
    "IMPORT_PATIENCE": "of a zygote that is prepared in the background, or waited for by warm()",
    "STOP_PATIENCE": "ends a whole jail",
    "LAST_WORD": "a daemon's answer that it could not do something in time",
}


def _patience_in(tree: ast.AST) -> Iterator[tuple[str, int, bool]]:
    """(name, line, is it bounded by what the call has left) of each use of a limit."""
    bounded: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("time_left", "min"):
            bounded |= {id(inner) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id.endswith("PATIENCE"):
            yield node.id, node.lineno, id(node) in bounded


@pytest.mark.parametrize("module", ["branching", "seat", "channel", "cgroups", "ends"])
def test_no_wait_for_a_session_has_a_limit_of_its_own_alone(module: str) -> None:
    tree = ast.parse((PACKAGE / "backends" / "jail" / f"{module}.py").read_text())
    unbounded = [(name, line) for name, line, bounded in _patience_in(tree) if not bounded]
    assert [found for found in unbounded if found[0] not in NOT_FOR_A_CALL] == []


def test_a_jail_that_does_not_answer_is_waited_for_until_the_deadline() -> None:
    with jail(preload=()) as session:
        session.execute("1").check()
        pid = session._session.guest.channel.pid  # type: ignore[union-attr]  # the worker, whose parent is the zygote
        zygote = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(zygote, signal.SIGSTOP)
        try:
            with within(1.0 + deadline.CLEAN_UP):
                late = jail(preload=(), grace_ms=200, environment={"A": "B"}, workspace_bytes=1 << 20)
                with late, suppress(cloche.StartError):  # of a kind of which none was made ahead
                    assert late.execute("1", timeout_ms=1000).outcome == "timeout"
        finally:
            os.kill(zygote, signal.SIGCONT)
        assert value(session, "1 + 1") == "2"
