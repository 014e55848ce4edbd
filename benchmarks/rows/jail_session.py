"""A session that is up: its cells, with and without protection of its state, its end, and how many fit in a second."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from benchmarks.peers import jupyter_kernel, one_shot
from benchmarks.reference import bare_rate, bare_start
from benchmarks.row import Opener, Row, Sampler, Target
from benchmarks.stopwatch import MICROSECONDS, timed
from benchmarks.warm_jail import CELL, importable, jail_sandbox, processes_of, warm_jail

CELLS_A_ROUND = 50
STATE = "numbers = [1]"
CHANGE = "numbers.append(2)"
PAUSE = 0.04
"""Seconds between two cells. Whoever thinks about the next one takes longer."""
SESSIONS_A_ROUND = 30
IN_FLIGHT = 6


@contextmanager
def one_session() -> Iterator[Sampler]:
    """Cells of one session."""
    with warm_jail(), jail_sandbox() as sandbox:

        def sample() -> Sequence[float]:
            return [timed(lambda: sandbox.execute(CELL).check(), MICROSECONDS) for _ in range(CELLS_A_ROUND)]

        yield sample


@contextmanager
def protected_session() -> Iterator[Sampler]:
    """Cells to whose beginning the session returns, should one of them die."""
    with warm_jail(), jail_sandbox(protect_state=True) as sandbox:
        sandbox.execute(STATE).check()

        def sample() -> Sequence[float]:
            time.sleep(PAUSE)
            return [timed(lambda: sandbox.execute(CHANGE).check())]

        yield sample


@contextmanager
def ended_session() -> Iterator[Sampler]:
    """`destroy()` of a session that has answered, until nothing of it is left."""
    with warm_jail():

        def sample() -> Sequence[float]:
            sandbox = jail_sandbox()
            sandbox.execute(CELL).check()
            processes = processes_of(sandbox)
            took = timed(sandbox.destroy)
            left = [pid for pid in processes if _alive(pid)]
            if left:
                raise RuntimeError(f"processes outlived destroy(): {left}")
            return [took]

        yield sample


def _alive(pid: int) -> bool:
    """A zombie, which only waits for its parent to look, is not."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return stat.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except (FileNotFoundError, ProcessLookupError):
        return False


def sessions_a_second(in_flight: int) -> Opener:
    """Create, print and destroy, so many at a time."""

    def serve(_: object) -> None:
        with jail_sandbox() as sandbox:
            sandbox.execute(CELL).check()

    @contextmanager
    def open_threads() -> Iterator[Sampler]:
        with warm_jail(spares=True), ThreadPoolExecutor(in_flight) as threads:

            def sample() -> Sequence[float]:
                started = time.perf_counter()
                list(threads.map(serve, range(SESSIONS_A_ROUND)))
                return [SESSIONS_A_ROUND / (time.perf_counter() - started)]

            yield sample

    return open_threads


def _rate_row(suffix: str, in_flight: int, targets: tuple[Target, ...]) -> Row:
    return Row(
        name=f"jail.create_rate{suffix}",
        unit="/s",
        what=f"create + print + destroy, {in_flight} in flight",
        ours=sessions_a_second(in_flight),
        reference=bare_rate(in_flight),
        peer=one_shot.rate(importable, in_flight, requests=max(2, os.cpu_count() or 1)),
        rounds=12,
        quick_rounds=2,
        peer_rounds=1,
        higher_is_better=True,
        targets=targets,
    )


ROWS = (
    Row(
        name="jail.roundtrip",
        unit="us",
        what="print('hi') in a live session",
        ours=one_session,
        reference=bare_start("us"),
        peer=jupyter_kernel.live_cells(CELL, CELLS_A_ROUND),
        rounds=30,
        targets=(Target("ratio", "<=", 0.03),),
    ),
    Row(
        name="jail.protected_cell",
        unit="ms",
        what="a cell that the session survives, marked in the pause before it",
        ours=protected_session,
        reference=bare_start(),
        peer=jupyter_kernel.saving_kernel(STATE, CHANGE, ["numbers"]),
        rounds=40,
        targets=(Target("ratio", "<=", 0.15),),
    ),
    Row(
        name="jail.kill",
        unit="ms",
        what="destroy(), until nothing of the session is left",
        ours=ended_session,
        reference=bare_start(),
        peer=jupyter_kernel.ended_kernel(),
        rounds=40,
        peer_rounds=8,
    ),
    _rate_row("", IN_FLIGHT, (Target("p50", ">=", 60),)),
    _rate_row(".one_at_a_time", 1, ()),
)
