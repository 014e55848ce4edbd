"""The yardstick: the real interpreter binary, started to do nothing.

Never the script in front of it: a version manager's shim takes several times as long as the interpreter
itself and would make every ratio look good.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from benchmarks.row import Contender, Sampler
from benchmarks.stopwatch import MICROSECONDS, MILLISECONDS, timed

BARE_COMMAND = "python -I -S -c pass"
STARTS_A_ROUND = 30


def real_interpreter() -> str:
    """The binary behind the virtual environment and behind every link."""
    base: str = getattr(sys, "_base_executable", None) or sys.executable
    return os.path.realpath(base)


def bare_start(unit: str = "ms") -> Contender:
    """Starting and reaping ``python -I -S -c pass``."""
    scale = {"ms": MILLISECONDS, "us": MICROSECONDS}[unit]
    command = [real_interpreter(), "-I", "-S", "-c", "pass"]

    @contextmanager
    def open_bare() -> Iterator[Sampler]:
        def sample() -> Sequence[float]:
            return [timed(lambda: subprocess.run(command, stdin=subprocess.DEVNULL, check=True), scale)]

        yield sample

    return Contender(BARE_COMMAND, open_bare)


def bare_rate(in_flight: int) -> Contender:
    """The same, as many a second as there can be when so many are started at a time."""
    command = [real_interpreter(), "-I", "-S", "-c", "pass"]

    def start(_: object) -> None:
        subprocess.run(command, stdin=subprocess.DEVNULL, check=True)

    @contextmanager
    def open_threads() -> Iterator[Sampler]:
        with ThreadPoolExecutor(in_flight) as threads:

            def sample() -> Sequence[float]:
                return [STARTS_A_ROUND / timed(lambda: list(threads.map(start, range(STARTS_A_ROUND))), scale=1)]

            yield sample

    return Contender(BARE_COMMAND, open_threads)


def constant(name: str, value: float) -> Contender:
    """A yardstick that is known and need not be measured."""

    @contextmanager
    def open_constant() -> Iterator[Sampler]:
        yield lambda: [value]

    return Contender(name, open_constant)
