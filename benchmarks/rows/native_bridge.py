"""One call from a cell to a host function and back, in a loop inside one cell.

The peer's way out of a cell is `llm_query`, which goes through rlms' own server; a model that answers at once
stands behind it, so that the bridge is measured and not the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from benchmarks.peers import local_repl
from benchmarks.reference import bare_start
from benchmarks.row import Row, Sampler, Target
from benchmarks.stopwatch import MICROSECONDS, timed
from cloche import create_sandbox

OUR_CALLS = 500


@contextmanager
def tool_loop() -> Iterator[Sampler]:
    """A cell that calls a tool again and again."""
    cell = f"for i in range({OUR_CALLS}): echo('hi')"
    with create_sandbox(backend="native", tools={"echo": lambda text: text}) as sandbox:

        def sample() -> Sequence[float]:
            return [timed(lambda: sandbox.execute(cell).check(), MICROSECONDS) / OUR_CALLS]

        yield sample


ROWS = (
    Row(
        name="native.bridge",
        unit="us",
        what="one call of a host function, in a loop",
        ours=tool_loop,
        reference=bare_start("us"),
        peer=local_repl.llm_queries(),
        rounds=30,
        targets=(Target("p50", "<=", 100),),
    ),
)
