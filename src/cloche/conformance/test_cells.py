"""What a cell may be, and what stays after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from cloche.errors import RequestError

if TYPE_CHECKING:
    from cloche.sandbox import SessionSandbox


def test_variables_stay_from_cell_to_cell(sandbox: SessionSandbox) -> None:
    sandbox.execute("x = [1]")
    sandbox.execute("x.append(2)")
    assert sandbox.execute("x").value == "[1, 2]"


def test_variables_assigned_before_an_exception_stay(sandbox: SessionSandbox) -> None:
    """Known defect 2.4.3: a cell that raised lost everything it had assigned."""
    sandbox.execute("x = 1\nraise ValueError")
    assert sandbox.execute("x").value == "1"


def test_names_that_begin_with_an_underscore_stay(sandbox: SessionSandbox) -> None:
    """Known defect 2.4.3: they never persisted."""
    sandbox.execute("_private = 1")
    assert sandbox.execute("_private").value == "1"


def test_a_redefined_function_is_seen_by_its_callers(sandbox: SessionSandbox) -> None:
    """Known defect 2.4.3: earlier functions kept calling the old one."""
    sandbox.execute("def g(): return 'old'\ndef f(): return g()")
    sandbox.execute("def g(): return 'new'")
    assert sandbox.execute("f()").value == "'new'"


@pytest.mark.parametrize("name", ["ZeroDivisionError", "KeyboardInterrupt", "eval", "exec", "open", "__import__"])
def test_every_builtin_is_there(sandbox: SessionSandbox, name: str) -> None:
    """Known defect 2.4.3: some were missing, and `eval` was None."""
    assert sandbox.execute(f"callable({name})").value == "True"


def test_imports_stay(sandbox: SessionSandbox) -> None:
    sandbox.execute("import math")
    assert sandbox.execute("math.floor(2.5)").value == "2"


def test_the_last_bare_expression_is_the_value(sandbox: SessionSandbox) -> None:
    assert sandbox.execute("x = 20\nx + 1").value == "21"


@pytest.mark.parametrize("code", ["x = 1", "None", "1;", "", "# only a comment", "def f(): pass", "pass"])
def test_a_cell_without_a_value_has_none(sandbox: SessionSandbox, code: str) -> None:
    result = sandbox.execute(code)
    assert (result.outcome, result.value) == ("ok", None)


def test_the_value_of_an_expression_is_not_printed(sandbox: SessionSandbox) -> None:
    assert sandbox.execute("1 + 1").stdout == ""


def test_underscore_holds_the_last_value(sandbox: SessionSandbox) -> None:
    sandbox.execute("40 + 2")
    assert sandbox.execute("_ + 1").value == "43"


def test_an_expression_over_several_lines_has_a_value(sandbox: SessionSandbox) -> None:
    assert sandbox.execute("x = 1\n(\n  x\n  + 1\n)").value == "2"


def test_await_works_at_top_level(sandbox: SessionSandbox) -> None:
    code = "import asyncio\nasync def f(): return 5\nawait asyncio.sleep(0)\nawait f()"
    assert sandbox.execute(code).value == "5"


def test_an_asyncio_task_goes_on_in_the_next_awaiting_cell(sandbox: SessionSandbox) -> None:
    sandbox.execute(
        "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 5\n"
        "task = asyncio.create_task(f())\nawait asyncio.sleep(0)"
    )
    assert sandbox.execute("await task").value == "5"


def test_the_cell_is_the_main_module(sandbox: SessionSandbox) -> None:
    assert sandbox.execute("__name__").value == "'__main__'"


def test_a_cell_may_have_windows_line_ends(sandbox: SessionSandbox) -> None:
    assert sandbox.execute("x = 1\r\nif x:\r\n    y = 2\r\ny").value == "2"


def test_a_cell_may_contain_any_text(sandbox: SessionSandbox) -> None:
    assert sandbox.execute("'\u00e9\u4e2d\U0001f600\\\\' + '''\"'''").value == repr('\u00e9\u4e2d\U0001f600\\"')


def test_a_cell_may_be_long(sandbox: SessionSandbox) -> None:
    code = "\n".join(f"x{number} = {number}" for number in range(20_000)) + "\nx19999"
    assert sandbox.execute(code).value == "19999"


def test_future_imports_work(sandbox: SessionSandbox) -> None:
    code = "from __future__ import annotations\ndef f(x: Missing): pass\nf.__annotations__"
    assert sandbox.execute(code).value == "{'x': 'Missing'}"


def test_classes_defined_in_cells_can_be_pickled(sandbox: SessionSandbox) -> None:
    code = "import pickle\nclass Point: x = 3\npickle.loads(pickle.dumps(Point())).x"
    assert sandbox.execute(code).value == "3"


def test_the_source_of_a_function_can_be_read_in_a_later_cell(sandbox: SessionSandbox) -> None:
    sandbox.execute("def f():\n    return 'source'")
    assert "return 'source'" in sandbox.execute("import inspect\nprint(inspect.getsource(f))").stdout


def test_input_reads_what_code_put_in_the_place_of_stdin(sandbox: SessionSandbox) -> None:
    code = "import io, sys\nsys.stdin = io.StringIO('5\\n6')\nprint(int(input('how many? ')) + int(input()))"
    assert sandbox.execute(code).check().stdout == "how many? 11\n"
    ended = sandbox.execute("input()")
    assert ended.exception is not None
    assert (ended.exception.type, ended.exception.message) == ("EOFError", "EOF when reading a line")
    assert "no terminal" in (sandbox.execute("sys.stdin = sys.__stdin__\ninput()").error or "")


def test_a_cell_reads_the_input_that_it_was_given(sandbox: SessionSandbox) -> None:
    result = sandbox.execute("import sys\nprint(input(), sys.stdin.read().split())", stdin="one\ntwo\nthree\n").check()
    assert result.stdout == "one ['two', 'three']\n"
    assert result.stdin == "one\ntwo\nthree\n"
    assert "no terminal" in (sandbox.execute("input()").error or "")


@pytest.mark.parametrize("stdin", [b"bytes", 5], ids=["bytes", "a number"])
def test_input_that_is_no_text_is_refused(sandbox: SessionSandbox, stdin: Any) -> None:
    with pytest.raises(RequestError, match="stdin must be a str"):
        sandbox.execute("1", stdin=stdin)
    assert sandbox.execute("1").value == "1"


def test_tasks_can_be_made_without_awaiting_as_in_a_notebook(sandbox: SessionSandbox) -> None:
    made = sandbox.execute(
        "import asyncio\nasync def work(): return 6 * 7\ntask = asyncio.create_task(work())\nprint('made')"
    ).check()
    assert made.stdout == "made\n"
    assert sandbox.execute("await task").value == "42"
    assert (
        sandbox.execute("async def main(): return await asyncio.create_task(work())\nasyncio.run(main())").value == "42"
    )


def test_input_says_that_there_is_no_terminal(sandbox: SessionSandbox) -> None:
    """Known defect 1.8.6: `input()` swallowed the next request."""
    result = sandbox.execute("input('name? ')")
    assert result.exception is not None
    assert (result.exception.type, "no terminal" in result.exception.message) == ("EOFError", True)


@pytest.mark.parametrize("code", ["import sys; sys.stdin.read()", "import os; os.read(0, 100).decode()"])
def test_standard_input_is_empty(sandbox: SessionSandbox, code: str) -> None:
    """Known defect 1.8.6: standard input was the protocol."""
    assert sandbox.execute(code).value == "''"
    assert sandbox.execute("'next cell'").success


@pytest.mark.parametrize("name", ["context", "llm_query", "rlm_query_batched", "chunk_text", "display"])
def test_our_names_are_put_back_when_a_cell_overwrites_them(sandbox: SessionSandbox, name: str) -> None:
    sandbox.initialize("the context")
    before = sandbox.execute(f"id({name})").value
    assert sandbox.execute(f"{name} = None").success
    assert sandbox.execute(f"id({name})").value == before


@pytest.mark.parametrize("name", ["context", "llm_query"])
def test_our_names_are_put_back_when_a_cell_deletes_them(sandbox: SessionSandbox, name: str) -> None:
    sandbox.initialize("the context")
    sandbox.execute(f"del {name}")
    assert sandbox.execute(f"{name} is not None").value == "True"


def test_a_cell_may_use_our_names_for_itself_until_it_ends(sandbox: SessionSandbox) -> None:
    sandbox.initialize("the context")
    assert sandbox.execute("context = 'mine'\ncontext").value == "'mine'"


def test_a_module_in_the_workspace_can_be_imported(sandbox: SessionSandbox) -> None:
    sandbox.execute("1")
    sandbox.put_file("own_module.py", "answer = 42")
    assert sandbox.execute("import own_module; own_module.answer").value == "42"


def test_a_file_named_like_a_standard_module_does_not_take_its_place(sandbox: SessionSandbox) -> None:
    sandbox.put_file("random.py", "raise SystemExit('not the real one')")
    assert sandbox.execute("import random; random.randint(3, 3)").value == "3"


@pytest.mark.cloche_needs("site_packages")
def test_installed_packages_can_be_imported(sandbox: SessionSandbox) -> None:
    assert sandbox.execute("import pytest; pytest.__name__").value == "'pytest'"


def test_code_that_is_not_text_is_refused(sandbox: SessionSandbox) -> None:
    with pytest.raises(RequestError):
        sandbox.execute(cast("Any", b"1 + 1"))
    assert sandbox.execute("1 + 1").value == "2"


def test_valid_code_is_told_from_invalid(sandbox: SessionSandbox) -> None:
    assert sandbox.validate_code("x = 1 + 2") is True
    assert sandbox.validate_code("x = 1 +") is False


def test_validation_does_not_run_the_code(sandbox: SessionSandbox) -> None:
    assert sandbox.validate_code("ran = True")
    assert sandbox.get_variable("ran") is None


def test_top_level_await_is_valid_code(sandbox: SessionSandbox) -> None:
    assert sandbox.validate_code("await something()")


def test_help_prints_documentation(sandbox: SessionSandbox) -> None:
    assert "chunk_text" in sandbox.execute("help(chunk_text)").stdout


@pytest.mark.cloche_needs("subprocess")
def test_children_start_as_interpreters_of_the_user(sandbox: SessionSandbox) -> None:
    flags = "import subprocess\n{'-I', '-S'} & set(subprocess._args_from_interpreter_flags())"
    assert sandbox.execute(flags).value == "set()"
    spawned = "import multiprocessing as mp\nwith mp.get_context('spawn').Pool(1) as pool: print(pool.map(abs, [-1]))"
    result = sandbox.execute(spawned, timeout_ms=50_000)
    assert (result.stdout, result.stderr) == ("[1]\n", "")
