"""The daemon: what it costs to be one of many clients, and what one client can do to another."""

from __future__ import annotations

import json
import os
import socket
import tempfile
import threading
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
from cloche import create_sandbox
from cloche.backends.daemon.link import links
from cloche.backends.daemon.places import SOCKET_VARIABLE, Places
from cloche.daemon import lifecycle

CELLS_A_ROUND = 50
BRIDGES_A_ROUND = 200
CELLS_OF_A_CLIENT = 20
FLOOD = 32
"""Sessions that one owner keeps busy."""
BUSY = "for _ in range(2_000_000): pass"


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
    """Create a sandbox and have its first answer."""
    with house():
        create_sandbox(backend="daemon").execute(CELL).check()

        def sample() -> Sequence[float]:
            time.sleep(0.2)  # spares are made between claims, as between real ones
            sandbox = create_sandbox(backend="daemon")
            took = timed(lambda: sandbox.execute(CELL).check())
            sandbox.destroy()
            return [took]

        yield sample


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


class _Client:
    """A client of the daemon's wire, with one session."""

    def __init__(self, places: Places, owner: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(places.socket))
        self._lines = self._socket.makefile("rb")
        self.call("auth", token=places.read_token(), owner=owner)
        self._session = self.call("session.open")["session"]

    def call(self, method: str, **params: Any) -> Any:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        self._socket.sendall(json.dumps(message).encode() + b"\n")
        reply = json.loads(self._lines.readline())
        if "error" in reply:
            raise RuntimeError(reply["error"]["message"])
        return reply["result"]

    def run(self, code: str) -> None:
        result = self.call("session.execute", session=self._session, code=code)
        if not result["success"]:
            raise RuntimeError(result["error"])

    def close(self) -> None:
        self._lines.close()
        self._socket.close()


def throughput(count: int) -> Opener:
    """Cells a second of so many clients together; a cell that is lost fails the row."""

    @contextmanager
    def open_clients() -> Iterator[Sampler]:
        with house() as places, ThreadPoolExecutor(count) as threads, ExitStack() as stack:
            clients = [_Client(places, f"owner {number}") for number in range(count)]
            for client in clients:
                stack.callback(client.close)

            def work(client: _Client) -> None:
                for _ in range(CELLS_OF_A_CLIENT):
                    client.run(CELL)

            def sample() -> Sequence[float]:
                started = time.perf_counter()
                list(threads.map(work, clients))
                return [count * CELLS_OF_A_CLIENT / (time.perf_counter() - started)]

            yield sample

    return open_clients


def _worst_of(client: _Client) -> float:
    """The slow end of a modest owner's cells."""
    times = sorted(timed(lambda: client.run(CELL)) for _ in range(CELLS_A_ROUND))
    return times[-1]


@contextmanager
def beside_a_flood() -> Iterator[Sampler]:
    """A modest owner's cells while another keeps many sessions busy."""
    with house() as places, ExitStack() as stack:
        modest = _Client(places, "modest")
        stack.callback(modest.close)
        over = threading.Event()

        def flood(client: _Client) -> None:
            while not over.is_set():
                client.run(BUSY)

        floods = [_Client(places, "greedy") for _ in range(FLOOD)]
        threads = [threading.Thread(target=flood, args=(client,)) for client in floods]
        for thread in threads:
            thread.start()
        try:
            yield lambda: [_worst_of(modest)]
        finally:
            over.set()
            for thread in threads:
                thread.join()
            for client in floods:
                client.close()


@contextmanager
def in_quiet() -> Iterator[Sampler]:
    """The same owner alone."""
    with house() as places:
        client = _Client(places, "modest")
        try:
            yield lambda: [_worst_of(client)]
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
        what="a session of the daemon, to its first answer",
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
        what="the slowest of 50 cells of one owner while another floods the house",
        ours=beside_a_flood,
        reference=Contender("the same in quiet", in_quiet),
        peer=Contender("the same in quiet", in_quiet),
        rounds=5,
        quick_rounds=1,
        targets=(Target("ratio", "<=", 3),),
    ),
)
