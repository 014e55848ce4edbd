"""A session that takes all it can get of something: it alone is without, its neighbours and the next one are not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.wasm.sessions import value, wasm

import cloche

FILES = "held = []\ntry:\n    while True: held.append(open('file%d' % len(held), 'w'))\nexcept OSError: pass\nlen(held)"
ONE_FILE = FILES.replace("'file%d' % len(held)", "'file'")
FOLDERS = (
    "import os\nheld = []\ntry:\n    while True: held.append(os.open('/app', os.O_RDONLY))\n"
    "except OSError: pass\nlen(held)"
)
STREAMS = "import os\nheld = []\ntry:\n    while True: held.append(os.scandir('/app'))\nexcept OSError: pass\nlen(held)"


@pytest.mark.parametrize("taking", [FILES, ONE_FILE, FOLDERS, STREAMS], ids=["files", "one", "folders", "streams"])
def test_a_session_out_of_descriptors_hurts_itself_alone(taking: str):
    with wasm(timeout_ms=60_000) as greedy, wasm() as neighbour:
        neighbour.execute("x = 1\nopen('a', 'w').write('text')").check()
        held = greedy.execute(taking)
        assert held.outcome in ("ok", "killed", "error")
        assert neighbour.execute("open('a').read(), open('b', 'w').write('more'), x").value == "('text', 4, 1)"
        with wasm() as fresh:
            assert value(fresh, "open('a', 'w').write('text')") == "4"
        assert value(neighbour, "x") == "1"
        greedy.execute("held = None")
        greedy.reset()
        assert value(greedy, "open('a', 'w').write('text')") == "4"


def test_the_number_of_open_files_is_bounded_for_each_session():
    with wasm(timeout_ms=60_000) as one, wasm(timeout_ms=60_000) as other:
        for sandbox in (one, other):
            assert 500 < int(value(sandbox, FILES) or 0) < 1024
            assert value(sandbox, "len(held)") != "0", "it goes on"


def test_a_neighbour_can_be_interrupted_and_ended_while_another_holds_every_descriptor():
    with wasm(timeout_ms=60_000) as greedy, wasm() as neighbour:
        neighbour.execute("1").check()
        greedy.execute(FILES).check()
        assert neighbour.execute("while True: pass", timeout_ms=200).session_state == "kept"
        assert greedy.execute("while True: pass", timeout_ms=200).outcome == "timeout"


def test_a_session_whose_process_cannot_be_had_is_refused_alone():
    """The limit of processes, as a machine without any left would have it."""
    from cloche.backends.wasm.workers import workers

    with wasm() as kept:
        kept.execute("x = 1").check()
        (worker,) = workers._found.values()
        workers.close_idle()
        import resource

        before = resource.prlimit(worker.pid, resource.RLIMIT_AS)
        resource.prlimit(worker.pid, resource.RLIMIT_AS, (1 << 20, before[1]))
        try:
            with wasm() as refused, pytest.raises(cloche.ClocheError):
                refused.execute("1").check()
        finally:
            resource.prlimit(worker.pid, resource.RLIMIT_AS, before)
        assert value(kept, "x") == "1"
        with wasm() as fresh:
            assert value(fresh, "1 + 1") == "2"


def test_the_memory_of_the_process_is_bounded_with_the_guests():
    with wasm(memory_bytes=64 * 2**20) as sandbox, wasm() as neighbour:
        neighbour.execute("x = 1").check()
        sandbox.execute("1").check()
        limits = Path("/proc", str(sandbox.guest_pid), "limits").read_text()
        soft = next(line.split()[3] for line in limits.splitlines() if line.startswith("Max data size"))
        assert int(soft) < 2**30
        assert sandbox.execute("x = bytearray(20_000_000); len(x)").value == "20000000"
        assert value(neighbour, "x") == "1"


def test_sessions_leave_no_descriptor_in_their_process():
    with wasm() as kept:
        kept.execute("1").check()
        counts = set()
        for _ in range(4):
            with wasm() as sandbox:
                sandbox.execute("held = [open('f%d' % n, 'w') for n in range(50)]").check()
                pid = sandbox.guest_pid
                sandbox.execute("held = None").check()
                counts.add(len(os.listdir(f"/proc/{pid}/fd")))
        assert max(counts) - min(counts) <= 2
