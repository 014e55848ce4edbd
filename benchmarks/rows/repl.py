"""The REPL server: a request to a warm one, and a large state over the delimited wire.

A state goes out with one response and comes back with the next request, each time through everything there is on the
way: pickle, compression, base64, frames, two processes and the host's checks.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from anyio.from_thread import start_blocking_portal

import cloche_guest
from benchmarks.row import Contender, NotHere, Opener, Row, Sampler, Target
from benchmarks.stopwatch import timed
from cloche.errors import StartError
from cloche.executor import REPLExecutor, REPLRequest, REPLSettings, ServerProcess

MEGABYTE = 1_000_000
COMMAND = [sys.executable, str(Path(cloche_guest.__file__).with_name("repl_server.py"))]
MODULES = ("numpy",)
CELL = "print(sum(range(3)))"
FLOATS = "value = np.random.default_rng(0).random({size} // 8)"


@contextmanager
def one_server() -> Iterator[Callable[..., Any]]:
    """Asks a server of its own, which keeps its variables."""
    environment = {**os.environ, "PRELOAD_MODULES": ",".join(MODULES), "DEBUG": ""}
    with start_blocking_portal() as portal, tempfile.TemporaryDirectory() as folder:
        server = portal.call(partial(ServerProcess, COMMAND, REPLSettings(), cwd=folder, env=environment))

        async def serve(*, task_status: Any) -> None:
            async with anyio.create_task_group() as group:
                await group.start(server.run)
                await server.start()
                task_status.started()

        running, _ = portal.start_task(serve)
        yield lambda **fields: portal.call(server.serve, REPLRequest(**fields), 120.0)
        portal.call(server.destroy)
        running.result()


def carrying(size: Callable[[], int]) -> Opener:
    """A state of random floats, out and in again."""

    @contextmanager
    def open_server() -> Iterator[Sampler]:
        with one_server() as ask:
            ask(code=FLOATS.format(size=size()))

            def there_and_back() -> None:
                response = ask(code="", capture_state=True)
                if ask(code="print(value.nbytes)", state=response.state).stdout != f"{size()}\n":
                    raise RuntimeError("the state did not come back")

            yield lambda: [timed(there_and_back)]

    return open_server


@contextmanager
def in_one_process() -> Iterator[Sampler]:
    """The same encoding and decoding, and nobody to carry it to."""
    import base64

    import cloudpickle
    import lz4.frame
    import numpy

    names = {"value": numpy.random.default_rng(0).random(100 * MEGABYTE // 8)}

    def there_and_back() -> None:
        text = base64.b64encode(lz4.frame.compress(cloudpickle.dumps(names))).decode()
        cloudpickle.loads(lz4.frame.decompress(base64.b64decode(text)))

    yield lambda: [timed(there_and_back)]


@contextmanager
def requests(settings: REPLSettings) -> Iterator[Sampler]:
    """One request to an executor of jailed servers, when its pool is full again."""
    with start_blocking_portal() as portal:
        executor = portal.call(partial(REPLExecutor, settings, backend="jail"))
        with portal.wrap_async_context_manager(executor):
            try:
                portal.call(executor.wait_until_ready)
            except StartError as exc:
                raise NotHere(str(exc)) from None

            def sample() -> Sequence[float]:
                portal.call(executor.wait_until_ready)
                return [timed(lambda: portal.call(executor.execute, CELL))]

            yield sample


@contextmanager
def bare_interpreter() -> Iterator[Sampler]:
    """An interpreter that is started for the request, and imports what it needs."""
    command = [sys.executable, "-c", "import numpy as np; print(np.arange(3).sum())"]
    yield lambda: [timed(lambda: subprocess.run(command, check=True, capture_output=True))]


WARM = REPLSettings(preload=MODULES)

ROWS = (
    Row(
        name="repl.request",
        unit="ms",
        what="a request to a warm REPL server, which is jailed and used once",
        ours=lambda: requests(WARM),
        reference=Contender("an interpreter started for it, with numpy", bare_interpreter),
        peer=Contender("the same with REPL off", lambda: requests(REPLSettings(preload=MODULES, enabled=False))),
        rounds=60,
        quick_rounds=5,
        targets=(Target("p50", "<=", 40),),
    ),
    Row(
        name="repl.wire_100mb",
        unit="ms",
        what="a state of 100 MB over the delimited wire, out and in again",
        ours=carrying(lambda: 100 * MEGABYTE),
        reference=Contender("a state of 16 MB", carrying(lambda: 16 * MEGABYTE)),
        peer=Contender("cloudpickle, lz4 and base64 in one process", in_one_process),
        rounds=6,
        quick_rounds=2,
        targets=(Target("ratio", "<=", 7),),
    ),
)
