"""Every Python block of every page runs, and prints what the page says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.markdown import ROOT, Block, blocks, name_of, pages
from tests.docs.run_page import shown_output

WITH_PYTHON = [page for page in pages() if blocks(page, "python")]


def clean_environment() -> dict[str, str]:
    """Settings of whoever runs the tests must not change what the pages show."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CLOCHE_")}
    return {**kept, "PATH": os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", "")])}


@pytest.mark.parametrize("page", WITH_PYTHON, ids=name_of)
def test_python_on_the_page_runs_and_prints_what_is_shown(page, tmp_path):
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests/docs/run_page.py"), str(page)],
        cwd=tmp_path,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr


def is_test_file(block: Block) -> bool:
    return block.title is not None and block.title.startswith("test_")


@pytest.mark.parametrize("page", [page for page in pages() if any(map(is_test_file, blocks(page)))], ids=name_of)
def test_tests_on_the_page_pass(page, tmp_path):
    for block in filter(is_test_file, blocks(page)):
        (tmp_path / str(block.title)).write_text(block.text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "."],
        cwd=tmp_path,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stdout


def test_shown_output_is_the_lines_after_the_mark():
    block = Block("python", None, "print('a')\n# > a\n    # > indented\n# >\n# no mark\n", 1)
    assert shown_output(block) == "a\nindented\n\n"


def test_page_that_shows_something_else_is_refused(tmp_path):
    page = tmp_path / "wrong.md"
    page.write_text("```python\nprint(6 * 7)\n# > 41\n```\n")
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests/docs/run_page.py"), str(page)], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "the block shows\n41\n" in done.stderr


def test_page_that_prints_what_it_does_not_show_is_refused(tmp_path):
    page = tmp_path / "silent.md"
    page.write_text("```python\nprint(6 * 7)\n```\n")
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests/docs/run_page.py"), str(page)], capture_output=True, text=True
    )
    assert done.returncode == 1


def test_blocks_inside_a_list_lose_their_indentation(tmp_path):
    page = tmp_path / "list.md"
    page.write_text("- a list\n\n    ```python\n    x = 1\n    ```\n")
    assert [(block.text, block.line) for block in blocks(page)] == [("x = 1\n", 4)]
