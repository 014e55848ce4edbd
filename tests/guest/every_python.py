"""Guest code on each CPython from 3.8 on that this machine has: one process each, asked again and again."""

from __future__ import annotations

import ast
import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

VERSIONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14")

HERE = Path(__file__).resolve().parent
SOURCES = HERE.parent.parent / "src"

# Literals both ways, one to a line: tuples, bytes and lone surrogates survive.
CHILD = """
import ast, sys
sys.path[:0] = sys.argv[1:]
for line in sys.stdin:
    module, expression, names = ast.literal_eval(line)
    try:
        answer = True, eval(expression, dict(vars(__import__(module, fromlist=["*"])), **names))
    except BaseException as error:
        answer = False, (type(error).__name__, str(error))
    print(ascii(answer), flush=True)
"""


class Raised(Exception):
    """What an expression raised over there; reads `Type: message`."""


class Interpreter:
    """A running interpreter."""

    def __init__(self, executable: str) -> None:
        self._process = subprocess.Popen(
            [executable, "-I", "-c", CHILD, str(SOURCES), str(HERE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def evaluate(self, module: str, expression: str, **names: object) -> Any:
        """The value of an expression in the names of a module, and those given."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(ascii((module, expression, names)) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the interpreter ended with {self._process.wait()} on {expression} {names!r:.200}"
        worked, answer = ast.literal_eval(line)
        if not worked:
            raise Raised(": ".join(answer))
        return answer

    def close(self) -> None:
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()


@functools.cache
def find(version: str) -> str | None:
    """An interpreter of that version; what merely has the right name is asked."""
    folders = sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob(f"versions/{version}.*"))
    candidates = [sys.executable, *(str(folder / "bin" / "python") for folder in reversed(folders))]
    candidates.append(shutil.which(f"python{version}") or sys.executable)
    question = "import sys; print('%s %d.%d' % ((sys.implementation.name,) + sys.version_info[:2]))"
    for candidate in candidates:
        if Path(candidate).exists():
            answer = subprocess.run([candidate, "-I", "-c", question], capture_output=True, text=True)
            if answer.stdout.strip() == f"cpython {version}":
                return candidate
    return None


FOUND = tuple(version for version in VERSIONS if find(version))
"""Those that are here; `test_every_python.py` says loudly which are not."""


@pytest.fixture(scope="module", params=FOUND)
def python(request: pytest.FixtureRequest) -> Iterator[Interpreter]:
    """Each interpreter in turn."""
    executable = find(request.param)
    assert executable is not None
    interpreter = Interpreter(executable)
    yield interpreter
    interpreter.close()
