"""100 MB of output, written in lines and in blocks, and what the host needs to take it.

`print` in a loop is not measured: it makes 200 MB/s into /dev/null, whoever reads.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from benchmarks.memory import can_measure_peak, peak_growth
from benchmarks.peers import jupyter_kernel
from benchmarks.reference import constant, real_interpreter
from benchmarks.row import Contender, Opener, Row, Sampler, Target
from benchmarks.stopwatch import timed
from cloche import create_sandbox

MEGABYTES = 100
SIZE = MEGABYTES * 1_000_000

LINES = f"""
import sys
line = "x" * 79 + "\\n"
for _ in range({SIZE // 80}):
    sys.stdout.write(line)
sys.stdout.flush()
"""
BLOCKS = f"""
import os
block = b"x" * 1_000_000
for _ in range({MEGABYTES}):
    rest = memoryview(block)
    while rest:
        rest = rest[os.write(1, rest):]
"""
TEXT_BLOCKS = f"""
import sys
block = "x" * 1_000_000
for _ in range({MEGABYTES}):
    sys.stdout.write(block)
sys.stdout.flush()
"""


def _speed(action: Callable[[], object]) -> list[float]:
    return [MEGABYTES / timed(action, scale=1)]


def _growth(action: Callable[[], object]) -> list[float]:
    return [peak_growth(action) / 1e6]


Gauge = Callable[[Callable[[], object]], Sequence[float]]


def sandbox_output(cell: str, gauge: Gauge) -> Opener:
    """Run `cell` in a session; the default policy keeps the first 50,000 characters and counts the rest."""

    @contextmanager
    def open_session() -> Iterator[Sampler]:
        with create_sandbox(backend="native") as sandbox:

            def run() -> None:
                written = sandbox.execute(cell).check().usage.stdout_bytes
                if written != SIZE:
                    raise RuntimeError(f"{written} bytes arrived of {SIZE}")

            yield lambda: gauge(run)

    return open_session


def _kernel_output(cell: str, gauge: Gauge) -> Contender:
    def sample(client: Any) -> Sequence[float]:
        def run() -> None:
            printed = jupyter_kernel.run_cell(client, cell)
            if printed != SIZE:
                raise RuntimeError(f"{printed} characters arrived of {SIZE}")

        return gauge(run)

    return jupyter_kernel.running_kernel(sample)


def _plain_pipe(cell: str) -> Contender:
    """A bare interpreter that writes the same into a pipe, and a reader that throws it away."""

    @contextmanager
    def open_pipe() -> Iterator[Sampler]:
        def run() -> None:
            command = [real_interpreter(), "-I", "-S", "-c", cell]
            with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, bufsize=0) as process:
                pipe = process.stdout
                while pipe is not None and pipe.read(1 << 18):
                    pass

        yield lambda: _speed(run)

    return Contender("python -I -S, through a pipe", open_pipe)


ROWS: tuple[Row, ...] = (
    Row(
        name="native.output_100mb",
        unit="MB/s",
        what="sys.stdout.write of lines of 80 characters",
        ours=sandbox_output(LINES, _speed),
        reference=_plain_pipe(LINES),
        peer=_kernel_output(LINES, _speed),
        rounds=8,
        quick_rounds=2,
        higher_is_better=True,
        targets=(Target("p50", ">=", 500),),
    ),
    Row(
        name="native.output_100mb.os_write",
        unit="MB/s",
        what="os.write of blocks (peer: sys.stdout.write of them)",
        ours=sandbox_output(BLOCKS, _speed),
        reference=_plain_pipe(BLOCKS),
        # ipykernel echoes what is written past Python's streams through a thread, and loses some of it.
        peer=_kernel_output(TEXT_BLOCKS, _speed),
        rounds=12,
        quick_rounds=2,
        higher_is_better=True,
        targets=(Target("p50", ">=", 500),),
    ),
)
if can_measure_peak():
    ROWS += (
        Row(
            name="native.output_100mb.memory",
            unit="MB",
            what="growth of the host's peak memory meanwhile",
            ours=sandbox_output(BLOCKS, _growth),
            reference=constant("the output", MEGABYTES),
            peer=_kernel_output(TEXT_BLOCKS, _growth),
            rounds=5,
            quick_rounds=2,
            targets=(Target("p50", "<=", 16),),
        ),
    )
