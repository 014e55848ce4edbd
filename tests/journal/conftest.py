"""One recorded session for all tests that only look at it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cloche import create_sandbox
from cloche.journal import Recorder, SessionFile
from cloche.sandbox import SessionSandbox


def native(**options: Any) -> SessionSandbox:
    return create_sandbox({"backend": "native"}, **options)


@pytest.fixture(scope="session")
def recorded() -> SessionFile:
    """A session that used everything that a session can use."""
    with native(on_llm_query=shout, on_rlm_query=lambda prompt, context: len(context), tools={"add": add}) as sandbox:
        recorder = Recorder(sandbox, name="everything")
        sandbox.initialize("a context\r\n\0\ud800")
        for code in (
            "x = llm_query('hello'); print(x)",
            "add(3, b={1, 2, 'three'})",
            "rlm_query('how long?')",
            "llm_query_batched(['a', 'b', 'wrong'])",
            "import math\nfrom pathlib import Path\nPath('out.txt').write_text('written')\ngen = (i for i in [])",
            "1/0",
        ):
            sandbox.execute(code)
        sandbox.set_variable("given", (1, b"\xff", float("inf")))
        sandbox.put_file("data/in.csv", b"a,b\n1,2\n")
        sandbox.execute("import sys; print(given, open('data/in.csv').read()); sys.exit(3)")
        return recorder.capture()


def shout(prompt: str) -> str:
    if prompt == "wrong":
        raise ValueError("cannot shout that")
    return prompt.upper()


def add(a: int, b: Any = 1) -> Any:
    """Adds, or counts."""
    return a + len(b)


@pytest.fixture
def record() -> Callable[..., SessionFile]:
    def run(*cells: str, **options: Any) -> SessionFile:
        with native(**options) as sandbox:
            recorder = Recorder(sandbox)
            for code in cells:
                sandbox.execute(code)
            return recorder.capture()

    return run
