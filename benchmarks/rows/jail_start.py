"""From nothing, from a warm jail and from a spare to the first answer; and the warm jail itself."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from benchmarks.peers import bwrap, jupyter_kernel, one_shot
from benchmarks.reference import bare_start
from benchmarks.row import Contender, Opener, Row, Sampler, Target
from benchmarks.stopwatch import timed
from benchmarks.warm_jail import (
    CELL,
    fresh_jail_seconds,
    importable,
    jail_sandbox,
    require_jail,
    wait_for_spares,
    warm_jail,
)
from cloche import SessionSandbox

POOL_SIZE = 2
BURST = 3
"""Times as many as there are spares."""

# Timed inside: the start of the interpreter and the import of cloche are rows of their own.
_NEW_PROCESS = f"""
import time
from cloche import create_sandbox
began = time.perf_counter()
sandbox = create_sandbox(backend="jail")
sandbox.execute({CELL!r}).check()
print((time.perf_counter() - began) * 1e3)
sandbox.destroy()
"""


def first_use() -> Opener:
    """In a new process each time."""

    @contextmanager
    def open_processes() -> Iterator[Sampler]:
        require_jail()
        # Isolated: where PYTHONDONTWRITEBYTECODE is set, each one would compile all of Cloche anew.
        command = [sys.executable, "-I", "-c", _NEW_PROCESS]

        def sample() -> Sequence[float]:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True)
            return [float(done.stdout)]

        yield sample

    return open_processes


def first_answer(made: list[SessionSandbox]) -> None:
    """A new sandbox that has answered; it is put into `made`."""
    made.append(jail_sandbox())
    made[-1].execute(CELL).check()


def fresh_session() -> Opener:
    """A new session each time, none made ahead; ending it is not part of the sample."""

    @contextmanager
    def open_jail() -> Iterator[Sampler]:
        with warm_jail():

            def sample() -> Sequence[float]:
                made: list[SessionSandbox] = []
                try:
                    return [timed(lambda: first_answer(made))]
                finally:
                    destroy(made)

            yield sample

    return open_jail


def claimed_spares(times_as_many: int | None) -> Opener:
    """Sessions made ahead: one, or the slowest of so many times as there are, one after another."""

    @contextmanager
    def open_jail() -> Iterator[Sampler]:
        with warm_jail(spares=True):
            made: list[SessionSandbox] = []
            first_answer(made)  # the first one asks for spares
            destroy(made)

            def sample() -> Sequence[float]:
                ready = wait_for_spares()
                count = 1 if times_as_many is None else ready * times_as_many
                made: list[SessionSandbox] = []
                try:
                    return [max(timed(lambda: first_answer(made)) for _ in range(count))]
                finally:
                    destroy(made)

            yield sample

    return open_jail


def destroy(sandboxes: list[SessionSandbox]) -> None:
    """End them all."""
    for sandbox in sandboxes:
        sandbox.destroy()


@contextmanager
def zygote() -> Iterator[Sampler]:
    """A new jail each time, until it has imported everything."""
    require_jail()

    def sample() -> Sequence[float]:
        return [fresh_jail_seconds() * 1e3]

    yield sample


def _cold_python_with_imports() -> Contender:
    return bwrap.cold_python(importable)


ROWS = (
    Row(
        name="jail.first_use",
        unit="ms",
        what="a new process: create_sandbox to the first answer",
        ours=first_use(),
        reference=bare_start(),
        peer=jupyter_kernel.fresh_kernel(),
        rounds=25,
        peer_rounds=15,
        targets=(Target("ratio", "<=", 2),),
    ),
    Row(
        name="jail.first_use.vs_bwrap",
        unit="ms",
        what="the same; a bare python in a new wall",
        ours=first_use(),
        reference=bare_start(),
        peer=bwrap.cold_python(),
        rounds=25,
    ),
    Row(
        name="jail.fresh",
        unit="ms",
        what="a new session, everything imported, to its first answer",
        ours=fresh_session(),
        reference=bare_start(),
        peer=_cold_python_with_imports(),
        rounds=40,
        peer_rounds=4,
        targets=(Target("ratio", "<=", 0.9),),
    ),
    Row(
        name="jail.fresh.vs_ipykernel",
        unit="ms",
        what="the same; the kernel has imported nothing",
        ours=fresh_session(),
        reference=bare_start(),
        peer=jupyter_kernel.fresh_kernel(),
        rounds=20,
        peer_rounds=10,
    ),
    Row(
        name="jail.claim",
        unit="ms",
        what="a session made ahead, to its first answer",
        ours=claimed_spares(None),
        reference=bare_start(),
        peer=one_shot.burst(importable, POOL_SIZE, 1),
        rounds=60,
        peer_rounds=4,
        targets=(Target("ratio", "<=", 0.05),),
    ),
    Row(
        name="jail.claim.burst",
        unit="ms",
        what=f"the slowest of {BURST} x as many in a row as there are spares",
        ours=claimed_spares(BURST),
        reference=bare_start(),
        peer=one_shot.burst(importable, POOL_SIZE, POOL_SIZE * BURST),
        rounds=15,
        quick_rounds=2,
        peer_rounds=1,
    ),
    Row(
        name="jail.zygote_start",
        unit="ms",
        what="a jail that has imported everything (peer: only the imports)",
        ours=zygote,
        reference=bare_start(),
        peer=one_shot.cold_start(importable),
        rounds=4,
        quick_rounds=1,
        peer_rounds=3,
    ),
)
