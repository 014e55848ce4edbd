"""Many sessions at once: they work, they end, and nothing of them stays."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from tests.jail.sessions import SOURCES, jail, value

import cloche
from cloche.backends.interpreter import examine
from cloche.backends.jail.houses import SCIENTIFIC, houses
from cloche.conformance.waiting import wait_until
from cloche.session.processes import process_start

MANY = 200
DESCRIPTORS = 13
"""Of this process for one session: three sockets, five ends of pipes, two handles, its folder, and its cgroups."""
SET = ("json",)


@pytest.fixture
def enough_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MANY * DESCRIPTORS + 512
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"{MANY} sessions need {wanted} descriptors; this process may have {hard} (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_two_hundred_sessions_with_pandas_work_at_once_and_end_cleanly(enough_descriptors: None) -> None:
    pytest.importorskip("pandas")
    houses.warm(examine(None, "jail"), SCIENTIFIC)
    with jail() as sandbox:  # what this process keeps for ever is opened now
        sandbox.execute("1").check()
    before = descriptors()
    sandboxes: list[cloche.SessionSandbox] = []
    try:
        for number in range(MANY):
            sandboxes.append(jail())
            loaded = f"import sys\nloaded = 'pandas' in sys.modules\nmine = {number}\nloaded"
            assert value(sandboxes[-1], loaded) == "True"
        assert descriptors() - before <= (MANY + 16) * DESCRIPTORS
        for number, sandbox in enumerate(sandboxes):  # every one of them, while all of them are there
            seen = value(sandbox, "import pandas\nmine, int(pandas.Series([1, 2, mine]).sum())")
            assert seen == repr((number, 3 + number))
        pids = [sandbox.guest_pid for sandbox in sandboxes]
        assert len(set(pids)) == MANY
    finally:
        for sandbox in sandboxes:
            sandbox.destroy()
    assert [pid for pid in pids if pid is not None and process_start(pid) is not None] == []
    houses.close()
    wait_until(lambda: descriptors() <= before)


def test_many_threads_make_sessions_at_once(enough_descriptors: None) -> None:
    houses.warm(examine(None, "jail"), SET)
    start = threading.Barrier(32)
    seen: list[tuple[int, str | None, int | None]] = []

    def use(number: int) -> None:
        start.wait()
        with jail(preload=SET) as sandbox:
            seen.append((number, value(sandbox, f"{number} * 2"), sandbox.guest_pid))

    callers = [threading.Thread(target=use, args=(number,)) for number in range(32)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert sorted((number, doubled) for number, doubled, _ in seen) == [(n, str(2 * n)) for n in range(32)]
    assert len({pid for _, _, pid in seen}) == 32


SCRIPT = """
import json, os, resource, cloche
from cloche.backends.jail import spares
spares.MOST_OF_ALL = 0  # they would take what is counted here

def open_one():
    sandbox = cloche.create_sandbox(backend="jail", preload=())
    try:
        sandbox.execute("1").check()
    except BaseException:
        sandbox.destroy()
        raise
    return sandbox

first = open_one()
first.execute("kept = 1").check()
open_one().destroy()
told, living, leaked = [], [], []
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
before = len(os.listdir("/proc/self/fd"))
for room in range(2, 34):  # so that the last one is missing at every place in turn
    resource.setrlimit(resource.RLIMIT_NOFILE, (before - 1 + room, hard))
    opened = []
    try:
        while True:
            opened.append(open_one())
    except cloche.ClocheError as exc:
        told.append([type(exc).__name__, exc.message, exc.remedy])
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    living += [sandbox.execute("1 + 1").value for sandbox in opened]
    for sandbox in opened:
        sandbox.destroy()
    leaked.append(len(os.listdir("/proc/self/fd")) - before)
print(json.dumps([told, living, leaked, first.execute("kept").value]))
"""


def test_a_process_without_descriptors_is_told_and_goes_on() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=50,
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told, living, leaked, kept = json.loads(done.stdout)
    assert {kind for kind, _, _ in told} == {"StartError"}, told
    assert [text for _, text, remedy in told if "ulimit -n" not in (remedy or "")] == []
    assert living
    assert set(living) == {"2"}
    assert max(leaked) <= 0, leaked
    assert kept == "1"
