"""The types that users see, from outside of this project's own settings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.markdown import blocks, name_of, pages

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


PAGES = {name_of(page): blocks(page, "python") for page in pages() if blocks(page, "python")}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What mypy says of each file, all outside of the project. One run: most of its time goes into the library."""
    folder = tmp_path_factory.mktemp("usage")
    (folder / "usage.py").write_text(USAGE.read_text() + "\n\n" + "\n".join(WRONG.values()) + "\n")
    for page, found in PAGES.items():
        (folder / module_of(page)).write_text("\n\n".join(block.text for block in found))
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--no-error-summary", "."]
    lines = subprocess.run(command, cwd=folder, capture_output=True, text=True).stdout.splitlines()
    return {file.name: [line for line in lines if line.startswith(f"{file.name}:")] for file in folder.glob("*.py")}


def module_of(page: str) -> str:
    return page.replace("/", "_").replace("-", "_").removesuffix(".md") + ".py"


@pytest.mark.timeout(180)
def test_right_usage_passes_and_each_wrong_one_is_found(said):
    first = len((USAGE.read_text() + "\n\n").splitlines()) + 1
    flagged = {int(line.split(":")[1]) for line in said["usage.py"] if ": error:" in line}
    missed = [name for number, name in enumerate(WRONG, first) if number not in flagged]
    assert missed == [], said
    assert flagged == set(range(first, first + len(WRONG))), said


@pytest.mark.timeout(180)
@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_shows_passes_the_strict_checker(said, page):
    assert said[module_of(page)] == []
