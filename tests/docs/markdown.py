"""Reading the documentation's own files: pages and the fenced blocks in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,}) *(?P<info>[^`\n]*)$")
_TITLE = re.compile(r'title="([^"]+)"')


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block. `title` names a file where the fence says so."""

    language: str
    title: str | None
    text: str
    line: int
    """Of its first line of text, counted from 1."""


def pages() -> list[Path]:
    """Every page that people read."""
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")])


def name_of(page: Path) -> str:
    """The page as tests call it."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, language: str | None = None) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found: list[Block] = []
    opened: re.Match[str] | None = None
    text: list[str] = []
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        fence = _FENCE.match(line)
        if opened is None:
            if fence is not None:
                opened, text = fence, []
        elif fence is not None and not fence["info"] and len(fence["ticks"]) >= len(opened["ticks"]):
            found.append(_block(opened, text, number - len(text)))
            opened = None
        else:
            text.append(line.removeprefix(opened["indent"]))
    return [block for block in found if language is None or block.language == language]


def _block(fence: re.Match[str], text: list[str], line: int) -> Block:
    words = fence["info"].split()
    title = _TITLE.search(fence["info"])
    return Block(words[0] if words else "", title[1] if title else None, "\n".join(text) + "\n", line)
