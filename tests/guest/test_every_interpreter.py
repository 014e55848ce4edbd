"""What a session must do, on every interpreter found."""

from __future__ import annotations

import pytest
from tests.guest.sessions import executable, sandbox, version

from cloche import ExecutionPolicy, NativePythonSandbox

__all__ = ["executable", "sandbox", "version"]

Sandbox = NativePythonSandbox

LAST_EXPRESSIONS = (
    ("1 + 1", "2"), ("x = 5", None), ("x = 5\nx", "5"), ("x = 5;", None), ("5;", None), ("None", None),
    ("'a'", "'a'"), ("x = 5 # c\n\n\nx # c\n", "5"), ("if True:\n    5", None), ("", None), ("# only", None),
    ("'''a\nb'''", r"'a\nb'"), ("x = [\n1,\n2]\nx", "[1, 2]"), ("x = 1; x + 1", "2"), ("_ = 3\n_", "3"),
    ("1 + 1\r\n", "2"), ("x = 1\r\nx\r\n", "1"),
)  # fmt: skip
FAILING = (
    "1 +", "raise ValueError from KeyError()", "try:\n    1/0\nexcept Exception:\n    {}['x']", "import nosuchmodule",
    "echo(object(), 5, 6)", "llm_query('x')", "await 5", "async def f(): 1/0\nawait f()",
    "import asyncio\nasync def f(): 1/0\nawait asyncio.gather(f(), f())", "[].sort(key=1, nonsense=2)\n1/0",
    "import json\njson.loads('{')", "class A:\n    def __repr__(self): 1/0\nA()", "display(display)\n1/0",
    "exec('1/0')", "eval('1/0')", "search_context('(')", "chunk_text('abc', 1, 5)", "input()", "x = 1\n  y = 2",
)  # fmt: skip


def test_it_is_the_interpreter_that_was_asked_for(sandbox: Sandbox, version):
    assert sandbox.execute("import sys\nsys.version_info[:2]").value == repr(version)


def test_variables_live_from_cell_to_cell_and_survive_exceptions(sandbox: Sandbox):
    sandbox.execute("x = 1\ndef double(): return 2 * x")
    sandbox.execute("x = 21\nraise ValueError")
    assert sandbox.execute("double()").value == "42"


def test_the_value_of_a_last_expression(sandbox: Sandbox):
    found = [(code, sandbox.execute(code).value) for code, _ in LAST_EXPRESSIONS]
    assert found == list(LAST_EXPRESSIONS)


def test_an_error_has_its_line_and_its_source_and_nothing_of_ours(sandbox: Sandbox):
    sandbox.execute("def inner():\n    raise KeyError('deep')")
    result = sandbox.execute("x = 1\n\ndef outer():\n    inner()\n\nouter()")
    assert result.outcome == "error"
    assert result.exception is not None
    assert (result.exception.type, result.exception.line) == ("KeyError", 4)
    text = result.exception.traceback
    assert 'File "<cell 2>", line 6, in <module>\n    outer()' in text
    assert 'File "<cell 2>", line 4, in outer\n    inner()' in text
    assert "File \"<cell 1>\", line 2, in inner\n    raise KeyError('deep')" in text
    assert text.count("File ") == 3
    assert "cloche" not in text.lower()
    assert result.stderr == text


def test_no_traceback_shows_a_frame_or_a_path_of_ours(sandbox: Sandbox):
    for code in FAILING:
        result = sandbox.execute(code)
        assert result.outcome == "error", code
        assert result.exception is not None
        for line in result.exception.traceback.splitlines():
            if line.lstrip().startswith("File "):
                assert "cloche" not in line.lower(), result.exception.traceback
                assert ".pyc" not in line


def test_top_level_await_keeps_one_loop(sandbox: Sandbox):
    sandbox.execute("import asyncio\nasync def f(x):\n    await asyncio.sleep(0)\n    return x + 1")
    assert sandbox.execute("await f(1)").value == "2"
    assert sandbox.execute("event = asyncio.Event()\nevent.set()\nawait event.wait()").value == "True"
    assert sandbox.execute("x = await f(5)\nx").value == "6"


def test_displays_arrive(sandbox: Sandbox):
    code = "class Rich:\n    def _repr_html_(self): return '<b>'\n    def _repr_png_(self): return b'png'\n"
    result = sandbox.execute(code + "display(Rich(), 'text')\nRich()")
    assert [sorted(shown.data) for shown in result.displays] == [
        ["image/png", "text/html", "text/plain"],
        ["text/plain"],
        ["image/png", "text/html", "text/plain"],
    ]
    assert result.displays[0].data["image/png"] == b"png"


def test_fifty_threads_each_get_their_own_answer(sandbox: Sandbox):
    code = """
import threading
wrong = []
def work(number):
    for step in range(10):
        if echo([number, step]) != [number, step]:
            wrong.append((number, step))
threads = [threading.Thread(target=work, args=(number,)) for number in range(50)]
for thread in threads: thread.start()
for number in range(20):
    if echo(number) != number: wrong.append(number)
for thread in threads: thread.join()
wrong
"""
    result = sandbox.execute(code)
    assert (result.outcome, result.value) == ("ok", "[]"), result.error
    assert result.usage.bridge_calls == 520


def test_a_thread_that_calls_between_cells_is_served_with_the_next(sandbox: Sandbox):
    code = """
import threading
got = []
def work():
    started.set()
    for number in range(200):
        try: got.append(echo(number) == number)
        except BridgeError: got.append('its cell had ended')
started = threading.Event()
thread = threading.Thread(target=work)
thread.start()
started.wait()
"""
    sandbox.execute(code)
    for _ in range(5):
        assert sandbox.execute("1").outcome == "ok"
    result = sandbox.execute("thread.join()\nlen(got), False in got, got.count(True) > 100", timeout_ms=20_000)
    assert (result.outcome, result.value) == ("ok", "(200, False, True)"), result.error


def test_a_time_out_keeps_the_variables(sandbox: Sandbox):
    sandbox.execute("x = 1")
    result = sandbox.execute("x = 2\nwhile True: pass", timeout_ms=200)
    assert (result.outcome, result.session_state, result.exit_code) == ("timeout", "kept", 124)
    assert sandbox.execute("x").value == "2"


@pytest.mark.parametrize(
    "code",
    [
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
        "import time\nwhile True:\n    try: time.sleep(60)\n    except BaseException: pass",
        "def f():\n    try:\n        while True: pass\n    finally: f()\nf()",
        "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
        "import signal\nsignal.signal(signal.SIGINT, lambda *a: None)\nwhile True: pass",
        "class A:\n    def __repr__(self):\n        while True: pass\nA()",
        "class E(Exception):\n    def __str__(self):\n        while True: pass\nraise E",
        "import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()",
        "import asyncio\nwhile True:\n    try: await asyncio.sleep(60)\n    except BaseException: pass",
        "import subprocess\nsubprocess.call(['sleep', '60'])",
        "import contextlib\nwhile True:\n    with contextlib.suppress(BaseException):\n        while True: pass",
    ],
    ids=["loop", "sleep", "finally", "ignored", "handled", "repr", "str", "lock", "await", "child", "suppress"],
)  # fmt: skip
def test_a_cell_that_swallows_interrupts_is_left_with_its_variables(sandbox: Sandbox, code):
    sandbox.execute("x = 'kept'")
    result = sandbox.execute(code, timeout_ms=150)
    assert (result.outcome, result.session_state) == ("timeout", "kept")
    assert sandbox.execute("x").value == "'kept'"
    assert sandbox.execute("while True: pass", timeout_ms=100).session_state == "kept", "and can be interrupted again"


@pytest.mark.parametrize(("code", "status"), [("3", 3), ("", 0), ("'bye'", 1), ("None", 0), ("-1", 255), ("[1]", 1)])
def test_sys_exit_ends_the_cell_and_not_the_session(sandbox: Sandbox, code, status):
    result = sandbox.execute(f"x = 1\nimport sys\nsys.exit({code})")
    assert (result.outcome, result.exit_code, result.session_state) == ("exited", status, "kept")
    assert sandbox.execute("x").value == "1"
    if code == "'bye'":
        assert result.stderr == "bye\n"


def test_os_exit_ends_the_session_with_a_result(sandbox: Sandbox):
    result = sandbox.execute("import os\nprint('last words')\nos._exit(7)")
    assert (result.outcome, result.exit_code, result.session_state) == ("exited", 7, "reset")
    assert result.stdout == "last words\n"
    assert sandbox.execute("1 + 1").value == "2"


@pytest.mark.parametrize(
    "code",
    ["import ctypes\nctypes.string_at(0)", "import os\nos.kill(os.getpid(), 9)", "import os\nos.abort()"],
    ids=["segfault", "kill", "abort"],
)  # fmt: skip
def test_a_crash_is_a_result_and_the_next_cell_starts_afresh(sandbox: Sandbox, code):
    sandbox.execute("x = 1")
    result = sandbox.execute("print('before')\n" + code)
    assert (result.outcome, result.session_state, result.exit_code) == ("killed", "reset", 137)
    assert result.stdout == "before\n"
    assert sandbox.execute("'x' in globals()").value == "False"


def test_deep_recursion_is_an_error(sandbox: Sandbox):
    result = sandbox.execute("def f(): return f()\nf()")
    assert result.exception is not None
    assert result.exception.type == "RecursionError"
    assert len(result.exception.traceback) < 10_000
    assert sandbox.execute("1").outcome == "ok"


def test_a_stack_overflow_is_a_result(sandbox: Sandbox):
    code = "class A:\n    def __getattr__(self, n): return getattr(self, n + 'x')\nA().x"
    result = sandbox.execute("import sys\nsys.setrecursionlimit(10**8)\n" + code, timeout_ms=4000)
    assert result.outcome in ("killed", "error", "memory", "timeout")
    assert sandbox.execute("1 + 1").value == "2"


def test_a_recursion_limit_that_is_too_low_for_anybody_is_raised_again(sandbox: Sandbox):
    sandbox.execute("import sys\nsys.setrecursionlimit(80)")
    assert sandbox.execute("1/0").error == "ZeroDivisionError: division by zero"
    assert sandbox.execute("import json\njson.dumps([1])").value == "'[1]'"


def test_a_snapshot_carries_variables_and_functions_to_another_session(sandbox: Sandbox, executable):
    sandbox.execute(
        "import math\nx = [1, {2: (3,)}]\ndef area(r, *, k=2): return k * math.pi * r + len(x)\nf = open('a', 'w')"
    )
    snapshot = sandbox.snapshot()
    assert {"x", "area"} <= set(snapshot.variables)
    assert {item.name for item in snapshot.skipped} == {"f"}
    with NativePythonSandbox(python=executable) as other:
        assert other.restore(snapshot.to_bytes()) == ()
        assert other.execute("import math\nround(area(1, k=1), 2), x").value == "(5.14, [1, {2: (3,)}])"


def test_lone_surrogates_can_be_printed_and_come_back(sandbox: Sandbox):
    sandbox.initialize("a\ud800b")
    result = sandbox.execute("print(context)\nimport sys\nprint(context, file=sys.stderr)\ncontext")
    assert (result.stdout, result.stderr) == ("a\\ud800b\n", "a\\ud800b\n")
    assert sandbox.get_variable("context") == "a\ud800b"


def test_names_of_ours_are_put_back(sandbox: Sandbox):
    sandbox.initialize("the context")
    sandbox.execute("context = 1\nllm_query = 2\ndel display\necho = None")
    assert sandbox.execute("context, callable(llm_query), callable(display), echo(5)").value == (
        "('the context', True, True, 5)"
    )


def test_sources_of_cells_can_be_inspected_and_printed(sandbox: Sandbox):
    sandbox.execute("def f():\n    return 1 / 0")
    assert sandbox.execute("import inspect\ninspect.getsource(f)").value == repr("def f():\n    return 1 / 0\n")
    result = sandbox.execute("import traceback\ntry: f()\nexcept Exception: print(traceback.format_exc())")
    assert "return 1 / 0" in result.stdout


@pytest.mark.parametrize("strange", ["\f", "\v", "\x1c", "\x85", "\u2028"])
def test_the_source_line_is_right_also_after_characters_that_some_take_for_a_line_end(sandbox: Sandbox, strange):
    result = sandbox.execute(f"x = '{strange}'\r\n\r\nraise ValueError(x)\r\n# the end")
    assert result.exception is not None
    assert result.exception.line == 3
    assert "raise ValueError(x)\n" in result.exception.traceback


def test_a_forked_child_does_not_answer_for_its_parent(sandbox: Sandbox):
    code = "import os\npid = os.fork()\nif pid:\n    os.waitpid(pid, 0)\nelse:\n    print('child', flush=True)\npid > 0"
    result = sandbox.execute(code)
    assert (result.outcome, result.value) == ("ok", "True")
    assert result.stdout == "child\n"
    assert sandbox.execute("1 + 1").value == "2"


def test_a_forked_child_cannot_call_the_host_and_the_parent_still_can(sandbox: Sandbox):
    code = """
import os
reader, writer = os.pipe()
pid = os.fork()
if not pid:
    try: echo(1)
    except BaseException as exc: os.write(writer, type(exc).__name__.encode())
    os._exit(0)
os.waitpid(pid, 0)
os.read(reader, 100), echo(2)
"""
    assert sandbox.execute(code).value == "(b'BridgeError', 2)"


def test_a_reply_of_the_largest_size_is_not_taken_for_an_attack(executable):
    policy = ExecutionPolicy(value_max_bytes=1, display_max_bytes=1)
    with NativePythonSandbox(policy, python=executable) as sandbox:
        code = "class Long:\n    def __repr__(self): return '😀' * 10**6\nx = Long()"
        sandbox.execute(code)
        for last in ("x", "raise ValueError('😀' * 10**6)", "display(x)", "raise SystemExit('😀' * 10**6)"):
            assert sandbox.execute(last).session_state == "kept", last


def test_displays_within_the_budget_arrive_whatever_their_characters(executable):
    with NativePythonSandbox(ExecutionPolicy(display_max_bytes=3_000_000), python=executable) as sandbox:
        code = "class Rich:\n    def _repr_html_(self): return text\n    def __repr__(self): return 'rich'"
        sandbox.execute(code)
        for size, kept in ((200_000, True), (400_000, False)):
            result = sandbox.execute(f"text = '😀' * {size}\ndisplay(Rich())")
            assert result.session_state == "kept"
            assert ("text/html" in result.displays[0]) == kept
            assert kept or "left out" in str(result.displays[0].data["text/plain"])


def test_warnings_go_to_stderr_and_are_no_error(sandbox: Sandbox):
    result = sandbox.execute("import warnings\nwarnings.warn('careful')\n1")
    assert (result.outcome, result.error, result.value) == ("ok", None, "1")
    assert "UserWarning: careful" in result.stderr


def test_future_imports_and_new_syntax_follow_the_guests_grammar(sandbox: Sandbox, version):
    assert sandbox.execute("from __future__ import annotations\ndef f(x: nosuch): pass\nf.__annotations__").value == (
        "{'x': 'nosuch'}"
    )
    assert sandbox.validate_code("match x:\n    case 1: pass") == (version >= (3, 10))
    assert sandbox.validate_code("if (y := 1): pass")
    assert not sandbox.validate_code("print 'old'")
