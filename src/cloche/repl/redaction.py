"""Secrets in a text are masked before a model sees it: whole texts, and streams of any length.

It keeps keys that were left in a document or an environment out of prompts and logs. It knows secrets by their looks,
so it misses what looks like nothing in particular; and code that wants to get a secret past it can.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from cloche.repl.secret_kinds import (
    ASSIGNMENTS,
    LONGEST_END,
    LOOK_AHEAD,
    LOOK_BEHIND,
    TOKENS,
    Kind,
    known_value,
    whole_head,
)

SHORTEST_KNOWN = 6
# Text waits until there is this much of it, so that what is looked at twice is little beside what is looked at once.
_STEP = 4 * LOOK_AHEAD


class _Rules:
    """Kinds of secrets, compiled.

    Tokens are found by the plain text that they begin with, which is many times faster than trying every kind
    at every place.
    """

    def __init__(self, known: tuple[Kind, ...]) -> None:
        tokens = (*known, *TOKENS)
        self.kinds = (*tokens, *ASSIGNMENTS)
        self._beginnings = re.compile(_any_of({text for kind in tokens for text in kind.begins}))
        self._tokens = re.compile(_one_of([whole_head(kind) for kind in tokens], 0), re.ASCII)
        # Behind a mask nothing of the secret is left that another could be part of.
        self.tokens_behind_mask = re.compile(_one_of([whole_head(kind, edge=False) for kind in tokens], 0), re.ASCII)
        # The sign first, so that other places are passed over quickly.
        self._assignments = re.compile(f"[:=](?:{_one_of([kind.head for kind in ASSIGNMENTS], len(tokens))})", re.ASCII)
        self.tails = [re.compile(kind.tail, re.ASCII) for kind in self.kinds]
        self.kept = [re.compile(kind.kept, re.ASCII) for kind in self.kinds]

    def next_token(self, text: str, position: int) -> re.Match[str] | None:
        """The first token from `position` on."""
        while beginning := self._beginnings.search(text, position):
            token = self._tokens.match(text, beginning.start())
            if token is not None:
                return token
            position = beginning.start() + 1
        return None

    def next_assignment(self, text: str, position: int) -> re.Match[str] | None:
        """The first secret from `position` on that is known by its name."""
        return self._assignments.search(text, position)


def _any_of(texts: set[str]) -> str:
    """A pattern for any of `texts`, by their first characters: where none of those stands, one look is enough."""
    by_first: dict[str, list[str]] = {}
    for text in sorted(texts):
        by_first.setdefault(text[0], []).append(re.escape(text[1:]))
    return "|".join(f"{re.escape(first)}(?:{'|'.join(rest)})" for first, rest in by_first.items())


def _one_of(heads: list[str], first: int) -> str:
    return "|".join(f"(?P<k{number}>{head})" for number, head in enumerate(heads, first))


_DEFAULT = _Rules(())


class Redactor:
    """Masks secrets in a text that comes in pieces. However it is cut, the outcome is the same.

    What `feed` returns may lag a few thousand characters behind; `finish` returns the rest.
    """

    def __init__(self, known: Iterable[str] = ()) -> None:
        """`known` are secrets by their values, for those that look like nothing in particular."""
        values = sorted({value for value in known if len(value) >= SHORTEST_KNOWN}, key=len, reverse=True)
        if any(len(value) > LOOK_AHEAD for value in values):
            raise ValueError(f"a known secret may have {LOOK_AHEAD} characters")
        self._rules = _Rules(tuple(map(known_value, values))) if values else _DEFAULT
        self._text = ""
        self._position = 0
        self._tail: re.Pattern[str] | None = None
        self._behind_mask = False
        self.found = 0
        """How many secrets were masked so far."""

    def feed(self, chunk: str) -> str:
        """Take in a piece of the text, and return what of it can be shown by now."""
        self._text += chunk
        if len(self._text) - self._position < _STEP:
            return ""
        return self._go_on(len(self._text) - LOOK_AHEAD)

    def finish(self) -> str:
        """The rest of the text. The redactor can then be used for another."""
        shown = self._go_on(len(self._text) + 1)
        self._text, self._position, self._tail, self._behind_mask = "", 0, None, False
        return shown

    def _go_on(self, limit: int) -> str:
        """Judge every place before `limit`: behind it there is enough text to be sure."""
        shown: list[str] = []
        text, rules = self._text, self._rules
        end = min(limit, len(text))
        next_token = _Ahead(rules.next_token, text)
        next_assignment = _Ahead(rules.next_assignment, text)
        while self._position < end:
            if self._tail is not None:
                self._skip_tail(limit)
                continue
            match = rules.tokens_behind_mask.match(text, self._position) if self._behind_mask else None
            self._behind_mask = False
            if match is None:
                found = (next_token.at(self._position), next_assignment.at(self._position))
                match = min((each for each in found if each is not None), key=_start, default=None)
            if match is None or match.start() >= end:
                shown.append(text[self._position : end])
                self._position = end
                break
            number = int((match.lastgroup or "k0")[1:])
            kept = rules.kept[number].match(text, match.start())
            secret = kept.end() if kept else match.start()
            shown += [text[self._position : secret], f"[redacted: {rules.kinds[number].name}]"]
            self.found += 1
            self._position = match.end()
            self._tail = rules.tails[number]
        drop = max(self._position - LOOK_BEHIND, 0)
        self._text = text[drop:]
        self._position -= drop
        return "".join(shown)

    def _skip_tail(self, limit: int) -> None:
        """Pass over what still belongs to the secret that was found last."""
        match = self._tail.match(self._text, self._position) if self._tail is not None else None
        end = match.end() if match else self._position
        if end + LONGEST_END <= len(self._text) or limit > len(self._text):
            self._tail = None
            self._behind_mask = True
            self._position = end
        else:
            # It may go on in what is still to come.
            self._position = limit


class _Ahead:
    """The next match of one kind of search, kept until it has been passed."""

    def __init__(self, search: Callable[[str, int], re.Match[str] | None], text: str) -> None:
        self._search = search
        self._text = text
        self._from = -1
        self._match: re.Match[str] | None = None

    def at(self, position: int) -> re.Match[str] | None:
        """The first match from `position` on."""
        if self._from < 0 or (self._match is not None and self._match.start() < position):
            self._match = self._search(self._text, position)
            self._from = position
        return self._match


def _start(match: re.Match[str]) -> int:
    return match.start()


def redact(text: str, known: Iterable[str] = ()) -> str:
    """`text` with its secrets masked: ``[redacted: GitHub token]``."""
    redactor = Redactor(known)
    return redactor.feed(text) + redactor.finish()
