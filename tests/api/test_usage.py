"""The types that users see, from outside of this project's own settings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

USAGE = Path(__file__).with_name("usage.py")

WRONG = {
    "code that is no text": "cloche.run(5)",
    "a policy field that does not exist": "cloche.ExecutionPolicy(timeot_ms=5)",
    "a value of a wrong type": "cloche.ExecutionPolicy(timeout_ms='5')",
    "a positional policy": "cloche.ExecutionPolicy(5)",
    "a result that is changed": "cloche.run('1').stdout = ''",
    "a coroutine taken for a result": "cloche.create_async_sandbox().execute('1').stdout",
    "a method that does not exist": "cloche.create_sandbox().exec('1')",
    "a backend that is no name": "cloche.create_sandbox(backend=5)",
}


def check(file: Path) -> str:
    """What mypy says of a file that lies outside of the project."""
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--no-error-summary", file.name]
    return subprocess.run(command, cwd=file.parent, capture_output=True, text=True).stdout


# One run for all: most of its time goes into reading the library.
@pytest.mark.timeout(180)
def test_right_usage_passes_and_each_wrong_one_is_found(tmp_path):
    file = tmp_path / "usage.py"
    file.write_text(USAGE.read_text() + "\n\n" + "\n".join(WRONG.values()) + "\n")
    first = len(file.read_text().splitlines()) - len(WRONG) + 1
    said = check(file)
    flagged = {int(line.split(":")[1]) for line in said.splitlines() if ": error:" in line}
    missed = [name for number, name in enumerate(WRONG, first) if number not in flagged]
    assert missed == [], said
    assert flagged == set(range(first, first + len(WRONG))), said
