"""Saving the variables of a session, and putting them back.

Ours crosses the wall: from arrays in the guest to a snapshot in the host, which can be restored or stored. The
reference pickles and compresses the same namespace in its own process, where no wall is; dill writes its session file.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.row import Contender, Opener, Row, Sampler, Target
from benchmarks.stopwatch import timed
from benchmarks.warm_jail import jail_sandbox, warm_jail
from cloche import SessionSandbox

MEGABYTE = 1 << 20
FLOATS = "import numpy\nvalue = numpy.random.default_rng(0).random({size} // 8)"
STRINGS = "import pandas\nvalue = pandas.DataFrame({{'name': ['name %010d' % n for n in range({size} // 15)]}})"
SMALL = "small = 1"
PEER_SESSION = "session_of_a_peer"


@contextmanager
def session(code: str, size: int) -> Iterator[SessionSandbox]:
    """A jailed session with a large variable and a small one."""
    with warm_jail(), jail_sandbox() as sandbox:
        sandbox.execute(code.format(size=size)).check()
        sandbox.execute(SMALL).check()
        yield sandbox


def namespace(code: str, size: int) -> dict[str, Any]:
    """The same variables here."""
    names: dict[str, Any] = {}
    exec(code.format(size=size), names)
    return {"value": names["value"], "small": 1}


def saving(code: str, size: int, *, portable: bool = False) -> Opener:
    """`snapshot()`; `portable`: as bytes that can be stored, with a digest of every part."""

    @contextmanager
    def open_session() -> Iterator[Sampler]:
        with session(code, size) as sandbox:

            def sample() -> Sequence[float]:
                return [timed(lambda: sandbox.snapshot().to_bytes() if portable else sandbox.snapshot())]

            yield sample

    return open_session


def loading(code: str, size: int) -> Opener:
    """`restore()`."""

    @contextmanager
    def open_session() -> Iterator[Sampler]:
        with session(code, size) as sandbox:
            snapshot = sandbox.snapshot()
            yield lambda: [timed(lambda: sandbox.restore(snapshot))]

    return open_session


@contextmanager
def saving_what_changed() -> Iterator[Sampler]:
    """`snapshot(base)` after the small variable has changed."""
    with session(FLOATS, 100 * MEGABYTE) as sandbox:
        base = sandbox.snapshot()
        base.to_bytes()

        def sample() -> Sequence[float]:
            sandbox.execute("small += 1").check()
            taken: list[int] = []
            took = timed(lambda: taken.append(sandbox.snapshot(base).sent_bytes))
            if taken[0] > MEGABYTE:
                raise RuntimeError(f"{taken[0]} bytes were sent though only a small variable had changed")
            return [took]

        yield sample


def compressed(code: str, size: int, *, load: bool = False) -> Contender:
    """cloudpickle and lz4 of everything, in one process."""

    @contextmanager
    def open_namespace() -> Iterator[Sampler]:
        import cloudpickle
        import lz4.frame

        names = namespace(code, size)
        data = lz4.frame.compress(cloudpickle.dumps(names))
        if load:
            yield lambda: [timed(lambda: cloudpickle.loads(lz4.frame.decompress(data)))]
        else:
            yield lambda: [timed(lambda: lz4.frame.compress(cloudpickle.dumps(names)))]

    return Contender("cloudpickle + lz4 in one process", open_namespace)


def dill_session(code: str, size: int, *, load: bool = False) -> Contender:
    """dill's session file."""

    @contextmanager
    def open_module() -> Iterator[Sampler]:
        import dill

        module = sys.modules[PEER_SESSION] = ModuleType(PEER_SESSION)
        module.__dict__.update(namespace(code, size))
        try:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "session.pkl"
                dill.dump_module(path, module)
                if load:
                    yield lambda: [timed(lambda: dill.load_module(path, module))]
                else:
                    yield lambda: [timed(lambda: dill.dump_module(path, module))]
        finally:
            del sys.modules[PEER_SESSION]

    return Contender("dill.dump_session", open_module)


def _rows(megabytes: int, suffix: str, what: str, code: str, rounds: int) -> Iterator[Row]:
    size = megabytes * MEGABYTE

    def row(verb: str, ours: Opener, *, load: bool = False, bound: float | None = None) -> Row:
        return Row(
            name=f"state.{verb}_{megabytes}mb{suffix}",
            unit="ms",
            what=f"{verb} {megabytes} MB of {what}",
            ours=ours,
            reference=compressed(code, size, load=load),
            peer=dill_session(code, size, load=load),
            rounds=rounds,
            quick_rounds=2,
            targets=() if bound is None else (Target("ratio", "<=", bound),),
        )

    yield row("save", saving(code, size), bound=1.3 if megabytes == 16 and code is FLOATS else None)
    yield row("load", loading(code, size), load=True)


def _portable() -> Row:
    size = 16 * MEGABYTE
    return Row(
        name="state.save_16mb.portable",
        unit="ms",
        what="save 16 MB of floats as bytes, with a digest of every part",
        ours=saving(FLOATS, size, portable=True),
        reference=compressed(FLOATS, size),
        peer=dill_session(FLOATS, size),
        rounds=20,
        quick_rounds=2,
    )


def _all(make: Callable[..., Iterator[Row]]) -> Iterator[Row]:
    for megabytes, rounds in ((1, 40), (16, 20), (100, 8)):
        yield from make(megabytes, "", "floats", FLOATS, rounds)
    yield from make(16, ".strings", "a column of strings", STRINGS, 8)


ROWS = (
    *_all(_rows),
    _portable(),
    Row(
        name="state.incremental",
        unit="ms",
        what="save one small change beside 100 MB of floats",
        ours=saving_what_changed,
        reference=compressed(FLOATS, 100 * MEGABYTE),
        peer=dill_session(FLOATS, 100 * MEGABYTE),
        rounds=10,
        quick_rounds=2,
        targets=(Target("p50", "<=", 60),),
    ),
)
