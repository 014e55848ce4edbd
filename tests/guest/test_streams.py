"""Whatever a cell does to its streams, the next cell's output is captured."""

from __future__ import annotations

import pytest
from tests.guest.sessions import executable, sandbox

from cloche import ExecutionPolicy, NativePythonSandbox

__all__ = ["executable", "sandbox"]

DAMAGE = {
    "none": "import sys\nsys.stdout = sys.stderr = None",
    "deleted": "import sys\ndel sys.stdout, sys.stderr",
    "replaced": "import sys, io\nsys.stdout = sys.stderr = io.StringIO()",
    "closed": "import sys\nsys.stdout.close()\nsys.stderr.close()",
    "detached": "import sys\nsys.stdout.detach()\nsys.stderr.detach()",
    "buffer closed": "import sys\nsys.stdout.buffer.close()",
    "descriptors closed": "import os\nos.close(1)\nos.close(2)",
    "descriptors elsewhere": "import os\nnull = os.open('/dev/null', os.O_RDWR)\nos.dup2(null, 1)\nos.dup2(null, 2)",
    "descriptors swapped": "import os\nos.dup2(1, 9)\nos.dup2(2, 1)\nos.dup2(9, 2)",
    "all low closed": "import os\nos.closerange(0, 100)",
    "equal to all": """import sys
class Equal:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def write(self, text): pass
    def flush(self): pass
sys.stdout = sys.stderr = Equal()""",
    "raising": """import sys
class Raising:
    def __getattribute__(self, name): raise SystemError
sys.stdout = Raising()""",
    "hanging": """import sys
class Hanging:
    def write(self, text): pass
    def flush(self):
        while True: pass
sys.stdout = Hanging()""",
    "original closed": "import sys\nsys.__stdout__.close()",
    "reconfigured": "import sys\nsys.stdout.reconfigure(encoding='utf-16', errors='strict', newline='X')",
    "write replaced": "import sys\nsys.stdout.write = None",
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_streams_are_repaired_after_each_cell(sandbox: NativePythonSandbox, damage):
    sandbox.execute("x = 'kept'")
    first = sandbox.execute(damage, timeout_ms=400)
    assert first.session_state == "kept", first.error
    for _ in range(2):
        result = sandbox.execute(
            "import os, sys\nprint('out')\nprint('err', file=sys.stderr)\nsys.stdout.flush()\n"
            "os.write(1, b'raw out')\nos.write(2, b'raw err')\nos.system('echo child')\nx"
        )
        assert (result.outcome, result.value) == ("ok", "'kept'"), result.error
        assert result.stdout == "out\nraw outchild\n"
        assert result.stderr == "err\nraw err"


def test_output_redirected_within_the_cell_is_not_the_cells_output(sandbox: NativePythonSandbox):
    code = "import io, contextlib\nwith contextlib.redirect_stdout(io.StringIO()) as f: print('inside')"
    result = sandbox.execute(code + "\nprint('outside')\nf.getvalue()")
    assert (result.stdout, result.value) == ("outside\n", r"'inside\n'")


def test_what_a_thread_prints_after_the_cell_belongs_to_the_next(sandbox: NativePythonSandbox):
    sandbox.execute("import threading\ngo = threading.Event()\ndef work():\n    go.wait()\n    print('late')")
    sandbox.execute("thread = threading.Thread(target=work)\nthread.start()")
    result = sandbox.execute("go.set()\nthread.join()")
    assert result.stdout == "late\n"


def test_what_was_printed_before_a_kill_is_there(executable):
    deaf = "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGUSR2])\n"
    with NativePythonSandbox(ExecutionPolicy(grace_ms=200), python=executable) as sandbox:
        result = sandbox.execute(deaf + "print('seen')\nwhile True: pass", timeout_ms=200)
    assert (result.outcome, result.session_state, result.stdout) == ("timeout", "reset", "seen\n")
