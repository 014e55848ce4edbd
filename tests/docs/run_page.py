"""Runs the Python of one page, as a reader would type it: ``python run_page.py PAGE`` in an empty folder.

Blocks share one namespace, in order. A block with a title is written to a file of that name instead, whatever its
language. What a block prints must be what it shows, as lines that begin with ``# > `` (``...`` stands for anything);
a block that shows nothing must print nothing.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.docs.markdown import Block, blocks

SHOWN = "# > "


def shown_output(block: Block) -> str:
    """What the block says that it prints."""
    lines = [line.strip() for line in block.text.splitlines()]
    return "".join(line[len(SHOWN) :] + "\n" if line != SHOWN.strip() else "\n" for line in lines if _shows(line))


def _shows(line: str) -> bool:
    return line.startswith(SHOWN) or line == SHOWN.strip()


def run(page: Path) -> str | None:
    """Run a page; what is wrong with it, or None."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page):
        if block.title is not None:
            Path(block.title).write_text(block.text, "utf-8")
        elif block.language == "python":
            trouble = _run_block(page, block, names)
            if trouble is not None:
                return trouble
    return None


def _run_block(page: Path, block: Block, names: dict[str, Any]) -> str | None:
    # Line numbers of the page, so that a traceback points at it.
    code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, names)
    expected, got = shown_output(block), printed.getvalue()
    if doctest.OutputChecker().check_output(expected, got, doctest.ELLIPSIS):
        return None
    return f"{page}:{block.line}: the block shows\n{expected or '(nothing)'}\nand prints\n{got or '(nothing)'}"


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1])))
