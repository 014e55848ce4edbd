"""The pool: places, turns, leases, quotas, and sessions that are set aside."""

from __future__ import annotations

import inspect
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from cloche.errors import (
    AdmissionError,
    BranchError,
    PolicyError,
    QuotaError,
    SessionClosedError,
    SessionLostError,
    UnknownSessionError,
)
from cloche.pool import BlockingPool, BlockingSession, OwnerQuota, Pool, PooledSession, PoolLimits
from cloche.pool.fair_queue import FairQueue
from cloche.pool.processors import Processors

NATIVE = {"backend": "native"}


def in_a_pool(limits: PoolLimits | None = None, **options: Any) -> Callable[[Callable[[Pool], Awaitable[None]]], None]:
    """Run a test's coroutine in a pool of native sessions, unless it says otherwise."""
    options.setdefault("config", NATIVE)

    def run(test: Callable[[Pool], Awaitable[None]]) -> None:
        async def work() -> None:
            with anyio.fail_after(50):
                async with Pool(limits, **options) as pool:
                    await test(pool)

        anyio.run(work)

    return run


async def value(session: PooledSession, code: str) -> str | None:
    return (await session.execute(code)).check().value


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110 - what is waited for happens in other processes too
        await anyio.sleep(0.01)


def test_a_session_keeps_its_variables_and_is_found_by_its_owner_or_its_key() -> None:
    @in_a_pool()
    async def _(pool: Pool) -> None:
        session = await pool.open("alice")
        await session.execute("x = 41")
        assert await value(pool.find(session.id, owner="alice"), "x + 1") == "42"
        assert pool.find(session.id, key=session.key) is session


def test_a_session_is_shown_without_its_key() -> None:
    @in_a_pool()
    async def _(pool: Pool) -> None:
        session = await pool.open("alice")
        assert repr(session) == f"<PooledSession {session.id} of 'alice': live>"


@pytest.mark.parametrize("proof", [{}, {"owner": "mallory"}, {"key": "guess"}, {"key": ""}])
def test_a_session_is_not_there_for_others(proof: dict[str, str]) -> None:
    @in_a_pool()
    async def _(pool: Pool) -> None:
        session = await pool.open("alice")
        with pytest.raises(UnknownSessionError):
            pool.find(session.id, **proof)


def test_one_request_has_a_sandbox_of_its_own_that_is_gone_after_it() -> None:
    @in_a_pool()
    async def _(pool: Pool) -> None:
        first = await pool.run("alice", "x = 1; open('f', 'w').close(); x")
        assert first.value == "1"
        assert (await pool.run("alice", "'x' in globals(), __import__('os').listdir()")).value == "(False, [])"
        assert pool.sessions() == []


def test_context_and_functions_reach_a_session() -> None:
    @in_a_pool()
    async def _(pool: Pool) -> None:
        session = await pool.open("alice", context="text", on_llm_query=str.upper)
        assert await value(session, "llm_query(context)") == "'TEXT'"


def test_a_full_pool_makes_the_next_wait_and_then_says_so() -> None:
    @in_a_pool(PoolLimits(sessions=1, wait_ms=50, set_aside_ms=None))
    async def _(pool: Pool) -> None:
        first = await pool.open("alice")
        with pytest.raises(AdmissionError) as caught:
            await pool.open("bob")
        assert caught.value.remedy
        assert pool.stats()["refused"] == 1
        await first.close()
        assert await value(await pool.open("bob"), "1") == "1"


def test_whoever_waits_gets_the_place_that_becomes_free() -> None:
    @in_a_pool(PoolLimits(sessions=1, set_aside_ms=None))
    async def _(pool: Pool) -> None:
        first = await pool.open("alice")
        async with anyio.create_task_group() as group:
            group.start_soon(pool.open, "bob")
            await until(lambda: pool.stats()["waiting"])
            await first.close()
        assert [session.owner for session in pool.sessions()] == ["bob"]


def test_a_place_that_came_too_late_is_not_lost() -> None:
    @in_a_pool(PoolLimits(sessions=1, set_aside_ms=None))
    async def _(pool: Pool) -> None:
        first = await pool.open("alice")
        async with anyio.create_task_group() as group:
            group.start_soon(pool.open, "bob")
            await until(lambda: pool.stats()["waiting"])
            group.cancel_scope.cancel()
        await first.close()
        assert pool.stats()["live"] == 0
        assert await value(await pool.open("carol"), "1") == "1"


def test_an_owner_with_many_requests_waits_behind_one_with_few() -> None:
    @in_a_pool(PoolLimits(sessions=10, running=1))
    async def _(pool: Pool) -> None:
        order: list[str] = []
        flood = [await pool.open("greedy") for _ in range(4)]
        modest = await pool.open("modest")

        async def run(session: PooledSession) -> None:
            await session.execute("import time; time.sleep(0.02)")
            order.append(session.owner)

        async with anyio.create_task_group() as group:
            for session in flood:
                group.start_soon(run, session)
            await until(lambda: pool.stats()["waiting"] == 3)
            group.start_soon(run, modest)
        assert order.index("modest") <= 1


def test_one_owner_alone_cannot_take_every_turn() -> None:
    @in_a_pool(PoolLimits(sessions=10, running=2))
    async def _(pool: Pool) -> None:
        flood = [await pool.open("greedy") for _ in range(3)]
        modest = await pool.open("modest")
        async with anyio.create_task_group() as group:
            for session in flood:
                group.start_soon(session.execute, "while True: pass")
            await until(lambda: pool.stats()["running"] == 1)
            assert await value(modest, "6 * 7") == "42"
            group.cancel_scope.cancel()


def test_owners_who_are_there_share_the_processors_and_one_alone_has_them_all() -> None:
    async def work() -> None:
        queue = FairQueue(4, 10, "a cell", spare=1, shared=2)
        for _ in range(3):
            await queue.enter("greedy", 0)
        await queue.enter("modest", 0)
        queue.leave("modest")  # it may be back any moment
        for _ in range(3):
            queue.leave("greedy")
        await queue.enter("greedy", 0)
        with pytest.raises(AdmissionError):
            await queue.enter("greedy", 0)
        await queue.enter("modest", 0)
        assert (queue.held_by("greedy"), queue.held_by("modest")) == (1, 1)

    anyio.run(work)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one processor")
def test_an_owner_that_wants_more_than_its_share_is_kept_to_its_processors_while_others_are_there() -> None:
    everywhere = os.sched_getaffinity(0)

    class Sandbox:
        def __init__(self, guest_pid: int) -> None:
            self.guest_pid = guest_pid

    async def work(guest: int) -> None:
        sandbox = Sandbox(guest)
        queue = FairQueue(4, 10, "a cell", spare=1, shared=2)
        processors = Processors(queue)
        await queue.enter("modest", 0)
        await queue.enter("greedy", 0)
        processors.assign("greedy", sandbox)
        assert os.sched_getaffinity(guest) == everywhere  # it asks for nothing more
        async with anyio.create_task_group() as group:
            group.start_soon(queue.enter, "greedy", 10_000)
            await anyio.wait_all_tasks_blocked()
            processors.assign("greedy", sandbox)
            assert os.sched_getaffinity(guest) < everywhere
            queue.leave("greedy")
        processors.assign("greedy", sandbox)
        assert os.sched_getaffinity(guest) == everywhere

    with subprocess.Popen(["sleep", "100"]) as process:
        try:
            anyio.run(work, process.pid)
        finally:
            process.kill()


def test_a_cell_that_waits_for_a_model_gives_its_turn_to_others() -> None:
    @in_a_pool(PoolLimits(sessions=10, running=2))
    async def _(pool: Pool) -> None:
        answered, asked = anyio.Event(), []

        async def model(prompt: str) -> str:
            asked.append(prompt)
            await answered.wait()
            return prompt.upper()

        waiting = [await pool.open("alice", on_llm_query=model) for _ in range(4)]
        results: list[str | None] = []

        async def ask(session: PooledSession) -> None:
            results.append(await value(session, "llm_query_batched(['a', 'b'])"))

        async with anyio.create_task_group() as group:
            for session in waiting:
                group.start_soon(ask, session)
            await until(lambda: len(asked) == 8)
            assert pool.stats()["running"] == 0
            assert await value(await pool.open("alice"), "6 * 7") == "42"
            answered.set()
        assert results == ["['A', 'B']"] * 4
        assert pool.stats()["running"] == 0


def test_too_many_that_wait_are_refused_at_once() -> None:
    @in_a_pool(PoolLimits(sessions=1, waiting=0, set_aside_ms=None))
    async def _(pool: Pool) -> None:
        await pool.open("alice")
        with pytest.raises(AdmissionError, match="wait for a session already"):
            await pool.open("alice")


# -- leases ---------------------------------------------------------------------------------------


def test_a_session_that_nobody_uses_is_closed_and_says_why() -> None:
    @in_a_pool(PoolLimits(idle_ms=100))
    async def _(pool: Pool) -> None:
        session = await pool.open("alice")
        await until(lambda: not pool.sessions())
        with pytest.raises(SessionClosedError, match="nobody used it"):
            await session.execute("1")
        assert pool.stats()["expired"] == 1


def test_a_session_in_use_does_not_expire_and_extending_counts_as_use() -> None:
    @in_a_pool(PoolLimits(idle_ms=300))
    async def _(pool: Pool) -> None:
        session, other = await pool.open("alice"), await pool.open("alice")
        async with anyio.create_task_group() as group:
            group.start_soon(session.execute, "import time; time.sleep(1)")
            for _ in range(20):
                await anyio.sleep(0.05)
                other.extend()
        assert await value(session, "1") == "1"
        assert other in pool.sessions()


def test_a_lifetime_ends_also_for_a_session_that_is_busy() -> None:
    @in_a_pool(PoolLimits(lifetime_ms=200, idle_ms=200))
    async def _(pool: Pool) -> None:
        session = await pool.open("alice")
        with anyio.move_on_after(20):
            result = await session.execute("while True: pass")
            assert result.outcome in ("cancelled", "killed")
        await until(lambda: not pool.sessions())
        with pytest.raises(SessionClosedError, match="lifetime"):
            await session.execute("1")


def test_a_guest_that_died_between_calls_is_noticed_and_its_session_says_so() -> None:
    @in_a_pool()
    async def _(pool: Pool) -> None:
        session = await pool.open("alice")
        await session.execute("x = 1")
        assert session.sandbox is not None
        pid = session.sandbox.guest_pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await until(lambda: session.state == "lost")
        assert pool.stats()["lost"] == 1
        with pytest.raises(SessionLostError):
            await session.execute("x")
        assert await value(session, "'x' in globals()") == "False"


# -- quotas ---------------------------------------------------------------------------------------


def test_an_owner_has_no_more_sessions_than_its_quota() -> None:
    @in_a_pool(quota=OwnerQuota(sessions=1), quotas={"rich": OwnerQuota(sessions=2)})
    async def _(pool: Pool) -> None:
        first = await pool.open("alice")
        with pytest.raises(QuotaError) as caught:
            await pool.open("alice")
        assert caught.value.quota == "sessions"
        await pool.open("rich")
        await pool.open("rich")
        await first.close()
        await pool.open("alice")


def test_memory_of_all_sessions_of_an_owner_is_bounded() -> None:
    @in_a_pool(quota=OwnerQuota(memory_bytes=3 << 28))
    async def _(pool: Pool) -> None:
        await pool.open("alice", memory_bytes=1 << 29)
        with pytest.raises(QuotaError, match="bytes together"):
            await pool.open("alice", memory_bytes=1 << 29)
        with pytest.raises(QuotaError, match="without a limit"):
            await pool.open("alice", memory_bytes=None)
        await pool.open("alice", memory_bytes=1 << 28)


@pytest.mark.parametrize(
    ("quota", "code"),
    [
        (OwnerQuota(output_bytes=10), "print('x' * 20)"),
        (OwnerQuota(bridge_calls=1), "llm_query('a')"),
        (OwnerQuota(cpu_ms=1), "sum(range(1_000_000))"),
    ],
)
def test_what_is_used_up_is_used_up_until_the_next_window(quota: OwnerQuota, code: str) -> None:
    @in_a_pool(quota=quota)
    async def _(pool: Pool) -> None:
        session = await pool.open("alice", on_llm_query=str.upper)
        await session.execute(code)
        with pytest.raises(QuotaError) as caught:
            await session.execute("1")
        assert "try again in" in str(caught.value.remedy)
        other = await pool.open("bob")
        assert await value(other, "1") == "1"


def test_a_new_window_begins_with_nothing_used() -> None:
    @in_a_pool(quota=OwnerQuota(output_bytes=1, window_ms=150))
    async def _(pool: Pool) -> None:
        session = await pool.open("alice")
        await session.execute("print('xx')")
        with pytest.raises(QuotaError):
            await session.execute("1")
        await anyio.sleep(0.2)
        assert await value(session, "1") == "1"


@pytest.mark.parametrize(
    "make", [lambda: PoolLimits(sessions=0), lambda: PoolLimits(wait_ms=-1), lambda: OwnerQuota(cpu_ms=-1)]
)
def test_a_wrong_limit_is_named(make: Callable[[], object]) -> None:
    with pytest.raises(PolicyError) as caught:
        make()
    assert caught.value.field


# -- set aside ------------------------------------------------------------------------------------


def test_an_idle_session_gives_its_place_up_and_comes_back_as_it_was() -> None:
    @in_a_pool(PoolLimits(sessions=1, set_aside_ms=0))
    async def _(pool: Pool) -> None:
        first = await pool.open("alice", context="long text")
        await first.execute("import math\nclass Bed:\n    kilos = 12\nbed = Bed(); open('f', 'w').write('file')")
        second = await pool.open("bob")
        assert (first.state, second.state) == ("set_aside", "live")
        assert await value(second, "'bed' in globals()") == "False"
        assert (
            await value(first, "(bed.kilos, math.pi > 3, open('f').read(), context)")
            == "(12, True, 'file', 'long text')"
        )
        assert (first.state, second.state) == ("live", "set_aside")
        assert pool.stats()["brought_back"] == 1


def test_a_session_that_would_lose_something_is_not_set_aside() -> None:
    @in_a_pool(PoolLimits(sessions=1, set_aside_ms=0, wait_ms=50))
    async def _(pool: Pool) -> None:
        first = await pool.open("alice")
        await first.execute("stream = (i for i in range(3)); next(stream)")
        with pytest.raises(AdmissionError):
            await pool.open("bob")
        assert await value(first, "next(stream)") == "1"


def test_what_was_set_aside_lies_where_nobody_else_can_read_and_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    @in_a_pool(PoolLimits(sessions=1, set_aside_ms=0))
    async def _(pool: Pool) -> None:
        first = await pool.open("alice")
        await first.execute("x = 1")
        await pool.open("bob")
        assert set(modes(tmp_path)) == {0}

    assert list(tmp_path.glob("cloche-pool-*")) == []


def modes(folder: Path) -> list[int]:
    """What others may do with what lies there."""
    (shelf,) = folder.glob("cloche-pool-*")
    return [path.stat().st_mode & 0o077 for path in (shelf, *shelf.rglob("*"))]


# -- branches -------------------------------------------------------------------------------------


def test_branches_are_sessions_of_the_pool_with_places_of_their_own() -> None:
    @in_a_pool(PoolLimits(sessions=3, wait_ms=50, set_aside_ms=None), config={"backend": "jail"})
    async def _(pool: Pool) -> None:
        session = await pool.open("alice")
        await session.execute("x = [1]")
        first, second = await session.fork_many(2)
        await first.execute("x.append(2)")
        assert [await value(one, "x") for one in (session, first, second)] == ["[1]", "[1, 2]", "[1]"]
        with pytest.raises(AdmissionError):
            await session.fork_many(1)
        await session.execute("import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()")
        await first.close()
        with pytest.raises(BranchError):
            await session.fork_many(1)
        assert pool.stats()["live"] == 2


# -- the end, and the other face ------------------------------------------------------------------


def test_a_closed_pool_ends_its_sessions_and_opens_no_more() -> None:
    async def work() -> None:
        async with Pool(config=NATIVE) as pool:
            session = await pool.open("alice")
            await session.execute("1")
            assert session.sandbox is not None
            pid = session.sandbox.guest_pid
        assert not os.path.exists(f"/proc/{pid}")  # noqa: ASYNC240 - a look at /proc does not block
        with pytest.raises(SessionClosedError):
            await pool.open("alice")
        with pytest.raises(SessionClosedError, match="pool was closed"):
            await session.execute("1")

    anyio.run(work)


def test_two_hundred_idle_sessions_cost_no_task() -> None:
    import asyncio

    @in_a_pool(PoolLimits(sessions=300), config={"backend": "fake"})
    async def _(pool: Pool) -> None:
        before = len(asyncio.all_tasks())
        for _ in range(200):
            await pool.open("alice")
        assert len(asyncio.all_tasks()) == before


def test_threads_can_use_a_pool() -> None:
    with BlockingPool(config=NATIVE) as pool:
        with pool.open("alice", context="text") as session:
            assert session.execute("context + '!'").value == "'text!'"
            assert pool.find(session.id, owner="alice").get_variable("context") == "text"
            assert [each.id for each in pool.sessions("alice")] == [session.id]
            assert pool.stats()["live"] == 1
        assert pool.run("bob", "6 * 7").value == "42"
        assert pool.stats()["sessions"] == 0


OF_THE_POOL = {"pool", "order", "sandbox", "calls", "used_at", "kept", "unkeepable", "gate", "turn", "charge"}
"""What a pooled session has for the pool, and for whoever drives its sandbox."""


def test_a_session_for_threads_has_all_that_a_pooled_one_has_for_its_owner() -> None:
    theirs = {name for name in dir(PooledSession) if not name.startswith("_")} - OF_THE_POOL
    assert {name for name in dir(BlockingSession) if not name.startswith("_")} == theirs
    assert all(takes_the_same(PooledSession, BlockingSession, name) for name in theirs)


def takes_the_same(one: type, other: type, name: str) -> bool:
    methods = getattr(one, name), getattr(other, name)
    if not callable(methods[0]):
        return True
    first, second = (dict(inspect.signature(method).parameters) for method in methods)
    return first == second


@pytest.mark.parametrize("name", ["open", "run", "find", "sessions", "stats"])
def test_a_pool_for_threads_is_asked_as_the_other_is(name: str) -> None:
    assert takes_the_same(Pool, BlockingPool, name)


def test_branches_of_a_session_for_threads_are_such_sessions() -> None:
    with BlockingPool(config={"backend": "jail"}) as pool, pool.open("alice") as session:
        session.execute("x = 1").check()
        first, second = session.fork_many(2)
        first.set_variable("x", 2)
        assert [one.get_variable("x") for one in (session, first, second)] == [1, 2, 1]
        assert {one.owner for one in (first, second)} == {"alice"}
