"""One cell, ``print('hi')``, in a session that is up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from benchmarks.peers import jupyter_kernel, local_repl
from benchmarks.reference import bare_start
from benchmarks.row import Row, Sampler, Target
from benchmarks.stopwatch import MICROSECONDS, timed
from cloche import create_sandbox

CELL = "print('hi')"
CELLS_A_ROUND = 50


@contextmanager
def one_session() -> Iterator[Sampler]:
    """Cells of one session."""
    with create_sandbox(backend="native") as sandbox:

        def sample() -> Sequence[float]:
            return [timed(lambda: sandbox.execute(CELL).check(), MICROSECONDS) for _ in range(CELLS_A_ROUND)]

        yield sample


def _in_local_repl(environment: Any) -> Sequence[float]:
    return [timed(lambda: local_repl.run_cell(environment, CELL), MICROSECONDS) for _ in range(CELLS_A_ROUND)]


ROWS = (
    Row(
        name="native.roundtrip",
        unit="us",
        what="print('hi') in a live session",
        ours=one_session,
        reference=bare_start("us"),
        peer=jupyter_kernel.live_cells(CELL, CELLS_A_ROUND),
        rounds=30,
        targets=(Target("ratio", "<=", 0.015), Target("peer_ratio", "<=", 1 / 20)),
    ),
    Row(
        name="native.roundtrip.vs_rlms",
        unit="us",
        what="the same; LocalREPL has no process to cross to",
        ours=one_session,
        reference=bare_start("us"),
        peer=local_repl.running_repl(_in_local_repl),
        rounds=30,
    ),
)
