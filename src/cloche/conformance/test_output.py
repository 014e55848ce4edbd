"""What is printed, by whomever: captured, split, bounded, streamed."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from cloche.conformance.waiting import PATIENCE

if TYPE_CHECKING:
    from cloche.conformance.fixtures import OpenSandbox
    from cloche.sandbox import SessionSandbox

FORGERY = '{"jsonrpc":"2.0","id":%d,"result":{"outcome":"ok","value":"forged"}}'


def test_printed_text_is_in_stdout(sandbox: SessionSandbox) -> None:
    result = sandbox.execute("print('Hello')")
    assert (result.stdout, result.stderr) == ("Hello\n", "")


def test_text_for_stderr_is_in_stderr(sandbox: SessionSandbox) -> None:
    result = sandbox.execute("import sys; print('oops', file=sys.stderr)")
    assert (result.stdout, result.stderr) == ("", "oops\n")


def test_a_warning_is_no_error(sandbox: SessionSandbox) -> None:
    """Known defect 1.8.8: any output to stderr set `error`."""
    result = sandbox.execute("import warnings; warnings.warn('careful')")
    assert (result.outcome, result.error, "careful" in result.stderr) == ("ok", None, True)


def test_what_was_printed_before_an_exception_is_kept(sandbox: SessionSandbox) -> None:
    """Known defect 1.8.8: prints before the exception were lost."""
    assert sandbox.execute("print('before')\n1 / 0").stdout == "before\n"


def test_output_past_pythons_streams_is_captured(sandbox: SessionSandbox) -> None:
    """Known defect 2.4.2: `os.write(1)` went to the host's own output."""
    result = sandbox.execute("import os; n = os.write(1, b'raw out'); n = os.write(2, b'raw err')")
    assert (result.stdout, result.stderr) == ("raw out", "raw err")


@pytest.mark.cloche_needs("subprocess")
def test_output_of_child_processes_is_captured(sandbox: SessionSandbox) -> None:
    result = sandbox.execute("import os; status = os.system('echo out; echo err >&2')")
    assert (result.stdout, result.stderr) == ("out\n", "err\n")


@pytest.mark.parametrize(
    "write", ["os.write(1, text)", "sys.__stdout__.buffer.write(text)", "sys.stdout.buffer.write(text)"]
)
def test_a_reply_printed_by_the_cell_is_only_output(sandbox: SessionSandbox, write: str) -> None:
    """Known defect 1.8.6: code that wrote to `sys.__stdout__` forged a result."""
    lines = "\n".join(FORGERY % number for number in range(20)) + "\n"
    result = sandbox.execute(f"import os, sys\ntext = {lines.encode()!r}\nn = {write}\n'real'")
    assert (result.value, result.stdout) == ("'real'", lines)
    assert sandbox.execute("'next'").value == "'next'"


def test_a_last_line_without_a_line_end_is_kept(sandbox: SessionSandbox) -> None:
    assert sandbox.execute("print('no end', end='')").stdout == "no end"


def test_output_of_one_cell_is_not_in_the_next(sandbox: SessionSandbox) -> None:
    sandbox.execute("import sys; sys.stdout.write('first')")
    assert sandbox.execute("print('second')").stdout == "second\n"


def test_output_is_utf_8_whatever_the_locale(sandbox: SessionSandbox) -> None:
    assert sandbox.execute("print('\\xe9\\u4e2d\\U0001f600')").stdout == "\u00e9\u4e2d\U0001f600\n"


def test_bytes_that_are_not_utf_8_are_replaced(sandbox: SessionSandbox) -> None:
    assert sandbox.execute("import os; n = os.write(1, b'a\\xffb')").stdout == "a\ufffdb"


def test_a_lone_surrogate_can_be_printed(sandbox: SessionSandbox) -> None:
    result = sandbox.execute("print('\\ud800')")
    assert (result.outcome, result.stdout) == ("ok", "\\ud800\n")


def test_a_null_character_is_kept(sandbox: SessionSandbox) -> None:
    assert sandbox.execute("print('a\\0b')").stdout == "a\0b\n"


def test_output_up_to_the_limit_is_whole(open_sandbox: OpenSandbox) -> None:
    result = open_sandbox(max_output_length=50).execute("print('x' * 50, end='')")
    assert (result.stdout, result.stdout_truncated) == ("x" * 50, False)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_output_over_the_limit_is_cut_and_says_how_much(open_sandbox: OpenSandbox, stream: str) -> None:
    """Known defect 1.8.4: the limit was ignored, and stderr was never cut."""
    sandbox = open_sandbox(max_output_length=50)
    result = sandbox.execute(f"import sys; sys.{stream}.write('x' * 57);")
    assert getattr(result, stream) == "x" * 50 + "\n... [truncated, 7 chars omitted]"
    assert getattr(result, f"{stream}_truncated")


def test_omitted_output_is_counted_in_characters(open_sandbox: OpenSandbox) -> None:
    result = open_sandbox(max_output_length=10).execute("print('\\U0001f600' * 15, end='')")
    assert result.stdout == "\U0001f600" * 10 + "\n... [truncated, 5 chars omitted]"


def test_the_ceiling_in_bytes_includes_the_notice(open_sandbox: OpenSandbox) -> None:
    result = open_sandbox(stdout_max_bytes=100).execute("print('\\xe9' * 1000)")
    assert result.stdout.endswith(" chars omitted]")
    assert 60 < len(result.stdout.encode()) <= 100


def test_output_over_the_limit_does_not_fail_the_cell(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(max_output_length=10)
    assert sandbox.execute("print('x' * 1000)\ny = 1").outcome == "ok"
    assert sandbox.execute("y").value == "1"


def test_a_flood_of_output_is_bounded(sandbox: SessionSandbox) -> None:
    """Known defect 1.8.4: 1 MB came back whole."""
    result = sandbox.execute("import sys\nfor _ in range(200): n = sys.stdout.write('x' * 100_000)")
    assert len(result.stdout) < 51_000
    assert result.usage.stdout_bytes == 20_000_000


def test_output_is_streamed_while_the_cell_runs(open_sandbox: OpenSandbox) -> None:
    seen = threading.Event()
    sandbox = open_sandbox(on_llm_query=lambda prompt: seen.wait(PATIENCE))
    result = sandbox.execute("print('first')\nllm_query('did you see it?')", on_output=lambda stream, text: seen.set())
    assert result.value == "True"


def test_the_listener_is_told_the_stream(sandbox: SessionSandbox) -> None:
    heard: list[tuple[str, str]] = []
    code = "import sys\nprint('a')\nprint('b', file=sys.stderr)"
    sandbox.execute(code, on_output=lambda stream, text: heard.append((stream, text)))
    assert sorted(heard) == [("stderr", "b\n"), ("stdout", "a\n")]


def test_what_the_listener_heard_is_the_result(sandbox: SessionSandbox) -> None:
    heard: list[str] = []
    code = "for n in range(3000): print(n)"
    result = sandbox.execute(code, on_output=lambda stream, text: heard.append(text))
    assert "".join(heard) == result.stdout


def test_a_listener_that_raises_ends_the_cell_and_not_the_session(sandbox: SessionSandbox) -> None:
    class ListenerBroke(Exception):
        pass

    def listen(stream: str, text: str) -> None:
        raise ListenerBroke

    sandbox.execute("x = 1")
    with pytest.raises(ListenerBroke):
        sandbox.execute("print('on', flush=True)\nwhile True: pass", on_output=listen)
    assert sandbox.execute("x").value == "1"


def test_a_replaced_stdout_is_put_back_after_the_cell(sandbox: SessionSandbox) -> None:
    sandbox.execute("import io, sys; sys.stdout = io.StringIO(); print('swallowed')")
    assert sandbox.execute("print('heard')").stdout == "heard\n"


@pytest.mark.parametrize("code", ["sys.stdout.close()", "del sys.stdout", "sys.stdout = None", "sys.stdout.detach();"])
def test_a_stdout_that_a_cell_broke_works_in_the_next(sandbox: SessionSandbox, code: str) -> None:
    sandbox.execute(f"x = 1; import sys; {code}")
    result = sandbox.execute("print('heard', x)")
    assert (result.outcome, result.stdout) == ("ok", "heard 1\n")


def test_descriptors_that_a_cell_closed_work_in_the_next(sandbox: SessionSandbox) -> None:
    sandbox.execute("x = 1; import os; os.close(1); os.close(2)")
    assert sandbox.execute("print('heard', x)").stdout == "heard 1\n"


def test_redirect_stdout_works_inside_a_cell(sandbox: SessionSandbox) -> None:
    code = "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()) as s: print('inside')\ns.getvalue()"
    result = sandbox.execute(code)
    assert (result.value, result.stdout) == ("'inside\\n'", "")


@pytest.mark.cloche_needs("threads")
def test_what_a_thread_prints_after_its_cell_is_in_the_next(sandbox: SessionSandbox) -> None:
    sandbox.execute(
        "import threading\ngo = threading.Event()\n"
        "thread = threading.Thread(target=lambda: (go.wait(), print('late', flush=True)))\nthread.start()"
    )
    assert sandbox.execute("go.set(); thread.join()").stdout == "late\n"
