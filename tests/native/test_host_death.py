"""When the host dies, however it dies, the guest and its children go too."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.native.watching import has_ended, open_process, read_line, run_script

from cloche.session.folder import find_sessions

BUSY = (
    "import os, subprocess, sys\\n"
    "children = [subprocess.Popen(['sleep', '600']).pid, subprocess.Popen(['sh', '-c', 'sleep 600 & wait']).pid]\\n"
    "print(os.getpid(), *children, flush=True)\\n"
)
ENDLESS = "while True: pass"
DEAF = "import signal\\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))\\nwhile True: pass"

HOST = """
import sys, threading
import cloche
sandbox = cloche.create_sandbox(backend="native")
if sys.argv[1] == "thread":
    thread = threading.Thread(target=sandbox.initialize)
    thread.start()
    thread.join()
sandbox.execute(%r, on_output=lambda stream, text: print(text, end="", flush=True), timeout_ms=600_000)
"""


@pytest.fixture(autouse=True)
def own_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "sessions"
    monkeypatch.setenv("CLOCHE_SESSIONS_DIR", str(folder))
    return folder


def host_script(work: str) -> str:
    return HOST % (BUSY + work).replace("\\n", "\n")


@pytest.mark.parametrize("work", [ENDLESS, DEAF], ids=["busy", "deaf"])
@pytest.mark.parametrize("spawned_by", ["main", "thread"])
def test_a_host_that_is_killed_takes_a_busy_guest_and_its_children_along(work, spawned_by):
    host = run_script(host_script(work), spawned_by)
    watched = [open_process(int(pid)) for pid in read_line(host).split()]
    assert len(watched) == 3
    host.kill()
    assert [has_ended(process) for process in watched] == [True] * 3
    host.communicate()
    (left,) = find_sessions()
    assert left.stale
    left.clean()


def test_a_thread_that_spawned_and_ended_does_not_take_the_guest_along():
    host = run_script(host_script("print('still here', flush=True)"), "thread")
    read_line(host)
    assert read_line(host) == "still here"
    host.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_host_that_ends_by_a_signal_takes_its_guest_along(number):
    host = run_script(host_script(ENDLESS), "main")
    watched = [open_process(int(pid)) for pid in read_line(host).split()]
    host.send_signal(number)
    assert [has_ended(process) for process in watched] == [True] * 3
    host.communicate()


@pytest.mark.parametrize("last", ["", "del sandbox", "raise SystemExit(3)", "1/0", "import os; os._exit(0)"])
def test_a_host_that_ends_without_destroying_leaves_no_process(last):
    code = (
        "import cloche\nsandbox = cloche.create_sandbox(backend='native')\n"
        f"print(sandbox.execute('import os; os.getpid()').value, flush=True)\ninput()\n{last}"
    )
    import subprocess
    import sys

    host = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    guest = open_process(int(read_line(host)))
    host.communicate("\n")
    assert has_ended(guest)


def test_a_host_that_ends_in_an_orderly_way_leaves_no_folder(own_sessions):
    code = "import cloche\nsandbox = cloche.create_sandbox(backend='native')\nsandbox.execute('1')"
    host = run_script(code)
    host.communicate()
    assert host.returncode == 0
    assert os.listdir(own_sessions) == []


def test_a_sandbox_that_nobody_holds_any_more_is_ended():
    import gc

    from cloche import NativePythonSandbox

    sandbox = NativePythonSandbox()
    pid = sandbox.execute("import os\nos.getpid()").value
    assert pid is not None
    guest = open_process(int(pid))
    del sandbox
    gc.collect()
    assert has_ended(guest)


def test_children_of_the_host_that_outlive_it_do_not_keep_the_guest_alive():
    """A forked child has a copy of every descriptor; the guest must not take it for its host."""
    code = """
import os, sys, time
import cloche
sandbox = cloche.create_sandbox(backend="native")
guest = sandbox.execute("import os; os.getpid()").value
child = os.fork()
if not child:
    os.close(1)
    time.sleep(600)
print(guest, child, flush=True)
os.kill(os.getpid(), 9)
"""
    host = run_script(code)
    guest, child = map(int, read_line(host).split())
    process = open_process(guest)
    try:
        assert has_ended(process)
    finally:
        os.kill(child, signal.SIGKILL)
        host.communicate()


def test_a_host_that_is_killed_takes_all_of_its_guests_along():
    """Whom the kernel signals belongs to an open file: guests that share one would leave all but the last alive."""
    code = """
import threading
import cloche
cell = "import os\\nprint(os.getpid(), flush=True)\\nwhile True: pass"
def run():
    show = lambda stream, text: print(text, end="", flush=True)
    cloche.create_sandbox(backend="native").execute(cell, on_output=show, timeout_ms=600_000)
for _ in range(3):
    threading.Thread(target=run).start()
"""
    host = run_script(code)
    watched = [open_process(int(read_line(host))) for _ in range(3)]
    host.kill()
    assert [has_ended(process) for process in watched] == [True] * 3
    host.communicate()
