"""The guest as a process: what it sees, what it may use, and that it goes."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest
from tests.native.watching import has_ended, open_process

from cloche import ExecutionPolicy, Isolation, NativePythonSandbox
from cloche.session.processes import process_start

MIB = 1024 * 1024


# -- what it sees ------------------------------------------------------------------------------


def test_no_variable_of_the_host_is_visible_but_the_few_that_are_allowed(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-the-host")
    monkeypatch.setenv("LD_PRELOAD_NOTE", "sk-secret-of-the-host")
    monkeypatch.setenv("PYTHONPATH", "/sk-secret-of-the-host")
    monkeypatch.setenv("TZ", "UTC")
    with NativePythonSandbox() as sandbox:
        seen = sandbox.execute("import os\ndict(os.environ)").value
        raw = sandbox.execute("open('/proc/self/environ').read()").value
        child = sandbox.execute("import os\nos.system('env')").stdout
    assert seen is not None
    assert raw is not None
    for text in (seen, raw, child):
        assert "sk-secret" not in text
        assert "TZ" in text
    assert set(eval(seen)) <= {
        "PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH", "HOME", "TMPDIR", "PWD", "MPLBACKEND",
        "GLIBC_TUNABLES",
    }  # fmt: skip


def test_the_secret_is_not_in_the_memory_that_was_inherited(monkeypatch):
    """The guest is spawned anew and not forked: nothing of the host's memory is in it."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-the-host")
    code = (
        "found = False\nneedle = bytes([115, 107, 45]) + b'secret-of-' + b'the-host'\n"
        "for line in open('/proc/self/maps'):\n"
        "    if '[stack]' in line:\n"
        "        low, high = (int(x, 16) for x in line.split()[0].split('-'))\n"
        "        memory = open('/proc/self/mem', 'rb')\n        memory.seek(low)\n"
        "        found = needle in memory.read(high - low)\nfound"
    )
    with NativePythonSandbox() as sandbox:
        result = sandbox.execute(code)
    assert (result.outcome, result.value) == ("ok", "False"), result.error


def test_variables_that_the_policy_gives_are_there():
    with NativePythonSandbox(ExecutionPolicy(environment={"MODE": "test", "HOME": "/elsewhere"})) as sandbox:
        assert sandbox.execute("import os\nos.environ['MODE'], os.environ['HOME']").value == "('test', '/elsewhere')"


def test_home_and_temporary_files_lie_in_the_session_and_outside_of_the_workspace():
    with NativePythonSandbox() as sandbox:
        result = sandbox.execute(
            "import os, tempfile\nwith open(os.path.expanduser('~/config'), 'w'): pass\n"
            "tempfile.NamedTemporaryFile(delete=False)\nos.path.expanduser('~'), tempfile.gettempdir(), os.getcwd()"
        )
        assert result.value is not None
        home, temporary, work = eval(result.value)
        assert result.files_created == ()
        assert Path(home).parent == Path(work).parent
        assert Path(temporary).is_relative_to(home)
    assert not Path(home).exists()


def test_the_working_directory_is_the_workspace(tmp_path):
    (tmp_path / "data.txt").write_text("given")
    with NativePythonSandbox(workspace=tmp_path) as sandbox:
        result = sandbox.execute("import os\nopen('out.txt', 'w').write('made')\nos.getcwd(), open('data.txt').read()")
        assert result.value == repr((str(tmp_path), "given"))
        assert result.files_created == ("out.txt",)
        assert result.workspace_path == str(tmp_path)
    assert (tmp_path / "out.txt").read_text() == "made"


def test_a_relative_workspace_is_that_of_the_moment_it_was_given(tmp_path, monkeypatch):
    (tmp_path / "work").mkdir()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with NativePythonSandbox(workspace="work") as sandbox:
        monkeypatch.chdir(tmp_path / "elsewhere")
        assert sandbox.execute("import os\nos.getcwd()").value == repr(str(tmp_path / "work"))


def test_a_module_in_the_workspace_can_be_imported_and_does_not_hide_the_library():
    with NativePythonSandbox() as sandbox:
        sandbox.put_file("mine.py", "x = 5")
        sandbox.put_file("json.py", "raise SystemError")
        assert sandbox.execute("import mine, json\nmine.x, json.dumps(1)").value == "(5, '1')"
        sandbox.put_file("later.py", "x = 6")
        assert sandbox.execute("import later\nlater.x").value == "6"


LIST_DESCRIPTORS = """
import os
def what(fd):
    try: return os.readlink('/proc/self/fd/%d' % fd).split(':')[0]
    except OSError: return None
sorted((fd, what(fd)) for fd in map(int, os.listdir('/proc/self/fd')) if what(fd))
"""


def test_no_descriptor_of_the_host_is_inherited(tmp_path):
    with open(tmp_path / "secret", "w") as handle, socket.socket() as listener:
        os.set_inheritable(handle.fileno(), True)
        listener.set_inheritable(True)
        with NativePythonSandbox() as sandbox:
            value = sandbox.execute(LIST_DESCRIPTORS).value
    assert value is not None
    found = dict(eval(value))
    assert found[0] == "/dev/null"
    assert found[1] == found[2] == "pipe"
    others = sorted(kind for number, kind in found.items() if number > 2)
    assert others.count("socket") == 2, "the wire, once for each direction"
    assert set(others) <= {"socket", "pipe"}
    assert min(number for number in found if number > 2) >= 200, "out of the way of code that closes all it sees"


def test_children_of_the_guest_get_neither_the_wire_nor_the_lifeline():
    with NativePythonSandbox() as sandbox:
        result = sandbox.execute("import subprocess\nsubprocess.call(['ls', '-l', '/proc/self/fd'], close_fds=False)")
    kinds = [line.split(" -> ")[1].split(":")[0] for line in result.stdout.splitlines() if " -> " in line]
    assert "socket" not in kinds
    assert kinds.count("pipe") == 2, result.stdout


def test_the_guest_has_a_process_group_of_its_own():
    with NativePythonSandbox() as sandbox:
        value = sandbox.execute("import os\nos.getpgrp() == os.getpid(), os.getppid()").value
    assert value == repr((True, os.getpid()))


# -- what it may use ---------------------------------------------------------------------------


def test_memory_is_bounded_and_the_session_survives():
    with NativePythonSandbox(ExecutionPolicy(memory_bytes=256 * MIB)) as sandbox:
        result = sandbox.execute("kept = 1\nx = bytearray(400 * 2**20)")
        assert (result.outcome, result.session_state, result.exit_code) == ("memory", "kept", 137)
        assert result.guidance is not None
        assert "256 MiB" in result.guidance
        assert sandbox.execute("x = bytearray(50 * 2**20)\nkept").value == "1"


def test_memory_is_unbounded_when_the_policy_says_so():
    with NativePythonSandbox(ExecutionPolicy(memory_bytes=None)) as sandbox:
        assert sandbox.execute("import resource\nresource.getrlimit(resource.RLIMIT_DATA)[0] == -1").value == "True"


def test_a_file_cannot_grow_beyond_the_quota():
    with NativePythonSandbox(ExecutionPolicy(workspace_bytes=1 * MIB)) as sandbox:
        result = sandbox.execute("with open('big', 'wb') as f:\n    for _ in range(100): f.write(b'x' * 100_000)")
        assert result.outcome == "error"
        assert "File too large" in (result.error or "")
        assert sandbox.execute("import os\nos.path.getsize('big') <= 2**20").value == "True"


def test_descriptors_are_bounded():
    with NativePythonSandbox(ExecutionPolicy(open_files=64)) as sandbox:
        result = sandbox.execute("files = [open('/dev/null') for _ in range(100)]")
        assert "Too many open files" in (result.error or "")
        assert sandbox.execute("1 + 1").value == "2"


def test_limits_cannot_be_raised_again():
    with NativePythonSandbox(ExecutionPolicy(open_files=64)) as sandbox:
        code = "import resource\nresource.getrlimit(resource.RLIMIT_NOFILE), resource.getrlimit(resource.RLIMIT_CORE)"
        assert sandbox.execute(code).value == "((64, 64), (0, 0))"


def test_a_crash_leaves_no_core_file():
    with NativePythonSandbox() as sandbox:
        result = sandbox.execute("import os\nos.abort()")
        assert result.files_created == ()


# -- what is said of it ------------------------------------------------------------------------


def test_it_claims_to_be_a_process_and_not_more():
    with NativePythonSandbox() as sandbox:
        assert sandbox.isolation is Isolation.PROCESS
        result = sandbox.execute("1")
    assert result.isolation is Isolation.PROCESS
    assert set(result.layers) == {"process", "environment", "lifeline", "rlimits"}


@pytest.mark.parametrize("layer", ["rlimits", "lifeline"])
def test_a_layer_that_is_masked_is_neither_there_nor_claimed(monkeypatch, layer):
    monkeypatch.setenv("CLOCHE_MASK_LAYERS", layer)
    with NativePythonSandbox(ExecutionPolicy(open_files=64)) as sandbox:
        result = sandbox.execute("import resource\nresource.getrlimit(resource.RLIMIT_NOFILE)[0] == 64")
    assert layer not in result.layers
    assert result.value == ("False" if layer == "rlimits" else "True")


# -- its end -----------------------------------------------------------------------------------

START_CHILDREN = """
import os, subprocess
first = subprocess.Popen(['sleep', '600'])
second = subprocess.Popen(['sh', '-c', 'sleep 600 & wait'])
os.getpid(), first.pid, second.pid
"""


@pytest.mark.parametrize("end", ["destroy", "reset", "os._exit", "kill", "timeout"])
def test_what_the_guest_started_goes_with_it(end):
    sandbox = NativePythonSandbox(ExecutionPolicy(grace_ms=100))
    try:
        value = sandbox.execute(START_CHILDREN).value
        assert value is not None
        watched = [open_process(pid) for pid in eval(value)]
        if end == "destroy":
            sandbox.destroy()
        elif end == "reset":
            sandbox.reset()
        elif end == "os._exit":
            sandbox.execute("import os\nos._exit(0)")
        elif end == "kill":
            sandbox.execute("import os\nos.kill(os.getpid(), 9)")
        else:
            block = "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGUSR2])\n"
            sandbox.execute(block + "while True: pass", timeout_ms=100)
        assert [has_ended(process) for process in watched] == [True] * 3
    finally:
        sandbox.destroy()


def test_a_child_that_keeps_the_output_open_does_not_keep_the_cell_open():
    with NativePythonSandbox() as sandbox:
        result = sandbox.execute(
            "import subprocess\nchild = subprocess.Popen(['sh', '-c', 'echo hello; sleep 600'], bufsize=0)"
        )
        assert result.outcome == "ok"
        assert sandbox.execute("1 + 1").value == "2"


def test_destroy_may_be_called_again_and_while_nothing_was_started():
    sandbox = NativePythonSandbox()
    sandbox.destroy()
    sandbox.destroy()
    with NativePythonSandbox() as other:
        pid = int(other.execute("import os; os.getpid()").value or "")
        other.destroy()
        other.destroy()
        assert process_start(pid) is None


def test_a_guest_that_was_stopped_by_a_signal_is_ended_all_the_same():
    with NativePythonSandbox(ExecutionPolicy(grace_ms=100)) as sandbox:
        result = sandbox.execute("import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", timeout_ms=100)
        assert (result.outcome, result.session_state) == ("timeout", "reset")


SIGCHLD_HOST = """
import os, signal, sys
import cloche
if sys.argv[1] == "ignored":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
else:
    def reap(number, frame):
        while True:
            try:
                if os.waitpid(-1, os.WNOHANG) == (0, 0):
                    return
            except ChildProcessError:
                return
    signal.signal(signal.SIGCHLD, reap)
with cloche.create_sandbox(backend="native", grace_ms=100) as sandbox:
    print(sandbox.execute("6 * 7").value)
    print(sandbox.execute("import os; os._exit(3)").session_state)
    print(sandbox.execute("import os; os.kill(os.getpid(), 9)").outcome)
    deaf = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGUSR2])\\nwhile True: pass"
    print(sandbox.execute(deaf, timeout_ms=100).outcome)
    print(sandbox.execute("1 + 1").value)
"""


@pytest.mark.parametrize("mode", ["ignored", "reaped"])
def test_a_host_that_does_not_leave_its_children_to_us_is_served_all_the_same(mode):
    import sys

    done = subprocess.run([sys.executable, "-c", SIGCHLD_HOST, mode], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("42\nreset\nkilled\ntimeout\n2\n", "")


def test_running_as_a_child_of_a_shell_pipeline_does_not_matter(tmp_path):
    """stdin and stdout of the host are its own, also when they are closed."""
    import sys

    code = "import cloche; r = cloche.run('print(6 * 7)', backend='native'); open('out', 'w').write(r.stdout)"
    command = f'exec "{sys.executable}" -c "{code}" <&- >&- 2>&-'
    subprocess.run(["sh", "-c", command], cwd=tmp_path, check=True, env={**os.environ, "CLOCHE_CONFIG": ""})
    assert (tmp_path / "out").read_text() == "42\n"
