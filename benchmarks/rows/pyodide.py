"""The pyodide wall: its start, with and without a spare, a cell, a call of a host function, and its memory."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from benchmarks.memory import MEGABYTE, private_bytes
from benchmarks.peers import cold_pyodide, jupyter_kernel, local_repl
from benchmarks.reference import bare_start, constant, real_interpreter
from benchmarks.row import Contender, Row, Sampler, Target
from benchmarks.stopwatch import MICROSECONDS, timed
from cloche import create_sandbox
from cloche.backends.pyodide.backend import PyodideBackend
from cloche.backends.pyodide.spares import BREATH

CELL = "print('hi')"
CELLS_A_ROUND = 50
CALLS = 200
BOOT_SECONDS = 3.0


def python_start() -> Contender:
    """An interpreter with `site`, as people start one."""
    command = [real_interpreter(), "-c", "pass"]

    @contextmanager
    def open_python() -> Iterator[Sampler]:
        def sample() -> Sequence[float]:
            return [timed(lambda: subprocess.run(command, stdin=subprocess.DEVNULL, check=True))]

        yield sample

    return Contender("python -c pass", open_python)


def _first_answer() -> float:
    with create_sandbox(backend="pyodide") as sandbox:
        return timed(lambda: sandbox.execute(CELL).check())


@contextmanager
def without_a_spare() -> Iterator[Sampler]:
    """Each session boots."""
    cold_pyodide.find_runtime()

    def sample() -> Sequence[float]:
        PyodideBackend.shut_down()
        return [_first_answer()]

    yield sample
    PyodideBackend.shut_down()


@contextmanager
def with_a_spare() -> Iterator[Sampler]:
    """Each session finds one that has booted."""
    cold_pyodide.find_runtime()
    _first_answer()
    _first_answer()

    def sample() -> Sequence[float]:
        time.sleep(BREATH + BOOT_SECONDS)
        return [_first_answer()]

    yield sample
    PyodideBackend.shut_down()


@contextmanager
def one_session() -> Iterator[Sampler]:
    """Cells of one session."""
    cold_pyodide.find_runtime()
    with create_sandbox(backend="pyodide") as sandbox:

        def sample() -> Sequence[float]:
            return [timed(lambda: sandbox.execute(CELL).check(), MICROSECONDS) for _ in range(CELLS_A_ROUND)]

        yield sample


@contextmanager
def tool_loop() -> Iterator[Sampler]:
    """A cell that calls a tool again and again."""
    cold_pyodide.find_runtime()
    cell = f"for i in range({CALLS}): echo('hi')"
    with create_sandbox(backend="pyodide", tools={"echo": lambda text: text}) as sandbox:

        def sample() -> Sequence[float]:
            return [timed(lambda: sandbox.execute(cell).check(), MICROSECONDS) / CALLS]

        yield sample


@contextmanager
def idle_session() -> Iterator[Sampler]:
    """What a session has of memory for itself after a cell."""
    cold_pyodide.find_runtime()

    def sample() -> Sequence[float]:
        with create_sandbox(backend="pyodide") as sandbox:
            sandbox.execute(CELL).check()
            assert sandbox.guest_pid is not None
            return [private_bytes(sandbox.guest_pid) / MEGABYTE]

    yield sample
    PyodideBackend.shut_down()


ROWS = (
    Row(
        name="pyodide.start",
        unit="ms",
        what="create + first answer, from the memory snapshot",
        ours=without_a_spare,
        reference=python_start(),
        peer=cold_pyodide.fresh_interpreter(),
        rounds=10,
        peer_rounds=3,
        targets=(Target("ratio", "<=", 8),),
    ),
    Row(
        name="pyodide.start_spare",
        unit="ms",
        what="the same, when one has been started ahead",
        ours=with_a_spare,
        reference=python_start(),
        peer=cold_pyodide.fresh_interpreter(),
        rounds=10,
        peer_rounds=3,
        targets=(Target("ratio", "<=", 0.2),),
    ),
    Row(
        name="pyodide.roundtrip",
        unit="us",
        what="print('hi') in a live session",
        ours=one_session,
        reference=bare_start("us"),
        peer=jupyter_kernel.live_cells(CELL, CELLS_A_ROUND),
        rounds=30,
        targets=(Target("p50", "<=", 800),),
    ),
    Row(
        name="pyodide.bridge",
        unit="us",
        what="one call of a host function, in a loop",
        ours=tool_loop,
        reference=bare_start("us"),
        peer=local_repl.llm_queries(),
        rounds=20,
    ),
    Row(
        name="pyodide.session_mb",
        unit="MB",
        what="private memory of an idle session",
        ours=idle_session,
        reference=constant("1 MB", 1.0),
        peer=cold_pyodide.idle_interpreter(),
        rounds=3,
        quick_rounds=1,
    ),
)
