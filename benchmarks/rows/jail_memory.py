"""What sessions cost in memory: pages that a worker and its PID 1 have for themselves, and what many need together."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from benchmarks.memory import MEGABYTE, private_bytes, proportional_bytes
from benchmarks.peers import one_shot
from benchmarks.reference import constant, real_interpreter
from benchmarks.row import Contender, Opener, Row, Sampler, Target
from benchmarks.warm_jail import CELL, all_processes, importable, jail_sandbox, processes_of, warm_jail

SESSIONS = 50
BUSY_SESSIONS = 10
GROUPBY = """
import pandas
frame = pandas.DataFrame({'key': list('abcd') * 250, 'value': range(1000)})
assert len(frame.groupby('key').value.agg(['sum', 'mean'])) == 4
print('hi')
"""
CONTEXT_BYTES = 500_000_000
OWN_COPY = f"context = 'x' * {CONTEXT_BYTES}\nprint('hi')"


def idle_sessions(cell: str, *, busy: bool = False) -> Opener:
    """Many sessions at once, each after `cell`; one figure for each."""

    @contextmanager
    def open_jail() -> Iterator[Sampler]:
        with warm_jail():

            def sample() -> Sequence[float]:
                with ExitStack() as stack:
                    alive = []
                    for _ in range(BUSY_SESSIONS if busy else SESSIONS):
                        alive.append(stack.enter_context(jail_sandbox()))
                        alive[-1].execute(cell).check()
                    return [sum(map(private_bytes, processes_of(sandbox))) / MEGABYTE for sandbox in alive]

            yield sample

    return open_jail


@contextmanager
def sessions_with_one_context() -> Iterator[Sampler]:
    """Many sessions at once over one large text: what they and the text need, for each of them."""
    with warm_jail():
        context = "x" * CONTEXT_BYTES
        before = proportional_bytes(all_processes())  # now: the text stays in the jail for a while

        def sample() -> Sequence[float]:
            with ExitStack() as stack:
                for _ in range(SESSIONS):
                    sandbox = stack.enter_context(jail_sandbox())
                    sandbox.initialize(context)
                    if sandbox.execute("len(context)").check().value != str(CONTEXT_BYTES):
                        raise RuntimeError("the context did not arrive")
                return [(proportional_bytes(all_processes()) - before) / SESSIONS / MEGABYTE]

        yield sample


def _bare_memory() -> Contender:
    """An interpreter that waits for its first line."""

    @contextmanager
    def open_processes() -> Iterator[Sampler]:
        def sample() -> Sequence[float]:
            code = "import sys; print(flush=True); sys.stdin.read()"
            command = [real_interpreter(), "-I", "-S", "-c", code]
            with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
                assert process.stdout is not None
                process.stdout.readline()
                return [private_bytes(process.pid) / MEGABYTE]

        yield sample

    return Contender("python -I -S, waiting", open_processes)


ROWS = (
    Row(
        name="jail.private_mb",
        unit="MB",
        what=f"of one of {SESSIONS} idle sessions, its PID 1 included",
        ours=idle_sessions(CELL),
        reference=_bare_memory(),
        peer=one_shot.private_memory(importable),
        rounds=2,
        quick_rounds=1,
        peer_rounds=1,
        targets=(Target("p50", "<=", 3),),
    ),
    Row(
        name="jail.private_mb_after_groupby",
        unit="MB",
        what=f"of one of {BUSY_SESSIONS} sessions after a groupby of pandas",
        ours=idle_sessions(GROUPBY, busy=True),
        reference=_bare_memory(),
        peer=one_shot.private_memory(importable, GROUPBY),
        rounds=2,
        quick_rounds=1,
        peer_rounds=1,
    ),
    Row(
        name="jail.shared_context_mb",
        unit="MB",
        what=f"of one of {SESSIONS} sessions over one context of 500 MB, its part of that included",
        ours=sessions_with_one_context,
        reference=constant("a copy for each", CONTEXT_BYTES / MEGABYTE),
        peer=one_shot.private_memory(importable, OWN_COPY),
        rounds=2,
        quick_rounds=1,
        peer_rounds=1,
    ),
)
