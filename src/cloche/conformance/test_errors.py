"""Code that raises, exits or crashes: a result that tells the truth, and a session that goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cloche.result import ExceptionInfo, SandboxResult
    from cloche.sandbox import SessionSandbox


def exception_of(result: SandboxResult) -> ExceptionInfo:
    """The exception of a cell that must have raised one."""
    assert result.exception is not None
    return result.exception


def test_an_exception_gives_type_message_and_line(sandbox: SessionSandbox) -> None:
    result = sandbox.execute("x = 1\n\nraise ValueError('test')")
    found = exception_of(result)
    assert (found.type, found.message, found.line) == ("ValueError", "test", 3)


def test_the_error_field_holds_type_and_message(sandbox: SessionSandbox) -> None:
    result = sandbox.execute("raise ValueError('test')")
    assert (result.outcome, result.error, result.exit_code) == ("error", "ValueError: test", 1)


def test_the_traceback_is_in_stderr(sandbox: SessionSandbox) -> None:
    stderr = sandbox.execute("raise ValueError('test')").stderr
    assert "Traceback" in stderr
    assert stderr.endswith("ValueError: test\n")


def test_error_is_empty_when_the_code_succeeds(sandbox: SessionSandbox) -> None:
    result = sandbox.execute("import sys; print('noise', file=sys.stderr)")
    assert (result.error, result.exception, result.exit_code) == (None, None, 0)


def test_the_traceback_shows_the_source_line(sandbox: SessionSandbox) -> None:
    assert "total = 1 / 0" in exception_of(sandbox.execute("total = 1 / 0")).traceback


def test_the_traceback_shows_lines_of_earlier_cells(sandbox: SessionSandbox) -> None:
    sandbox.execute("def fail():\n    return {}['missing']")
    found = exception_of(sandbox.execute("\nfail()"))
    assert found.line == 2
    assert "return {}['missing']" in found.traceback


@pytest.mark.parametrize(
    "code",
    [
        "1 / 0",
        "llm_query('nobody answers')",
        "chunk_text('x', 1, 1)",
        "x = (",
        "import asyncio\nawait asyncio.sleep(0)\n1/0",
    ],
)
def test_the_traceback_has_no_frame_of_ours(sandbox: SessionSandbox, code: str) -> None:
    """Known defect ("Error text"): the runner's frames and the host's paths were shown."""
    trace = exception_of(sandbox.execute(code)).traceback
    assert "cloche" not in trace.replace("cloche.BridgeError", "")
    assert "/" not in trace.replace("1 / 0", "").replace("1/0", "")


def test_a_chained_exception_shows_its_cause(sandbox: SessionSandbox) -> None:
    code = "try:\n    1 / 0\nexcept ZeroDivisionError as exc:\n    raise KeyError('outer') from exc"
    trace = exception_of(sandbox.execute(code)).traceback
    assert trace.index("ZeroDivisionError") < trace.index("direct cause") < trace.index("KeyError: 'outer'")


def test_a_syntax_error_gives_line_and_message(sandbox: SessionSandbox) -> None:
    found = exception_of(sandbox.execute("x = 1\ny = = 2"))
    assert (found.type, found.line) == ("SyntaxError", 2)
    assert "y = = 2" in found.traceback


def test_a_cell_with_a_syntax_error_does_not_run_in_part(sandbox: SessionSandbox) -> None:
    sandbox.execute("x = 1\ny = = 2")
    assert sandbox.get_variable("x") is None


def test_an_exception_class_of_the_cell_keeps_its_name(sandbox: SessionSandbox) -> None:
    assert exception_of(sandbox.execute("class Oops(Exception): pass\nraise Oops('x')")).type == "Oops"


def test_an_exception_whose_text_cannot_be_made_is_reported(sandbox: SessionSandbox) -> None:
    code = "class Bad(Exception):\n    def __str__(self): raise RuntimeError('no')\nraise Bad"
    assert exception_of(sandbox.execute(code)).type == "Bad"
    assert sandbox.execute("1").success


@pytest.mark.parametrize(
    "body",
    [
        "__setattr__ = lambda *a: 1 / 0",
        "__class__ = property(lambda self: 1 / 0)",
        "__module__ = property(lambda self: 1)",
    ],
)
def test_an_exception_that_resists_being_reported_is_reported(sandbox: SessionSandbox, body: str) -> None:
    result = sandbox.execute(f"x = 1\nclass Bad(Exception):\n    {body}\nraise Bad('text')")
    assert (result.outcome, result.session_state) == ("error", "kept")
    assert sandbox.execute("x").value == "1"


def test_endless_recursion_is_an_error(sandbox: SessionSandbox) -> None:
    result = sandbox.execute("def f(): return f()\nf()")
    assert exception_of(result).type == "RecursionError"
    assert sandbox.execute("1").success


def test_a_keyboard_interrupt_of_the_cells_own_is_an_error(sandbox: SessionSandbox) -> None:
    result = sandbox.execute("raise KeyboardInterrupt")
    assert (result.outcome, result.error) == ("error", "KeyboardInterrupt")


@pytest.mark.parametrize(
    ("code", "status"),
    [("sys.exit()", 0), ("sys.exit(3)", 3), ("exit(4)", 4), ("raise SystemExit(5)", 5), ("quit()", 0)],
)
def test_exit_ends_the_cell_and_not_the_session(sandbox: SessionSandbox, code: str, status: int) -> None:
    """Known defects 1.8.5 and 2.4.2: `sys.exit()` ended the runner, or the host."""
    result = sandbox.execute(f"import sys; x = 1; {code}")
    assert (result.outcome, result.exit_code, result.session_state) == ("exited", status, "kept")
    assert sandbox.execute("x").value == "1"


def test_exit_with_a_text_prints_it(sandbox: SessionSandbox) -> None:
    result = sandbox.execute("import sys; sys.exit('that is all')")
    assert (result.exit_code, result.stderr) == (1, "that is all\n")


def test_a_hard_exit_gives_a_result_and_the_next_cell_works(sandbox: SessionSandbox) -> None:
    """Known defect 1.8.5: after `os._exit()` the pending request hung until its time-out."""
    result = sandbox.execute("print('before', flush=True); import os; os._exit(3)")
    assert (result.outcome, result.exit_code, result.session_state) == ("exited", 3, "reset")
    assert sandbox.execute("1 + 1").value == "2"


def test_what_was_printed_before_a_hard_exit_is_kept(sandbox: SessionSandbox) -> None:
    assert sandbox.execute("print('before'); import os; os._exit(3)").stdout == "before\n"


def test_a_hard_exit_with_status_zero_is_told_too(sandbox: SessionSandbox) -> None:
    result = sandbox.execute("import os; os._exit(0)")
    assert (result.outcome, result.exit_code, result.session_state) == ("exited", 0, "reset")


@pytest.mark.cloche_needs("subprocess")
def test_a_segmentation_fault_gives_a_result_and_the_next_cell_works(sandbox: SessionSandbox) -> None:
    """Known defect ("sys.exit/os._exit/segfault"): the call hung."""
    result = sandbox.execute("import ctypes; ctypes.string_at(0)")
    assert (result.outcome, result.exit_code, result.session_state) == ("killed", 137, "reset")
    assert sandbox.execute("1 + 1").value == "2"


@pytest.mark.cloche_needs("subprocess")
def test_a_stack_overflow_in_c_gives_a_result_and_the_next_cell_works(sandbox: SessionSandbox) -> None:
    code = "import sys\nsys.setrecursionlimit(10**8)\nx = []\nfor _ in range(200_000): x = [x]\nrepr(x)"
    assert sandbox.execute(code).outcome in ("killed", "error")
    assert sandbox.execute("1 + 1").value == "2"


@pytest.mark.cloche_needs("subprocess")
def test_a_forked_child_does_not_answer_for_its_parent(sandbox: SessionSandbox) -> None:
    result = sandbox.execute("import os\npid = os.fork()\nif pid: status = os.waitpid(pid, 0)[1]\npid > 0")
    assert result.value == "True"
    assert sandbox.execute("status").value == "0"


def test_the_context_survives_a_hard_exit(sandbox: SessionSandbox) -> None:
    sandbox.initialize("still here")
    sandbox.execute("import os; os._exit(1)")
    assert sandbox.execute("context").value == "'still here'"


def test_the_workspace_survives_a_hard_exit(sandbox: SessionSandbox) -> None:
    sandbox.put_file("kept", b"x")
    sandbox.execute("import os; os._exit(1)")
    assert sandbox.execute("open('kept').read()").value == "'x'"


def test_running_out_of_memory_is_its_own_outcome(sandbox: SessionSandbox) -> None:
    result = sandbox.execute("import sys\nx = 1\ny = bytearray(sys.maxsize - 100)")
    assert (result.outcome, result.exit_code) == ("memory", 137)
    assert sandbox.execute("x").value == "1"


HINTS = {
    "breakpoint": ("breakpoint()", "no terminal for a debugger"),
    "a prompt": (">>> 1 + 1", "without >>>"),
    "set in": ("    x = 1\n    x", "left edge"),
    "a question": ("len?", "help(name)"),
    "no loop": (
        "import asyncio\ndef start():\n    c = asyncio.sleep(0)\n    c.close()\n    asyncio.create_task(c)\nstart()",
        "await main()",
    ),
}


@pytest.mark.parametrize("name", HINTS)
def test_what_works_elsewhere_comes_with_a_hint(sandbox: SessionSandbox, name: str) -> None:
    code, words = HINTS[name]
    assert words in (sandbox.execute(code).guidance or "")
