"""Live sessions: one instance each, in a worker that belongs to this process."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from functools import partial
from pathlib import Path

import pytest
from tests.wasm.sessions import value, wasm

import cloche
from cloche.backends.wasm.workers import workers
from cloche.conformance.waiting import Background, wait_until
from cloche.session.processes import process_start

SOURCE = str(Path(cloche.__file__).parents[1])


def worker_pids() -> set[int]:
    return {worker.pid for worker in workers._found.values()}


def test_variables_stay_from_cell_to_cell():
    with wasm() as sandbox:
        sandbox.execute("x = 41\ndef f(): return x + 1").check()
        assert value(sandbox, "f()") == "42"


def test_sessions_share_a_worker_and_have_a_process_each():
    with wasm() as one, wasm() as other:
        one.execute("x = 1").check()
        other.execute("x = 2").check()
        assert one.guest_pid is not None
        assert other.guest_pid is not None
        assert one.guest_pid != other.guest_pid
        assert {os.getpgid(one.guest_pid), os.getpgid(other.guest_pid)} == worker_pids()
        assert (value(one, "x"), value(other, "x")) == ("1", "2")


def test_another_process_has_a_worker_of_its_own():
    script = (
        "import cloche\nwith cloche.create_sandbox(backend='wasm') as s:\n    s.execute('1')\n    print(s.guest_pid)"
    )
    with wasm() as sandbox:
        sandbox.execute("1").check()
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": SOURCE}
        )
        assert int(done.stdout) != sandbox.guest_pid, done.stderr


def test_two_sessions_of_one_worker_run_at_the_same_time():
    """Each waits until the other has begun: one after the other would never end."""
    company = threading.Barrier(2)

    def meet(prompt: str) -> int:
        return company.wait(30)

    with wasm(on_llm_query=meet) as one, wasm(on_llm_query=meet) as other:
        calls = [Background(partial(each.execute, "llm_query('here')")) for each in (one, other)]
        assert all(call.result().outcome == "ok" for call in calls)


def test_a_session_that_computes_does_not_hold_up_another():
    with wasm() as busy, wasm() as quick:
        quick.execute("1").check()
        call = Background(lambda: busy.execute("while True: pass", timeout_ms=20_000))
        for _ in range(20):
            assert quick.execute("6 * 7").value == "42"
        busy.cancel()
        assert call.result().outcome == "cancelled"


def test_the_worker_has_no_environment_and_no_descriptor_of_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SOME_API_KEY", "sk-secret")
    with (tmp_path / "secret").open("w") as held:
        os.set_inheritable(held.fileno(), True)
        with wasm() as sandbox:
            sandbox.execute("1").check()
            process = Path("/proc", str(sandbox.guest_pid))
            assert (process / "environ").read_bytes() == b""
            links = [os.readlink(path) for path in (process / "fd").iterdir()]
    assert str(tmp_path / "secret") not in links


def test_the_worker_ends_with_its_host():
    script = textwrap.dedent("""
        import cloche, os, signal
        sandbox = cloche.create_sandbox(backend="wasm")
        sandbox.execute("1").check()
        print(sandbox.guest_pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    pid = int(done.stdout)
    wait_until(lambda: process_start(pid) is None)


def test_a_forked_child_has_a_worker_of_its_own():
    with wasm() as sandbox:
        sandbox.execute("1").check()
        ours = sandbox.guest_pid
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            try:
                with wasm() as own:
                    own.execute("1").check()
                    os.write(writer, str(own.guest_pid).encode())
            finally:
                os._exit(0)
        os.close(writer)
        os.waitpid(child, 0)
        assert int(os.read(reader, 100)) != ours
        os.close(reader)
        assert value(sandbox, "1 + 1") == "2", "the parent's is as it was"


def test_shutting_down_ends_every_worker():
    with wasm() as sandbox:
        sandbox.execute("1").check()
        pids = worker_pids()
        workers.close()
        assert all(process_start(pid) is None for pid in pids)
        with pytest.raises(cloche.SessionLostError):
            sandbox.execute("1")
        assert value(sandbox, "1 + 1") == "2"


def test_a_guest_that_cannot_begin_says_why():
    """The interpreter itself needs more than that."""
    with wasm(memory_bytes=16 * 2**20) as sandbox, pytest.raises(cloche.StartError, match="memory"):
        sandbox.execute("1")


def test_most_of_the_standard_library_is_there():
    """What is missing needs an operating system, or a library in C."""
    names = sorted(name for name in sys.stdlib_module_names if not name.startswith("_"))
    code = (
        f"failed = []\nfor name in {names!r}:\n"
        "    try: __import__(name)\n    except ImportError: failed.append(name)\n"
        f"{len(names)} - len(failed)"
    )
    with wasm() as sandbox:
        found = int(str(value(sandbox, code)))
        assert found >= 165, sandbox.get_variable("failed")


def test_asyncio_works():
    code = """
import asyncio
async def work(n):
    await asyncio.sleep(0.01 * n)
    return n
async def main():
    async with asyncio.timeout(5):
        return await asyncio.gather(*(work(n) for n in range(3)))
asyncio.run(main())
"""
    with wasm() as sandbox:
        assert value(sandbox, code) == "[0, 1, 2]"
        assert value(sandbox, "await work(1)") == "1"


def test_line_numbers_are_those_of_the_cell():
    with wasm() as sandbox:
        result = sandbox.execute("x = 1\n\nraise ValueError('here')")
        assert result.exception is not None
        assert result.exception.line == 3
