"""One call from a cell to a host function and back, in a loop inside one cell.

The peer's way out of a cell is `llm_query`, which goes through rlms' own server; a model that answers at once
stands behind it, so that the bridge is measured and not the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from benchmarks.peers import local_repl
from benchmarks.reference import bare_start
from benchmarks.row import Contender, Row, Sampler, Target
from benchmarks.stopwatch import MICROSECONDS, timed
from cloche import create_sandbox

OUR_CALLS = 500
PEER_CALLS = 50


@contextmanager
def tool_loop() -> Iterator[Sampler]:
    """A cell that calls a tool again and again."""
    cell = f"for i in range({OUR_CALLS}): echo('hi')"
    with create_sandbox(backend="native", tools={"echo": lambda text: text}) as sandbox:

        def sample() -> Sequence[float]:
            return [timed(lambda: sandbox.execute(cell).check(), MICROSECONDS) / OUR_CALLS]

        yield sample


@contextmanager
def _query_loop() -> Iterator[Sampler]:
    cell = f"for i in range({PEER_CALLS}): assert llm_query('hi') == 'hi'"
    with (
        local_repl.model_server() as address,
        local_repl.repl(lm_handler_address=address) as environment,
    ):

        def sample() -> Sequence[float]:
            return [timed(lambda: local_repl.run_cell(environment, cell), MICROSECONDS) / PEER_CALLS]

        yield sample


ROWS = (
    Row(
        name="native.bridge",
        unit="us",
        what="one call of a host function, in a loop",
        ours=tool_loop,
        reference=bare_start("us"),
        peer=Contender(f"{local_repl.NAME} llm_query", _query_loop),
        rounds=30,
        targets=(Target("p50", "<=", 100),),
    ),
)
