"""Branches of a live session, until each has answered, and the way back to a savepoint."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from benchmarks.peers import jupyter_kernel
from benchmarks.reference import bare_start
from benchmarks.row import Contender, Opener, Row, Sampler, Target
from benchmarks.stopwatch import timed
from benchmarks.warm_jail import CELL, jail_sandbox, warm_jail
from cloche import SessionSandbox

MANY = 5
LARGE_BYTES = 500_000_000
MEMORY_BYTES = 4 * LARGE_BYTES
FILES = {"data.csv": b"a,b\n1,2\n" * 500, "notes.txt": b"nothing of note\n"}
STATE = "import numpy\nstate = numpy.arange({words})"
CHANGE = "state[0] = 1\nopen('notes.txt', 'a').write('more')"


def small_state() -> str:
    """A cell that makes next to nothing."""
    return STATE.format(words=10)


def large_state() -> str:
    """A cell that makes 500 MB, every page of it written."""
    return STATE.format(words=LARGE_BYTES // 8)


@contextmanager
def original(state: str) -> Iterator[SessionSandbox]:
    """A session with variables and a few small files."""
    with warm_jail(), jail_sandbox(memory_bytes=MEMORY_BYTES) as sandbox:
        for path, data in FILES.items():
            sandbox.put_file(path, data)
        sandbox.execute(state).check()
        yield sandbox


def branches(count: int, *, large: bool = False) -> Opener:
    """`count` branches, until each of them has answered; ending them is not part of the sample."""

    @contextmanager
    def open_session() -> Iterator[Sampler]:
        with original(large_state() if large else small_state()) as sandbox:

            def sample() -> Sequence[float]:
                made: list[SessionSandbox] = []

                def branch() -> None:
                    made.extend(sandbox.fork_many(count))
                    for one in made:
                        one.execute(CELL).check()

                try:
                    return [timed(branch)]
                finally:
                    for one in made:
                        one.destroy()

            yield sample

    return open_session


@contextmanager
def undone_cells() -> Iterator[Sampler]:
    """A cell is run and undone; the way back is timed. The next savepoint is made after it, before the next cell."""
    with original(small_state()) as sandbox:
        sandbox.savepoint()

        def sample() -> Sequence[float]:
            sandbox.execute(CHANGE).check()
            return [timed(sandbox.undo)]

        yield sample


def _copied(count: int = 1, *, saved: bool = False) -> Contender:
    return jupyter_kernel.copied_kernel(small_state(), ["state"], count, saved=saved)


ROWS = (
    Row(
        name="jail.fork",
        unit="ms",
        what="a branch with its own copy of two small files",
        ours=branches(1),
        reference=bare_start(),
        peer=_copied(),
        rounds=40,
        peer_rounds=8,
        targets=(Target("ratio", "<=", 1),),
    ),
    Row(
        name="jail.fork_500mb",
        unit="ms",
        what="the same with an array of 500 MB",
        ours=branches(1, large=True),
        reference=bare_start(),
        peer=jupyter_kernel.copied_kernel(large_state(), ["state"]),
        rounds=40,
        quick_rounds=2,
        peer_rounds=3,
        targets=(Target("ratio", "<=", 1),),
    ),
    Row(
        name="jail.fork_500mb.vs_small",
        unit="ms",
        what="the same beside a branch without the array",
        ours=branches(1, large=True),
        reference=bare_start(),
        peer=Contender("jail.fork", branches(1)),
        rounds=30,
        targets=(Target("peer_ratio", "<=", 1.5),),
    ),
    Row(
        name="jail.fork_many",
        unit="ms",
        what=f"{MANY} branches at once",
        ours=branches(MANY),
        reference=bare_start(),
        peer=_copied(MANY),
        rounds=20,
        peer_rounds=3,
    ),
    Row(
        name="jail.undo",
        unit="ms",
        what="undo() of a cell that changed a variable and a file",
        ours=undone_cells,
        reference=bare_start(),
        peer=_copied(saved=True),
        rounds=30,
        peer_rounds=8,
    ),
)
