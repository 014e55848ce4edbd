"""The same code in the same guest does the same, to the last instruction."""

from __future__ import annotations

import pytest
from tests.wasm.sessions import value, wasm

CELL = """
import datetime, os, random, secrets, time, uuid
time.sleep(0.5)
[{str(n) for n in range(20)}, time.time(), time.monotonic(), time.perf_counter(), random.random(), uuid.uuid4(),
 id(object()), os.urandom(4), secrets.token_hex(4), hash("text"), datetime.datetime.now(), random.sample(range(99), 5)]
"""


def test_the_same_cell_gives_the_same_25_times_of_25():
    found = set()
    for _ in range(25):
        with wasm(deterministic=True) as sandbox:
            result = sandbox.execute(CELL).check()
            second = sandbox.execute("import time; time.time()").check()
            found.add((result.value, result.fuel_consumed, second.value, second.fuel_consumed))
    assert len(found) == 1


def test_without_the_demand_two_sessions_differ():
    with wasm() as one, wasm() as other:
        code = "import os, random; (random.random(), os.urandom(8))"
        assert value(one, code) != value(other, code)


def test_the_clock_begins_at_a_fixed_moment_and_runs():
    with wasm(deterministic=True) as sandbox:
        assert value(sandbox, "import datetime; datetime.datetime.now().year") == "2000"
        assert (
            value(sandbox, "import time; a = time.monotonic()\nfor _ in range(10**5): pass\ntime.monotonic() > a")
            == "True"
        )


def test_sleep_moves_the_clock_on_without_waiting():
    with wasm(deterministic=True) as sandbox:
        code = "import time; a = time.time(); time.sleep(100_000); round(time.time() - a)"
        assert value(sandbox, code) == "100000"


def test_a_deadline_still_counts_real_time():
    with wasm(deterministic=True) as sandbox:
        assert sandbox.execute("while True: pass", timeout_ms=100).outcome == "timeout"


@pytest.mark.parametrize("budget", [1_000_000, 5_000_000])
def test_a_budget_ends_at_the_same_place(budget: int):
    """How far the code came is in its file."""
    code = "n = 0\nf = open('/app/far', 'w')\nwhile True:\n    n += 1\n    f.seek(0); f.write(str(n)); f.flush()"
    reached = set()
    for _ in range(3):
        with wasm(deterministic=True, fuel_budget=budget) as sandbox:
            sandbox.execute(code)
            reached.add(sandbox.get_file("far"))
    assert len(reached) == 1
