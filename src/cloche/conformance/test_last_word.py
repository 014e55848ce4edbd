"""A host function that ends the cell: nothing in the cell can keep it from ending, and nothing it does then counts."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cloche.conformance.fixtures import OpenSandbox
    from cloche.sandbox import SessionSandbox

CELLS = (
    "finish(1)",
    "print(finish(1), 'after')",
    "try: finish(1)\nexcept Exception: pass",
    "try: finish(1)\nexcept BaseException: pass\nprint('after')",
    "try: finish(1)\nexcept BaseException: pass\nwhile True: pass",
    "while True:\n    try: finish(1)\n    except BaseException: pass",
    "while True:\n    try:\n        finish(1)\n        while True: pass\n    except BaseException: continue",
    "try: finish(1)\nfinally:\n    while True: pass",
    "try:\n    try: finish(1)\n    finally: raise ValueError\nexcept BaseException:\n    while True: pass",
    "try: finish(1)\nexcept BaseException: raise SystemExit(3)",
    "try: finish(1)\nexcept BaseException: raise ValueError('other')",
    "import time\ntry: finish(1)\nexcept BaseException: time.sleep(60)",
    "def deep(n):\n    try: n == 0 and finish(1) or deep(n - 1)\n    except BaseException: deep(n)\ndeep(20)",
    "class C:\n    __enter__ = int\n    __exit__ = lambda *a: True\nwhile True:\n    with C(): finish(1)",
    "def never():\n    while True:\n        try: yield finish(1)\n        except BaseException: pass\nlist(never())",
    "[finish(n) for n in range(3)]",
    "import asyncio\nasync def a():\n    try: finish(1)\n    except BaseException: await asyncio.sleep(60)\nawait a()",
    "import contextlib\nwhile True:\n    with contextlib.suppress(BaseException): finish(1)",
    "try: finish(1)\nexcept BaseException: pass\ntry: finish(2)\nexcept BaseException: pass\nfinish(3)",
    "exec('try: finish(1)\\nexcept BaseException: pass\\nwhile True: pass')",
    "class Evil:\n    def __repr__(self):\n        try: finish(1)\n        except BaseException: return 'evil'\nEvil()",
)
"""Ways to go on after the last word."""


def ending(open_sandbox: OpenSandbox, **more: Any) -> tuple[SessionSandbox, list[Any]]:
    """A sandbox whose cells end with `finish`, and what was said to it."""
    said: list[Any] = []
    tools = {"finish": {"tool": said.append, "ends": True}, "note": said.append, **more}
    return open_sandbox(tools=tools, timeout_ms=30_000), said


def test_no_cell_goes_on_after_its_last_word(open_sandbox: OpenSandbox) -> None:
    sandbox, said = ending(open_sandbox)
    for cell in CELLS:
        said.clear()
        result = sandbox.execute(cell)
        assert (result.outcome, result.error, result.stdout, said[:1]) == ("ok", None, "", [said[0]]), cell
        assert len(said) == 1, cell
        assert result.metadata["ended_by"] == "finish"


def test_variables_stay_and_the_next_cell_runs(open_sandbox: OpenSandbox) -> None:
    sandbox, said = ending(open_sandbox)
    result = sandbox.execute("x = 1\ntry: finish(x)\nexcept BaseException: pass\ny = len('not any more')")
    assert (said, result.session_state) == ([1], "kept")
    assert sandbox.execute("x, 'y' in globals()").value == "(1, False)"


def test_what_was_printed_before_the_last_word_is_kept_and_nothing_after(open_sandbox: OpenSandbox) -> None:
    sandbox, _ = ending(open_sandbox)
    code = """
        import os
        print("before")
        try:
            finish(1)
        finally:
            print("after")
            os.write(1, b"after\\n")
    """
    assert sandbox.execute(textwrap.dedent(code)).stdout == "before\n"


def test_host_functions_are_not_called_after_the_last_word(open_sandbox: OpenSandbox) -> None:
    sandbox, said = ending(open_sandbox)
    insisting = "while True:\n    try: note(2)\n    except BaseException: pass"
    sandbox.execute(f"try: finish(1)\nexcept BaseException: pass\n{insisting}")
    assert said == [1]


def test_a_last_word_that_the_host_refuses_is_an_error_and_the_cell_goes_on(open_sandbox: OpenSandbox) -> None:
    def refuse(answer: object) -> None:
        raise ValueError(f"not yet: {answer}")

    sandbox = open_sandbox(tools={"finish": {"tool": refuse, "ends": True}})
    result = sandbox.execute("try: finish(5)\nexcept BridgeError as exc: print(exc.type, exc)")
    assert result.stdout == "ValueError finish failed: ValueError: not yet: 5\n"
    assert "ended_by" not in result.metadata
