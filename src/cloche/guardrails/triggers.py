"""Whether a cell has anything in it that the guard-rails could report: a look at its words, without parsing it.

Most cells have not, and looking at the words takes a hundredth of the time.
"""

from __future__ import annotations

import re

from cloche.guardrails import rules

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# A character in a string may be written so that its word is not seen; a star stands for words that are not written.
_HIDING = re.compile(r"\\[xuUN0-7]|import\s*\(?\s*\*|import\s*\\")


def _last_parts(names: frozenset[str]) -> frozenset[str]:
    return frozenset(name.rpartition(".")[2] for name in names)


_SHORT = rules.MODULES | rules.NAMES | rules.ATTRIBUTES
_LONG = (
    _SHORT
    | rules.MORE_MODULES
    | rules.MORE_NAMES
    | rules.REEXPORTED
    | rules.ALIASES
    | rules.FRAME_ATTRIBUTES
    | rules.FILE_METHODS
    | rules.BY_NAME
    | rules.FORMATTING
    | _last_parts(rules.FILE_FUNCTIONS)
    | _last_parts(rules.EVALUATORS)
)


def may_violate(code: str, *, walled: bool) -> bool:
    """False only for code in which nothing can be reported."""
    if not code.isascii():
        # Python takes other forms of a letter for the letter.
        return True
    words = set(_WORD.findall(code))
    if walled:
        return not words.isdisjoint(_SHORT)
    hidden = any(word[0] == "_" for word in words)
    return hidden or not words.isdisjoint(_LONG) or _HIDING.search(code) is not None
