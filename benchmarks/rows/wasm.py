"""Sessions behind WebAssembly: their start, cells, bridges, memory, and how fast they compute."""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.memory import MEGABYTE, private_bytes
from benchmarks.peers import jupyter_kernel, local_repl, stock_wasm
from benchmarks.reference import real_interpreter
from benchmarks.row import Contender, NotHere, Row, Sampler, Target
from benchmarks.stopwatch import MICROSECONDS, timed
from cloche import SessionSandbox, create_sandbox
from cloche.backends.wasm.workers import workers
from cloche.factory import probe_backends

CELL = "print('hi')"
SESSIONS = 10
BRIDGES = 200
WORK = {
    "fib": "def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\nfib(20)",
    "loop": "total = 0\nfor i in range(200_000): total += i",
    "json and re": (
        "import json, re\ntext = json.dumps([{'name': f'item {n}', 'n': n} for n in range(2000)])\n"
        "len(json.loads(text)), len(re.findall(r'item (\\\\d+)', text))"
    ),
}
_TICKS = os.sysconf("SC_CLK_TCK")


def wasm(**options: Any) -> SessionSandbox:
    """A sandbox, where there can be one."""
    found = probe_backends()["wasm"]
    if not found.available:
        raise NotHere(found.reason)
    return create_sandbox(backend="wasm", **options)


def _worker_group(pid: int | None) -> list[list[bytes]]:
    """What the system tells of each process of a worker: that which forks, and those of sessions."""
    assert pid is not None
    group, found = b"%d" % os.getpgid(pid), []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue
        if fields[2] == group:
            found.append([path.parent.name.encode(), *fields])
    return found


def _worker_cpu(pid: int | None) -> float:
    return sum(sum(map(int, fields[12:16])) for fields in _worker_group(pid)) / _TICKS * 1000


def _group_bytes(pid: int | None) -> int:
    return sum(private_bytes(int(fields[0])) for fields in _worker_group(pid))


def _own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return (used.ru_utime + used.ru_stime) * 1000


@contextmanager
def started_sessions() -> Iterator[Sampler]:
    """CPU of host and worker from `create_sandbox` to the first answer; several at a time, for the clock is coarse."""
    with wasm() as first:
        first.execute(CELL).check()
        pid = first.guest_pid

        def sample() -> Sequence[float]:
            made = []
            ours, theirs = _own_cpu(), _worker_cpu(pid)
            for _ in range(SESSIONS):
                made.append(wasm())
                made[-1].execute(CELL).check()
            took = _own_cpu() - ours + _worker_cpu(pid) - theirs
            for sandbox in made:
                sandbox.destroy()
            return [took / SESSIONS]

        yield sample


@contextmanager
def bare_python_cpu() -> Iterator[Sampler]:
    """CPU of ``python3 -c pass``."""
    command = [real_interpreter(), "-c", "pass"]

    def sample() -> Sequence[float]:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, stdin=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return [(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000]

    yield sample


@contextmanager
def cells() -> Iterator[Sampler]:
    """Cells of one session."""
    with wasm() as sandbox:
        sandbox.execute(CELL).check()
        yield lambda: [timed(lambda: sandbox.execute("x = 1")) for _ in range(50)]


@contextmanager
def bridge_calls() -> Iterator[Sampler]:
    """Calls of a host function from one cell."""
    with wasm(on_llm_query=lambda prompt: prompt, max_bridge_calls=BRIDGES) as sandbox:
        sandbox.execute(CELL).check()
        code = f"for _ in range({BRIDGES}): llm_query('x')"
        yield lambda: [timed(lambda: sandbox.execute(code).check(), MICROSECONDS) / BRIDGES]


@contextmanager
def session_memory() -> Iterator[Sampler]:
    """What the worker's processes need more for each session that has answered."""
    with wasm() as first:
        first.execute(CELL).check()
        pid = first.guest_pid

        def sample() -> Sequence[float]:
            workers.close_idle()
            while len(_worker_group(pid)) > 2:  # that which forks, and that of the first session
                time.sleep(0.01)
            before = _group_bytes(pid)
            made = [wasm() for _ in range(SESSIONS)]
            for sandbox in made:
                sandbox.execute(CELL).check()
            grown = _group_bytes(pid) - before
            for sandbox in made:
                sandbox.destroy()
            return [grown / SESSIONS / MEGABYTE]

        yield sample


def computing(backend: str, code: str) -> Any:
    """A cell that computes."""

    @contextmanager
    def open_session() -> Iterator[Sampler]:
        with wasm() if backend == "wasm" else create_sandbox(backend=backend) as sandbox:
            sandbox.execute(code).check()
            yield lambda: [sandbox.execute(code).check().duration_ms for _ in range(3)]

    return open_session


def _kernel_memory(client: Any) -> Sequence[float]:
    """What a process of its own needs, by its own word."""
    path = Path(tempfile.mkdtemp()) / "pid"
    jupyter_kernel.run_cell(client, f"import os; open({str(path)!r}, 'w').write(str(os.getpid()))")
    return [private_bytes(int(path.read_text())) / MEGABYTE]


BARE = Contender("python3 -c pass (CPU)", bare_python_cpu)

ROWS = (
    Row(
        name="wasm.start", unit="ms", what="CPU of host and worker, create to first answer", ours=started_sessions,
        reference=BARE, peer=stock_wasm.boot(CELL), rounds=20, targets=(Target("ratio", "<=", 0.06),),
    ),
    Row(
        name="wasm.roundtrip", unit="ms", what="one cell of a live session", ours=cells, reference=BARE,
        peer=stock_wasm.boot("x = 1"), rounds=20, targets=(Target("p50", "<=", 0.5),),
    ),
    Row(
        name="wasm.bridge", unit="us", what="one call of a host function", ours=bridge_calls, reference=BARE,
        peer=local_repl.llm_queries(), rounds=20, targets=(Target("p50", "<=", 100),),
    ),
    Row(
        name="wasm.session_mb", unit="MB", what="private memory of one session", ours=session_memory, reference=BARE,
        peer=jupyter_kernel.running_kernel(_kernel_memory), rounds=8, targets=(Target("p50", "<=", 10),),
    ),
    *(
        Row(
            name=f"wasm.cpu_ratio.{name.replace(' ', '_')}", unit="ms", what=f"{name}, against native",
            ours=computing("wasm", code), reference=Contender("native", computing("native", code)),
            peer=stock_wasm.boot(code), rounds=10,
        )
        for name, code in WORK.items()
    ),
)  # fmt: skip
