"""The daemon: what it costs to be one of many clients, and what one client can do to another."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.peers import jupyter_kernel, local_repl
from benchmarks.reference import bare_start
from benchmarks.row import Contender, Opener, Row, Sampler, Target
from benchmarks.stopwatch import MICROSECONDS, timed
from benchmarks.warm_jail import CELL
from benchmarks.wire_client import WireClient
from cloche import create_sandbox
from cloche.backends.daemon.link import links
from cloche.backends.daemon.places import SOCKET_VARIABLE, Places
from cloche.daemon import lifecycle

CLAIMS_IN_A_ROW = 4
CELLS_A_ROUND = 50
BRIDGES_A_ROUND = 200
CELLS_OF_A_CLIENT = 20
CELLS_BEFORE = 150
"""In these the cells end that the flood began while it was alone."""
CELLS_IN_A_FLOOD = 500
FLOOD = 32
"""Sessions that one owner keeps busy."""


@contextmanager
def house() -> Iterator[Places]:
    """A daemon for one measurement."""
    with tempfile.TemporaryDirectory() as folder:
        places = Places(Path(folder) / "daemon.sock")
        before = os.environ.get(SOCKET_VARIABLE)
        os.environ[SOCKET_VARIABLE] = str(places.socket)
        try:
            lifecycle.start(places, ["--pool-size", "128"])
            yield places
        finally:
            links.close()
            lifecycle.stop(places, force=True)
            os.environ.pop(SOCKET_VARIABLE)
            if before is not None:
                os.environ[SOCKET_VARIABLE] = before


@contextmanager
def claimed() -> Iterator[Sampler]:
    """Create sandboxes and have the first answer of each, a few in a row: the first finds everybody asleep."""
    with house():
        _claim_some()

        def sample() -> Sequence[float]:
            time.sleep(0.4)  # spares are made between claims, as between real ones
            return _claim_some()

        yield sample


def _claim_some() -> list[float]:
    sandboxes = [create_sandbox(backend="daemon") for _ in range(CLAIMS_IN_A_ROW)]
    try:
        return [timed(lambda: sandbox.execute(CELL).check()) for sandbox in sandboxes]  # noqa: B023 - called at once
    finally:
        for sandbox in sandboxes:
            sandbox.destroy()


@contextmanager
def one_session() -> Iterator[Sampler]:
    """Cells of one session."""
    with house(), create_sandbox(backend="daemon") as sandbox:

        def sample() -> Sequence[float]:
            return [timed(lambda: sandbox.execute(CELL).check(), MICROSECONDS) for _ in range(CELLS_A_ROUND)]

        yield sample


@contextmanager
def bridge_calls() -> Iterator[Sampler]:
    """Calls from the guest to a function here, and back."""
    with house(), create_sandbox(backend="daemon", on_llm_query=str.upper) as sandbox:
        cell = f"for _ in range({BRIDGES_A_ROUND}): llm_query('x')"

        def sample() -> Sequence[float]:
            return [timed(lambda: sandbox.execute(cell).check(), MICROSECONDS) / BRIDGES_A_ROUND]

        yield sample


def _enter(places: Places, owner: str) -> WireClient:
    return WireClient(places.socket, places.read_token() or "", owner)


def throughput(count: int) -> Opener:
    """Cells a second of so many clients together; a cell that is lost fails the row."""

    @contextmanager
    def open_clients() -> Iterator[Sampler]:
        with house() as places, ThreadPoolExecutor(count) as threads, ExitStack() as stack:
            clients = [_enter(places, f"owner {number}") for number in range(count)]
            for client in clients:
                stack.callback(client.close)

            def work(client: WireClient) -> None:
                for _ in range(CELLS_OF_A_CLIENT):
                    client.run(CELL)

            def sample() -> Sequence[float]:
                started = time.perf_counter()
                list(threads.map(work, clients))
                return [count * CELLS_OF_A_CLIENT / (time.perf_counter() - started)]

            yield sample

    return open_clients


def _slow_end_of(client: WireClient) -> float:
    """The 99th percentile of a modest owner's cells, once it is known to be there."""
    for _ in range(CELLS_BEFORE):
        client.run(CELL)
    times = sorted(timed(lambda: client.run(CELL)) for _ in range(CELLS_IN_A_FLOOD))
    return times[CELLS_IN_A_FLOOD * 99 // 100 - 1]


class _Flood:
    """An owner that keeps many sessions busy when it is told to; a process of its own, as other owners are."""

    def __init__(self, places: Places) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.flood", str(places.socket), str(FLOOD)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, cwd=Path(__file__).parents[2],
        )  # fmt: skip
        self._wait("ready")

    def _wait(self, word: str) -> None:
        assert self._process.stdout is not None
        said = self._process.stdout.readline().strip()
        if said != word:
            raise RuntimeError(f"the flood said {said!r}, not {word!r}")

    def _tell(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(word + "\n")

    @contextmanager
    def rising(self) -> Iterator[None]:
        """While it rises, all of its sessions have a cell to run; afterwards none has."""
        self._tell("rise")
        self._wait("high")
        try:
            yield
        finally:
            self._tell("fall")
            self._wait("low")

    def close(self) -> None:
        self._process.communicate()


@contextmanager
def beside_a_flood() -> Iterator[Sampler]:
    """A modest owner's cells while another keeps many sessions busy; quiet between the samples."""
    with house() as places, ExitStack() as stack:
        modest = _enter(places, "modest")
        stack.callback(modest.close)
        flood = _Flood(places)
        stack.callback(flood.close)

        def sample() -> Sequence[float]:
            with flood.rising():
                return [_slow_end_of(modest)]

        yield sample


@contextmanager
def in_quiet() -> Iterator[Sampler]:
    """The same owner alone."""
    with house() as places:
        client = _enter(places, "modest")
        try:
            yield lambda: [_slow_end_of(client)]
        finally:
            client.close()


def _rate_in_ipykernel(client: Any) -> Sequence[float]:
    started = time.perf_counter()
    for _ in range(CELLS_OF_A_CLIENT):
        jupyter_kernel.run_cell(client, CELL)
    return [CELLS_OF_A_CLIENT / (time.perf_counter() - started)]


def _throughput_row(count: int) -> Row:
    return Row(
        name=f"daemon.throughput_{count}",
        unit="/s",
        what=f"cells a second over the wire, {count} client{'s' if count > 1 else ''}",
        ours=throughput(count),
        reference=jupyter_kernel.running_kernel(_rate_in_ipykernel),
        peer=jupyter_kernel.running_kernel(_rate_in_ipykernel),
        rounds=8,
        quick_rounds=1,
        higher_is_better=True,
    )


ROWS = (
    Row(
        name="daemon.claim",
        unit="ms",
        what="a session of the daemon, to its first answer; four in a row",
        ours=claimed,
        reference=bare_start(),
        peer=jupyter_kernel.fresh_kernel(),
        rounds=30,
        peer_rounds=3,
        targets=(Target("ratio", "<=", 0.1),),
    ),
    Row(
        name="daemon.roundtrip",
        unit="us",
        what="print('hi') in a session of the daemon",
        ours=one_session,
        reference=bare_start("us"),
        peer=jupyter_kernel.live_cells(CELL, CELLS_A_ROUND),
        rounds=20,
        targets=(Target("ratio", "<=", 0.05),),
    ),
    Row(
        name="daemon.bridge",
        unit="us",
        what="one call of a host function from a session of the daemon",
        ours=bridge_calls,
        reference=bare_start("us"),
        peer=local_repl.llm_queries(),
        rounds=20,
    ),
    _throughput_row(1),
    _throughput_row(8),
    _throughput_row(64),
    Row(
        name="daemon.fairness",
        unit="ms",
        what="p99 of 500 cells of one owner while another floods the house",
        ours=beside_a_flood,
        reference=Contender("the same in quiet", in_quiet),
        peer=Contender("the same in quiet", in_quiet),
        rounds=5,
        quick_rounds=1,
        targets=(Target("ratio", "<=", 3),),
    ),
)
