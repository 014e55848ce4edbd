"""Links between pages lead somewhere, also for those who read the repository and not the site."""

from __future__ import annotations

import re

import pytest
from tests.docs.markdown import ROOT, name_of, pages

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_MODULE = re.compile(r"`([a-z_]+(?:/[a-z_]+)*\.py)`")


def headings(text: str) -> set[str]:
    """Anchors of a page's headings."""
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title).strip().lower().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_relative_links_lead_somewhere(page):
    broken = []
    for link in _LINK.findall(page.read_text("utf-8")):
        if link.startswith(("https://", "http://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in headings(target.read_text("utf-8"))):
            broken.append(link)
    assert broken == []


def test_modules_that_the_architecture_names_exist():
    text = (ROOT / "docs/architecture.md").read_text("utf-8")
    known = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*.py")}
    missing = [name for name in _MODULE.findall(text) if not any(f"/{path}".endswith(f"/{name}") for path in known)]
    assert missing == []
