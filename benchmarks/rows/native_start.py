"""From nothing to the first answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from benchmarks.peers import jupyter_kernel
from benchmarks.reference import bare_start
from benchmarks.row import Row, Sampler, Target
from benchmarks.stopwatch import timed
from cloche import create_sandbox


@contextmanager
def fresh_sandbox() -> Iterator[Sampler]:
    """A new sandbox each time; ending it is not part of the sample."""

    def sample() -> Sequence[float]:
        made = []

        def first_answer() -> None:
            sandbox = create_sandbox(backend="native")
            made.append(sandbox)
            sandbox.initialize("context")
            sandbox.execute("print('hi')").check()

        try:
            return [timed(first_answer)]
        finally:
            for sandbox in made:
                sandbox.destroy()

    yield sample


ROWS = (
    Row(
        name="native.start",
        unit="ms",
        what="create + initialize + first answer",
        ours=fresh_sandbox,
        reference=bare_start(),
        peer=jupyter_kernel.fresh_kernel(),
        rounds=40,
        targets=(Target("ratio", "<=", 1.5),),
    ),
)
