"""Sessions of a pool in this process, used and misused in every way that ends differently."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from functools import partial

import anyio

from cloche.errors import ClocheError
from cloche.pool import Pool

AT_ONCE = 4
DIES = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"

Use = Callable[[Pool, str], Awaitable[int]]


async def plain(pool: Pool, owner: str) -> int:
    async with await pool.open(owner) as session:
        assert (await session.execute("6 * 7")).value == "42"
    return 1


async def one_shot(pool: Pool, owner: str) -> int:
    assert (await pool.run(owner, "6 * 7")).value == "42"
    return 1


async def with_bridge(pool: Pool, owner: str) -> int:
    async with await pool.open(owner, context="a text", on_llm_query=str.upper) as session:
        assert (await session.execute("llm_query(context)")).value == "'A TEXT'"
        await session.put_file("file", b"x" * 1000)
    return 1


async def branched(pool: Pool, owner: str) -> int:
    async with await pool.open(owner) as session:
        await session.execute("x = 1")
        for branch in await session.fork_many(1):
            assert (await branch.execute("x")).value == "1"
            await branch.close()
        await session.savepoint()
        await session.execute("x = 2")
        await session.undo()
    return 2


async def killed(pool: Pool, owner: str) -> int:
    async with await pool.open(owner) as session:
        assert (await session.execute(DIES)).session_state == "reset"
        assert (await session.execute("6 * 7")).value == "42"
    return 2


async def given_up(pool: Pool, owner: str) -> int:
    """Somebody stops waiting in the middle of it."""
    for patience in (0.0005, 0.002, 0.008):
        with anyio.move_on_after(patience):
            async with await pool.open(owner) as session:
                await session.execute("import time; time.sleep(0.01)")
    return 3


async def timed_out(pool: Pool, owner: str) -> int:
    async with await pool.open(owner) as session:
        assert (await session.execute("while True: pass", timeout_ms=20)).outcome == "timeout"
    return 1


async def refused(pool: Pool, owner: str) -> int:
    try:
        await pool.open(owner, context=object())
    except ClocheError:
        return 1
    raise AssertionError("a context that cannot travel was taken")


USES: tuple[Use, ...] = (plain, one_shot, with_bridge, branched, plain, killed, given_up, one_shot, timed_out, refused)


async def drive(pool: Pool, sessions: int, on_use: Callable[[int], None]) -> None:
    """About so many sessions, several at once."""
    uses, used = itertools.cycle(USES), 0

    async def work(owner: str) -> None:
        nonlocal used
        while used < sessions:
            made = await next(uses)(pool, owner)
            used += made
            on_use(made)

    async with anyio.create_task_group() as group:
        for number in range(AT_ONCE):
            group.start_soon(partial(work, f"owner {number}"))
