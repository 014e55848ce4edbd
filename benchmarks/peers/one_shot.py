"""The pool of one-shot processes: each has imported everything, serves one request, and is thrown away.

No wall is put around them here, which is to their advantage: only the design is measured.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import IO

from benchmarks.memory import MEGABYTE, private_bytes
from benchmarks.row import Contender, Sampler
from benchmarks.stopwatch import timed

NAME = "one-shot process"
POOL = f"pool of {NAME}es"
CELL = "print('hi')"
_PROGRAM = """
import sys
{imports}
print('ready', flush=True)
exec(eval(sys.stdin.readline()))
print('done', flush=True)
sys.stdin.read()
"""

Modules = Callable[[], Sequence[str]]


class OneShot:
    """One process, from its start to the end of its only request."""

    def __init__(self, modules: Sequence[str]) -> None:
        code = _PROGRAM.format(imports="".join(f"import {name}\n" for name in modules))
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def wait_ready(self) -> None:
        """Until everything is imported."""
        self._expect("ready")

    def run(self, cell: str) -> str:
        """The only request; what it printed."""
        pipe = _open(self._process.stdin)
        pipe.write(f"{cell!r}\n")
        pipe.flush()
        printed = ""
        while (line := _open(self._process.stdout).readline()) not in ("done\n", ""):
            printed += line
        return printed

    def _expect(self, word: str) -> None:
        if _open(self._process.stdout).readline() != f"{word}\n":
            raise RuntimeError("a one-shot process ended before its time")

    def end(self) -> None:
        """Throw it away."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            _open(pipe).close()


def _open(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


class Pool:
    """A few of them, kept ready."""

    def __init__(self, modules: Sequence[str], size: int) -> None:
        self._modules = modules
        self._kept = [OneShot(modules) for _ in range(size)]
        self.settle(size)

    def settle(self, count: int) -> None:
        """Wait until the last `count` are ready."""
        for process in self._kept[-count:]:
            process.wait_ready()

    def take(self) -> OneShot:
        """The oldest; it may still be importing."""
        return self._kept.pop(0)

    def refill(self) -> None:
        """Start the one that takes its place."""
        self._kept.append(OneShot(self._modules))

    def close(self) -> None:
        """End all."""
        for process in self._kept:
            process.end()


def burst(modules: Modules, size: int, requests: int) -> Contender:
    """The slowest of so many requests, one after another, to a pool that is full before the first of them."""

    @contextmanager
    def open_pool() -> Iterator[Sampler]:
        pool = Pool(modules(), size)

        def sample() -> Sequence[float]:
            taken: list[OneShot] = []

            def answer() -> None:
                taken.append(pool.take())
                if len(taken) > size:
                    taken[-1].wait_ready()
                _require_greeting(taken[-1].run(CELL))

            times = []
            for _ in range(requests):
                times.append(timed(answer))
                pool.refill()
            for process in taken:
                process.end()
            pool.settle(min(size, requests))
            return [max(times)]

        try:
            yield sample
        finally:
            pool.close()

    return Contender(f"{POOL}, {size} kept", open_pool)


def rate(modules: Modules, in_flight: int, requests: int) -> Contender:
    """Requests a second when every one needs a new process, so many at a time."""

    @contextmanager
    def open_threads() -> Iterator[Sampler]:
        imported = modules()

        def serve(_: object) -> None:
            process = OneShot(imported)
            process.wait_ready()
            _require_greeting(process.run(CELL))
            process.end()

        with ThreadPoolExecutor(in_flight) as threads:

            def sample() -> Sequence[float]:
                started = time.perf_counter()
                list(threads.map(serve, range(requests)))
                return [requests / (time.perf_counter() - started)]

            yield sample

    return Contender(NAME, open_threads)


def cold_start(modules: Modules) -> Contender:
    """Until everything is imported."""

    @contextmanager
    def open_processes() -> Iterator[Sampler]:
        imported = modules()

        def sample() -> Sequence[float]:
            made: list[OneShot] = []

            def start() -> None:
                made.append(OneShot(imported))
                made[0].wait_ready()

            try:
                return [timed(start)]
            finally:
                made[0].end()

        yield sample

    return Contender(NAME, open_processes)


def private_memory(modules: Modules, cell: str = CELL) -> Contender:
    """What one of them has for itself alone after `cell`."""

    @contextmanager
    def open_processes() -> Iterator[Sampler]:
        imported = modules()

        def sample() -> Sequence[float]:
            process = OneShot(imported)
            try:
                process.wait_ready()
                _require_greeting(process.run(cell))
                return [private_bytes(process.pid) / MEGABYTE]
            finally:
                process.end()

        yield sample

    return Contender(NAME, open_processes)


def _require_greeting(printed: str) -> None:
    if printed != "hi\n":
        raise RuntimeError(f"a one-shot process answered {printed!r:.80}")
