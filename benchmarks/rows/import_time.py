"""What an import adds to the start of a fresh process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from benchmarks.reference import bare_start
from benchmarks.row import Contender, Opener, Row, Sampler, Target
from benchmarks.stopwatch import timed


def import_cost(statement: str) -> Opener:
    """The wall time of a process that runs `statement`, less that of one that does nothing, taken in turn."""

    def run(code: str) -> float:
        # Isolated, but with site: that is where installed packages are found.
        return timed(lambda: subprocess.run([sys.executable, "-I", "-c", code], stdin=subprocess.DEVNULL, check=True))

    @contextmanager
    def open_processes() -> Iterator[Sampler]:
        def sample() -> Sequence[float]:
            bare = run("pass")
            return [run(statement) - bare]

        yield sample

    return open_processes


def _peer() -> Contender:
    return Contender("import rlm", import_cost("import rlm"))


ROWS = (
    Row(
        name="import.cloche",
        unit="ms",
        what="import cloche, over an empty process",
        ours=import_cost("import cloche"),
        reference=bare_start(),
        peer=_peer(),
        rounds=20,
        targets=(Target("p50", "<=", 60),),
    ),
    Row(
        name="import.cloche.create_sandbox",
        unit="ms",
        what="the same with the names of a first session in it",
        ours=import_cost("from cloche import create_sandbox, NativePythonSandbox"),
        reference=bare_start(),
        peer=_peer(),
        rounds=20,
        targets=(Target("p50", "<=", 60),),
    ),
)
