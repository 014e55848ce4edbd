"""Looking only at lines that can match: those with a text in them that the pattern cannot do without.

Finding a fixed text takes a fraction of the time of the fastest engine. Where that text is on every other line there is
nothing to gain, and the search goes on without.
"""

from __future__ import annotations

import re
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from cloche.repl.patterns import tokens_of

if TYPE_CHECKING:
    from cloche.repl.text import Data

_SHORTEST = 2
_MOST = 4
_COUNT = re.compile(r"\{\d+(?:,\d*)?\}")
# Lines that were looked at in vain, and how many bytes each of them must have saved at least.
_TRIALS = 64
_WORTH = 4096


def required_texts(pattern: str) -> tuple[str, ...]:
    """Texts of which every match has at least one, in the case that is written; empty if none are known."""
    tokens = [token for token, in_class in tokens_of(pattern) if not in_class]
    if any(token.startswith(r"\Q") for token in tokens):
        return ()
    best: list[str] = []
    longest = run = ""
    depth = 0
    skipped = 0
    for index, token in enumerate([*tokens, "|"]):
        if index < skipped:
            continue
        if token.startswith("(?") and token != "(?:":
            # Flags change what the rest means.
            return ()
        count = _COUNT.match("".join(tokens[index : index + 12])) if token == "{" else None
        sign = _literal(token)
        if sign is not None and count is None:
            run += sign if depth == 0 else ""
            continue
        # A sign that need not be there is no part of the run, and nothing behind it belongs to the same one.
        longest = max(longest, run[:-1] if count or token in ("*", "?") else run, key=len)
        run = ""
        if count is not None:
            skipped = index + 1 + sum(1 for _ in takewhile(lambda each: each != "}", tokens[index:]))
        depth += token[0] == "("
        depth -= token == ")"
        if token == "|" and depth == 0:
            best.append(longest)
            longest = ""
    return tuple(best) if len(best) <= _MOST and all(len(text) >= _SHORTEST for text in best) else ()


def _literal(token: str) -> str | None:
    """The sign that a token stands for, if it is one."""
    if len(token) == 2 and token[0] == "\\" and not token[1].isalnum():
        return token[1]
    return token if len(token) == 1 and token not in "\\.^$*+?()[|" else None


class LineFilter:
    """One search of one text for lines that match."""

    def __init__(self, engine: Any, data: Data, required: tuple[bytes, ...]) -> None:
        self._engine = engine
        self._data = data
        self._required = required
        # Where each of the texts is next; -1 where it is not.
        self._next = dict.fromkeys(required, -2)
        self._in_vain = 0
        self._saved = 0

    def search(self, position: int, end: int) -> Any:
        """The next match from `position`, which is the beginning of a line, up to `end`."""
        while self._required and not self._is_too_common():
            candidate = self._candidate(position)
            if candidate < 0 or candidate >= end:
                return None
            start = self._data.rfind(b"\n", position, candidate) + 1 or position
            line_end = self._data.find(b"\n", candidate, end)
            line_end = end if line_end < 0 else line_end
            match = self._engine.search(self._data, start, line_end)
            if match is not None:
                return match
            self._in_vain += 1
            self._saved += line_end - position
            position = line_end + 1
            if position > end:
                return None
        return self._engine.search(self._data, position, end)

    def _candidate(self, position: int) -> int:
        """Where the nearest of the texts stands."""
        for text, place in self._next.items():
            if place != -1 and place < position:
                self._next[text] = self._data.find(text, position)
        return min((place for place in self._next.values() if place >= 0), default=-1)

    def _is_too_common(self) -> bool:
        return self._in_vain >= _TRIALS and self._saved < self._in_vain * _WORTH
