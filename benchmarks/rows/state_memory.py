"""What saving 100 MB of floats needs beside the floats: in the guest, which lends them, and in the host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from benchmarks.memory import MEGABYTE, can_measure_peak, peak_growth
from benchmarks.row import Contender, NotHere, Row, Sampler, Target
from benchmarks.rows.state import FLOATS, namespace, session

SIZE = 100 << 20
PEAK = "[int(line.split()[1]) for line in open('/proc/self/status') if line.startswith('VmHWM')][0]"


@contextmanager
def in_the_guest() -> Iterator[Sampler]:
    """By how much its high-water mark, which never falls, rises in a fresh session."""

    def sample() -> Sequence[float]:
        with session(FLOATS, SIZE) as sandbox:
            before = int(sandbox.execute(PEAK).check().value or 0)
            sandbox.snapshot()
            return [max(int(sandbox.execute(PEAK).check().value or 0) - before, 1) * 1024 / MEGABYTE]

    yield sample


@contextmanager
def in_the_host() -> Iterator[Sampler]:
    """The peak while a snapshot is taken: what it holds afterwards is most of that."""
    if not can_measure_peak():
        raise NotHere("the system does not let a process reset its own high-water mark")
    with session(FLOATS, SIZE) as sandbox:
        yield lambda: [peak_growth(sandbox.snapshot) / MEGABYTE]


def _in_one_process() -> Contender:
    @contextmanager
    def open_namespace() -> Iterator[Sampler]:
        import cloudpickle
        import lz4.frame

        names = namespace(FLOATS, SIZE)
        yield lambda: [peak_growth(lambda: lz4.frame.compress(cloudpickle.dumps(names))) / MEGABYTE]

    return Contender("cloudpickle + lz4 in one process", open_namespace)


def _dill() -> Contender:
    @contextmanager
    def open_namespace() -> Iterator[Sampler]:
        import dill

        names = namespace(FLOATS, SIZE)
        yield lambda: [peak_growth(lambda: dill.dumps(names)) / MEGABYTE]

    return Contender("dill.dumps", open_namespace)


ROWS = (
    Row(
        name="state.guest_memory_100mb",
        unit="MB",
        what="that the guest needs beside 100 MB of floats while they are saved",
        ours=in_the_guest,
        reference=_in_one_process(),
        peer=_dill(),
        rounds=3,
        quick_rounds=1,
        targets=(Target("p50", "<=", 20),),
    ),
    Row(
        name="state.host_memory_100mb",
        unit="MB",
        what="that the host needs while it takes a snapshot of 100 MB of floats, the snapshot included",
        ours=in_the_host,
        reference=_in_one_process(),
        peer=_dill(),
        rounds=3,
        quick_rounds=1,
        targets=(Target("p50", "<=", 120),),
    ),
)
