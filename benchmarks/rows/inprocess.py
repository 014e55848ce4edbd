"""One cell behind guard-rails, in this process and in a worker, beside others that run cells in the host's process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from benchmarks.peers import local_executor, local_repl
from benchmarks.reference import bare_start
from benchmarks.row import Opener, Row, Sampler, Target
from benchmarks.stopwatch import MICROSECONDS, timed
from cloche import create_sandbox

CELL = "print('hi')"
LOOP = "total = 0\nfor number in range(20_000):\n    total += number * number\nprint(total)"
CELLS_A_ROUND = 50


def one_session(code: str, count: int, **options: Any) -> Opener:
    """So many cells of one session."""

    @contextmanager
    def open_session() -> Iterator[Sampler]:
        with create_sandbox(backend="inprocess", **options) as sandbox:

            def sample() -> Sequence[float]:
                return [timed(lambda: sandbox.execute(code).check(), MICROSECONDS) for _ in range(count)]

            yield sample

    return open_session


def _in_local_repl(environment: Any) -> Sequence[float]:
    return [timed(lambda: local_repl.run_cell(environment, CELL), MICROSECONDS) for _ in range(CELLS_A_ROUND)]


def _in_executor(code: str, count: int) -> Any:
    return lambda executor: [timed(lambda: executor(code), MICROSECONDS) for _ in range(count)]


ROWS = (
    Row(
        name="inprocess.roundtrip",
        unit="us",
        what="print('hi') inline, read by the AST guard",
        ours=one_session(CELL, CELLS_A_ROUND, guard="ast", worker="inline"),
        reference=bare_start("us"),
        peer=local_repl.running_repl(_in_local_repl),
        rounds=30,
        targets=(Target("ratio", "<=", 0.01),),
    ),
    Row(
        name="inprocess.roundtrip.restricted",
        unit="us",
        what="the same, compiled by RestrictedPython",
        ours=one_session(CELL, CELLS_A_ROUND, guard="restricted", worker="inline"),
        reference=bare_start("us"),
        peer=local_executor.running_executor(_in_executor(CELL, CELLS_A_ROUND)),
        rounds=30,
        targets=(Target("peer_ratio", "<=", 1.0),),
    ),
    Row(
        name="inprocess.roundtrip.worker",
        unit="us",
        what="the same as the first, in a worker that can be killed",
        ours=one_session(CELL, CELLS_A_ROUND, guard="ast", worker="process"),
        reference=bare_start("us"),
        peer=local_executor.running_executor(_in_executor(CELL, CELLS_A_ROUND)),
        rounds=30,
    ),
    Row(
        name="inprocess.loop",
        unit="us",
        what="a loop of 20,000 turns inline, compiled by RestrictedPython",
        ours=one_session(LOOP, 1, guard="restricted", worker="inline"),
        reference=bare_start("us"),
        peer=local_executor.running_executor(_in_executor(LOOP, 1)),
        rounds=10,
        quick_rounds=2,
        targets=(Target("peer_ratio", "<=", 1 / 10),),
    ),
)
