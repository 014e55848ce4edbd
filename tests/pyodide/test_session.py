"""A session in Pyodide: what is particular to this wall. What all walls do is in the conformance suite."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from pathlib import Path

import pytest
from tests.native.watching import has_ended, open_process, read_line, run_script

from cloche import Isolation, SessionSandbox, create_sandbox
from cloche.backends.pyodide import runtime
from cloche.errors import WorkspaceFileError

LONG_GRACE = 20_000


def test_it_is_the_python_that_was_pinned(shared: SessionSandbox):
    assert shared.execute("import sys; sys.version_info[:2], sys.platform").value == "((3, 14), 'emscripten')"


def test_a_result_names_the_tier_and_the_layers(shared: SessionSandbox):
    result = shared.execute("1")
    assert result.isolation is Isolation.CONFINED
    assert {"permissions", "network", "webassembly"} <= set(result.layers)


def test_memory_is_measured(shared: SessionSandbox):
    used = shared.execute("1").memory_used_bytes
    assert used is not None
    assert used >= 20 << 20


# -- what would end the interpreter ----------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        "import os; os.getuid(), os.getgid()",
        "import os; os.umask(0o22), os.getcwd(), os.uname(), os.cpu_count(), os.urandom(4), os.getpid()",
        "import time; time.localtime(), time.strftime('%Z')",
        "import locale, getpass, platform; platform.platform()",
    ],
)
def test_what_asks_about_the_system_gets_an_answer(shared: SessionSandbox, code: str):
    assert shared.execute(code).success


@pytest.mark.parametrize(
    "code",
    [
        "import os; os.system('ls')",
        "import os; os.popen('ls').read()",
        "import os; os.fork()",
        "import os; os.execv('/bin/ls', ['ls'])",
        "import os; os.kill(1, 9)",
        "import os; os.setuid(0)",
        "import os; os.chroot('/')",
        "import os; os.getlogin()",
        "import os; os.link('/etc/passwd', 'x')",
        "import os; os.mknod('x')",
        "import subprocess; subprocess.run(['ls'])",
        "import socket; socket.socketpair()",
        "import socket; socket.create_server(('127.0.0.1', 0))",
        "import socket; socket.create_connection(('127.0.0.1', 80), 5)",
        "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9))",
        "import urllib.request; urllib.request.urlopen('http://127.0.0.1/')",
        "import threading; threading.Thread(target=print).start()",
        "import multiprocessing; multiprocessing.Process(target=print).start()",
        "import concurrent.futures as f; f.ThreadPoolExecutor().submit(print).result()",
        "import resource",
        "import nonesuch",
        "from pyodide.code import run_js; run_js('Promise.reject(new Error(1)); throw new Error(2)')",
        "from pyodide.ffi import run_sync; import js; run_sync(js.Promise.resolve(1))",
    ],
)
def test_what_this_wall_does_not_have_is_refused_and_the_session_lives(shared: SessionSandbox, code: str):
    shared.execute("alive = 1")
    result = shared.execute(code)
    assert (result.outcome, result.session_state) in {("error", "kept"), ("ok", "kept")}
    assert shared.execute("alive").value == "1"


DEEP = {
    "repr": "nested = []\nfor _ in range(100_000): nested = [nested]\nrepr(nested)",
    "pickle": "import pickle\nnested = []\nfor _ in range(100_000): nested = [nested]\npickle.dumps(nested)",
    "compile": "compile('-' * 100_000 + '1', '', 'eval')",
    "compare": "a, b = [], []\nfor _ in range(100_000): a, b = [a], [b]\na == b",
    "json": "import json\njson.loads('[' * 100_000)",
    "python": "def down(n): return down(n + 1)\ndown(0)",
}


@pytest.mark.parametrize("kind", DEEP)
def test_too_deep_a_recursion_is_an_error_and_the_session_lives(shared: SessionSandbox, kind: str):
    shared.execute("alive = 2")
    result = shared.execute(DEEP[kind])
    assert result.session_state == "kept"
    assert result.outcome in ("error", "memory"), result.error
    assert shared.execute("nested = a = b = None\nalive").value == "2"


def test_deep_recursions_do_not_use_the_session_up(shared: SessionSandbox):
    for _ in range(40):
        assert shared.execute(DEEP["compare"]).session_state == "kept"
    assert shared.execute("def down(n): return n and down(n - 1)\ndown(900)").value == "0"


def test_a_session_that_went_too_deep_can_make_many_objects():
    """A collection of garbage must not meet what the recursion left behind."""
    many = "many = [[number] for number in range(300_000)]\nlen(many)"
    with create_sandbox(backend="pyodide") as sandbox:
        sandbox.execute(DEEP["compare"])
        assert [sandbox.execute(many).value for _ in range(3)] == ["300000"] * 3


def test_sessions_of_one_snapshot_have_other_random_numbers(shared: SessionSandbox):
    code = "import random, uuid, os; random.random(), uuid.uuid4(), os.urandom(8)"
    with create_sandbox(backend="pyodide") as other:
        assert shared.execute(code).value != other.execute(code).value


def test_awaiting_works_without_an_event_loop_of_the_browser(shared: SessionSandbox):
    code = "import asyncio\nawait asyncio.gather(*[asyncio.sleep(0.01, n) for n in range(3)])"
    assert shared.execute(code).value == "[0, 1, 2]"
    assert shared.execute("async def f(): return 7\nasyncio.run(f())").value == "7"


def test_a_deterministic_session_is_the_same_each_time(pyodide: runtime.Runtime):
    code = (
        "import random, time, uuid, os, datetime, tempfile\n"
        "began = time.monotonic(); time.sleep(0.02); slept = time.monotonic() - began\n"
        "(random.random(), time.time(), uuid.uuid4(), os.urandom(8), hash('abc'), datetime.datetime.now(), slept,"
        " id(object()), list({'a', 'b', 'c'}), tempfile.mktemp())"
    )
    seen = set()
    for _ in range(3):
        with create_sandbox(backend="pyodide", deterministic=True) as sandbox:
            seen.add(sandbox.execute(code).check().value)
    assert len(seen) == 1
    assert "datetime.datetime(2000, 1, 1" in str(seen)


# -- time --------------------------------------------------------------------------------------


def test_what_cannot_be_interrupted_is_ended_and_says_so(pyodide: runtime.Runtime):
    with create_sandbox(backend="pyodide", grace_ms=200) as sandbox:
        sandbox.execute("x = 1; open('kept', 'w').write('file')")
        result = sandbox.execute("sum(range(10 ** 12))", timeout_ms=300)
        assert (result.outcome, result.session_state) == ("timeout", "reset")
        assert sandbox.execute("'x' in globals(), open('kept').read()").value == "(False, 'file')"


def test_sleep_takes_its_time(shared: SessionSandbox):
    code = "import time; t = time.monotonic(); time.sleep(0.05); time.monotonic() - t >= 0.05"
    assert shared.execute(code).value == "True"


# -- limits ------------------------------------------------------------------------------------


def test_python_memory_is_bounded_by_the_policy(pyodide: runtime.Runtime):
    with create_sandbox(backend="pyodide", memory_bytes=128 << 20) as sandbox:
        sandbox.execute("x = 1")
        result = sandbox.execute("b = bytearray(200_000_000)")
        assert (result.outcome, result.session_state) == ("memory", "kept")
        assert sandbox.execute("x, len(bytearray(20_000_000))").value == "(1, 20000000)"
        # memory beside the interpreter's is bounded too
        hoard = "import js\nhoard = []\nwhile True: hoard.append(js.ArrayBuffer.new(50_000_000))"
        taken = sandbox.execute(hoard, timeout_ms=20_000)
        assert taken.outcome in ("error", "killed")


def test_the_limits_of_the_operating_system_are_set(shared: SessionSandbox):
    shared.execute("1")
    limits = Path(f"/proc/{shared.guest_pid}/limits").read_text()
    rows = {line[:25].strip(): line[26:].split()[0] for line in limits.splitlines()}
    assert rows["Max file size"] == "0"
    assert rows["Max core file size"] == "0"
    assert rows["Max cpu time"] != "unlimited"
    assert rows["Max data size"] != "unlimited"


# -- life --------------------------------------------------------------------------------------


def test_the_environment_of_the_process_has_nothing_of_the_hosts(shared: SessionSandbox):
    shared.execute("1")
    names = {
        line.partition(b"=")[0] for line in Path(f"/proc/{shared.guest_pid}/environ").read_bytes().split(b"\0") if line
    }
    assert names == {b"HOME", b"NO_COLOR", b"DENO_NO_UPDATE_CHECK", b"DENO_DIR"}


def test_a_host_that_is_killed_takes_busy_guests_along(pyodide: runtime.Runtime):
    code = """
import threading
import cloche
def run():
    sandbox = cloche.create_sandbox(backend="pyodide")
    sandbox.execute("1")
    show = lambda stream, text: print(sandbox.guest_pid, flush=True)
    sandbox.execute("print('on', flush=True)\\nwhile True: pass", on_output=show, timeout_ms=600_000)
for _ in range(2):
    threading.Thread(target=run).start()
"""
    host = run_script(code)
    try:
        watched = [open_process(int(read_line(host))) for _ in range(2)]
    finally:
        host.kill()
    assert [has_ended(process) for process in watched] == [True] * 2
    host.communicate()


def test_destroy_leaves_no_process(pyodide: runtime.Runtime):
    sandbox = create_sandbox(backend="pyodide")
    sandbox.execute("1")
    assert sandbox.guest_pid is not None
    process = open_process(sandbox.guest_pid)
    sandbox.destroy()
    assert has_ended(process)


def test_a_process_that_is_killed_between_cells_is_said_to_be_lost(pyodide: runtime.Runtime):
    from cloche.errors import SessionLostError

    with create_sandbox(backend="pyodide") as sandbox:
        sandbox.execute("x = 1")
        assert sandbox.guest_pid is not None
        process = open_process(sandbox.guest_pid)
        os.kill(sandbox.guest_pid, signal.SIGKILL)
        assert has_ended(process)
        with pytest.raises(SessionLostError):
            sandbox.execute("x")
        assert sandbox.execute("'x' in globals()").value == "False"


# -- files -------------------------------------------------------------------------------------


def test_files_come_back_after_the_guest_was_killed(pyodide: runtime.Runtime):
    with create_sandbox(backend="pyodide") as sandbox:
        sandbox.put_file("in/a.txt", "host")
        sandbox.execute("import os; os.makedirs('out/empty'); open('out/b.txt', 'w').write('guest')")
        sandbox.execute("import os; os._exit(1)")
        code = "import os; sorted(os.path.join(r, n) for r, d, f in os.walk('.') for n in d + f)"
        assert sandbox.execute(code).value == "['./in', './in/a.txt', './out', './out/b.txt', './out/empty']"


def test_a_given_folder_is_followed_in_both_directions(pyodide: runtime.Runtime, tmp_path: Path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "gone").write_text("1")
    with create_sandbox(backend="pyodide", workspace=tmp_path) as sandbox:
        assert sandbox.execute("import os; sorted(os.listdir())").value == "['empty', 'gone']"
        (tmp_path / "gone").unlink()
        (tmp_path / "late").write_text("by the host")
        result = sandbox.execute("open('empty/made', 'w').write('by the guest'); sorted(os.listdir())")
        assert result.value == "['empty', 'late']"
        assert result.files_created == ("empty/made",)
        assert (tmp_path / "empty" / "made").read_text() == "by the guest"
        sandbox.execute("os.remove('late')")
        assert not (tmp_path / "late").exists()


def test_a_folder_that_is_too_large_is_refused(pyodide: runtime.Runtime, tmp_path: Path):
    (tmp_path / "big").write_bytes(bytes(2_000_000))
    with (
        create_sandbox(backend="pyodide", workspace=tmp_path, workspace_bytes=1_000_000) as sandbox,
        pytest.raises(WorkspaceFileError, match="2000000 bytes"),
    ):
        sandbox.execute("1")


def test_a_large_file_goes_through_whole(shared: SessionSandbox):
    data = os.urandom(3_000_000)
    shared.put_file("big.bin", data)
    code = (
        "import hashlib; data = open('big.bin', 'rb').read(); open('copy.bin', 'wb').write(data + b'!')\n"
        "hashlib.sha256(data).hexdigest()"
    )
    assert shared.execute(code).value == repr(hashlib.sha256(data).hexdigest())
    assert shared.get_file("copy.bin") == data + b"!"


def test_two_writes_within_one_tick_of_the_clock_are_both_seen(shared: SessionSandbox):
    for turn in range(20):
        shared.execute(f"f = open('quick', 'w'); f.write('{turn:02}'); f.close()")
        assert shared.get_file("quick") == b"%02d" % turn


@pytest.mark.parametrize("count", [1, 3])
def test_a_late_interrupt_does_not_reach_the_next_cell(shared: SessionSandbox, count: int):
    for _ in range(count * 5):
        shared.execute("while True: pass", timeout_ms=30)
        began = time.monotonic()
        result = shared.execute("total = 0\nfor n in range(50_000): total += n\ntotal")
        assert (result.outcome, result.value) == ("ok", "1249975000"), time.monotonic() - began
