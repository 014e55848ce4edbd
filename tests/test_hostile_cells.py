"""Cells that mean harm: whatever they do, every call returns in time, and the session works afterwards or says so.

The cells lie in ``tests/hostile_cells``, one file each; its first lines say what it tries. One that is marked
``# poisons the session`` may leave a session that still answers but whose answers are the cell's: then it is
`reset()` that must bring back a session that can be relied on.

The native wall promises that nothing of a session's process group survives `destroy()`. A child that made a session
of its own (``escape_*``) has left that group: only a wall with a view of its own can hold it.
"""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from tests.hostile_corpus import CELLS, intention_of, read_cell

from cloche.conformance.facade import AsyncAsSync
from cloche.conformance.waiting import wait_until
from cloche.errors import ClocheError, SessionLostError
from cloche.factory import create_async_sandbox, create_sandbox, find_backend
from cloche.policy import ExecutionPolicy
from cloche.result import SandboxResult
from cloche.sandbox import SessionSandbox

ASYNC_CELLS = [name for name in CELLS if name.startswith(("forge_", "exit_", "hang_repr", "hang_signals", "flood_"))]
DEADLINE_MS = 120
GRACE_MS = 200
SLACK = 10.0
"""Seconds beyond deadline and grace: tells a hang from a busy machine."""
MEMORY = 512 * 1024 * 1024


class Session:
    """A sandbox whose every call is watched."""

    def __init__(self, sandbox: SessionSandbox, policy: ExecutionPolicy) -> None:
        self._sandbox = sandbox
        self._limit = (DEADLINE_MS + policy.grace_ms) / 1000 + SLACK
        self._pool = ThreadPoolExecutor(1)

    def call(self, method: str, *args: Any, **options: Any) -> Any:
        """The call's value, or the typed error it raised. Anything else fails the test."""
        future = self._pool.submit(getattr(self._sandbox, method), *args, **options)
        try:
            return future.result(self._limit)
        except ClocheError as exc:
            return exc
        except TimeoutError:
            pytest.fail(f"{method} did not return within {self._limit} seconds")

    def close(self) -> None:
        self._pool.shutdown(wait=False)


def token_bearers(token: str) -> dict[int, int]:
    """Processes that have `token` in their environment, and the process group of each."""
    found = {}
    for entry in os.listdir("/proc"):
        with suppress(OSError, ValueError):
            pid = int(entry)
            if token.encode() in Path(f"/proc/{pid}/environ").read_bytes():
                found[pid] = os.getpgid(pid)
    return found


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture
def policy() -> ExecutionPolicy:
    return ExecutionPolicy(
        timeout_ms=DEADLINE_MS, grace_ms=GRACE_MS, memory_bytes=MEMORY, environment={"TOKEN": secrets.token_hex(12)}
    )


@pytest.fixture(scope="module")
def portal() -> Iterator[BlockingPortal]:
    with start_blocking_portal("asyncio") as portal:
        yield portal


@pytest.fixture
def session_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CLOCHE_SESSIONS_DIR", str(tmp_path / "sessions"))
    return tmp_path / "sessions"


def endure(session: Session, code: str, *, poisons: bool) -> None:
    """Run a hostile cell, then everything else that a host does with a session."""
    result = session.call("execute", code, timeout_ms=DEADLINE_MS)
    assert isinstance(result, SandboxResult), f"the cell was accepted and gave no result: {result!r}"
    session.call("get_variable", "x", timeout_ms=DEADLINE_MS)
    session.call("list_variables", timeout_ms=DEADLINE_MS)
    session.call("snapshot", timeout_ms=DEADLINE_MS)
    session.call("put_file", "probe.txt", b"data", timeout_ms=DEADLINE_MS)
    session.call("get_file", "probe.txt", timeout_ms=DEADLINE_MS)
    session.call("get_file", "read.txt", timeout_ms=DEADLINE_MS)
    session.call("list_files", timeout_ms=DEADLINE_MS)
    if not poisons:
        assert_works_or_says_so(session)
    assert session.call("reset") is None
    assert_works(session.call("execute", "1 + 1", timeout_ms=10_000))


def assert_works_or_says_so(session: Session) -> None:
    """A cell has the right value, or the session is said to be lost or reset: and then it does work."""
    for _ in range(3):
        found = session.call("execute", "1 + 1", timeout_ms=10_000)
        if isinstance(found, SessionLostError):
            continue
        if isinstance(found, SandboxResult) and found.session_state == "reset":
            continue
        assert_works(found)
        return
    pytest.fail("the session did not come back")


def assert_works(found: object) -> None:
    assert isinstance(found, SandboxResult), repr(found)
    assert (found.outcome, found.value) == ("ok", "2")


def check_nothing_is_left(token: str, folders: Path, group: int, others: int, *, escapes: bool) -> None:
    if escapes:
        for pid, leader in token_bearers(token).items():
            assert leader != group, "what is left is an escaped child, in a group of its own"
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: token_bearers(token) == {})
    assert len(list(folders.iterdir())) == others


def run(name: str, sandbox: SessionSandbox, policy: ExecutionPolicy, folders: Path, others: int = 0) -> None:
    code = read_cell(name)
    session = Session(sandbox, policy)
    try:
        group_of = "import os; getattr(os, 'getpgrp', int)()"  # not every wall has process groups
        group = int(str(session.call("execute", group_of, timeout_ms=10_000).value))
        endure(session, code, poisons="# poisons the session" in code)
        assert session.call("destroy") is None
    finally:
        session.close()
    check_nothing_is_left(policy.environment["TOKEN"], folders, group, others, escapes=name.startswith("escape_"))


@pytest.mark.parametrize("backend", ["native", "jail"])
@pytest.mark.parametrize("name", CELLS)
def test_every_call_returns_and_the_session_recovers(
    name: str, backend: str, policy: ExecutionPolicy, session_folders: Path
):
    wall = find_backend(backend)
    with create_sandbox(backend=backend) as warm_up:  # what the process keeps for ever is opened now
        warm_up.execute("1")
    wall.shut_down()
    before = descriptors()
    run(name, create_sandbox(backend=backend, policy=policy), policy, session_folders)
    wall.shut_down()
    wait_until(lambda: descriptors() <= before)


@pytest.mark.parametrize("name", CELLS[::2])
def test_every_call_returns_and_the_session_recovers_beside_another_of_its_worker(
    name: str, policy: ExecutionPolicy, session_folders: Path
):
    """Behind a wall whose sessions share a process: a neighbour is as it was, or says that it is lost.

    Every other cell: most are about processes and descriptors, which do not exist there.
    """
    with create_sandbox(backend="wasm", policy=policy) as neighbour:
        neighbour.execute("x = 1", timeout_ms=20_000).check()
        run(name, create_sandbox(backend="wasm", policy=policy), policy, session_folders, others=1)
        try:
            assert neighbour.execute("x", timeout_ms=20_000).value == "1"
        except SessionLostError:
            assert neighbour.execute("1 + 1", timeout_ms=20_000).value == "2"


@pytest.mark.parametrize("name", ASYNC_CELLS)
def test_every_call_returns_and_the_session_recovers_on_the_async_api(
    name: str, policy: ExecutionPolicy, session_folders: Path, portal: BlockingPortal
):
    bare = portal.call(lambda: create_async_sandbox(backend="native", policy=policy))
    run(name, cast("SessionSandbox", AsyncAsSync(portal, bare)), policy, session_folders)


def test_the_corpus_has_at_least_40_cells():
    assert len(CELLS) >= 40


def test_every_cell_says_what_it_tries():
    for name in CELLS:
        assert intention_of(name).startswith("# "), name
