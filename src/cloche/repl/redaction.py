"""Secrets in a text are masked before a model sees it: whole texts, and streams of any length.

It keeps keys that were left in a document or an environment out of prompts and logs. It knows secrets by their looks,
so it misses what looks like nothing in particular; and code that wants to get a secret past it can.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from cloche.repl.escaped_text import PlainText, plain_text
from cloche.repl.secret_kinds import (
    ASSIGNMENTS,
    LONGEST_END,
    LOOK_AHEAD,
    LOOK_BEHIND,
    PRIVATE_KEY,
    TOKENS,
    Kind,
    known_value,
    whole_head,
)

SHORTEST_KNOWN = 6
# Text waits until there is this much of it, so that what is looked at twice is little beside what is looked at once.
_STEP = 4 * LOOK_AHEAD
_BLANK = re.compile(r"\s")
(_KEY_BEGINS,) = PRIVATE_KEY.begins
LONGEST_PRIVATE_KEY = 1 << 14
MOST_PRIVATE_KEYS = 1000
"""That are looked for in one text. A file of more is no accident."""


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


class Place(NamedTuple):
    """Where a secret stands in a text."""

    start: int
    end: int
    kind: str


def mask(kind: str) -> str:
    """What stands in place of a secret."""
    return f"[redacted: {kind}]"


class Redactor:
    """Masks secrets in a text that comes in pieces. However it is cut, the outcome is the same.

    What `feed` returns may lag a few thousand characters behind; `finish` returns the rest.
    """

    def __init__(self, known: Iterable[str] = (), places: list[Place] | None = None) -> None:
        """`known` are secrets by their values, for those that look like nothing in particular; they are also found
        as programs print them, with escapes.

        Where secrets were found is added to `places`.
        """
        given = [value for value in known if len(value) >= SHORTEST_KNOWN]
        if any(len(value) > LOOK_AHEAD for value in given):
            raise ValueError(f"a known secret may have {LOOK_AHEAD} characters")
        values = sorted({each for value in given for each in _written_forms(value)}, key=len, reverse=True)
        self._rules = _Rules(tuple(map(known_value, values))) if values else _DEFAULT
        self._text = ""
        self._position = 0
        self._tail: re.Pattern[str] | None = None
        self._behind_mask = False
        self._dropped = 0  # characters before `_text`
        self._places = places
        self._begun: tuple[int, str] = (0, "")
        self.found = 0
        """How many secrets were masked so far."""

    def feed(self, chunk: str) -> str:
        """Take in a piece of the text, and return what of it can be shown by now."""
        self._text += chunk
        if len(self._text) - self._position < _STEP:
            return ""
        return self._go_on(last=False)

    def finish(self) -> str:
        """The rest of the text. The redactor can then be used for another."""
        shown = self._go_on(last=True)
        if self._tail is not None:  # the text ends with the secret
            self._note_place(len(self._text))
        self._text, self._position, self._tail, self._behind_mask, self._dropped = "", 0, None, False, 0
        return shown

    def _go_on(self, *, last: bool) -> str:
        """Judge every place behind which there is enough text to be sure; when it is the `last` text, all of it.

        Places are those of the plain text, in which secrets look like themselves; what is shown is the written one.
        """
        shown: list[str] = []
        plain, rules = PlainText(self._text), self._rules
        text, written, index = plain.text, plain.written, plain.written_index
        limit = len(text) + 1 if last else len(text) - LOOK_AHEAD
        end = min(limit, len(text))
        next_token = _Ahead(rules.next_token, text)
        next_assignment = _Ahead(rules.next_assignment, text)
        while self._position < end:
            if self._tail is not None:
                self._skip_tail(plain, limit)
                continue
            match = rules.tokens_behind_mask.match(text, self._position) if self._behind_mask else None
            self._behind_mask = False
            if match is None:
                found = (next_token.at(self._position), next_assignment.at(self._position))
                match = min((each for each in found if each is not None), key=_start, default=None)
            if match is None or match.start() >= end:
                shown.append(written[index(self._position) : index(end)])
                self._position = end
                break
            number = int((match.lastgroup or "k0")[1:])
            kept = rules.kept[number].match(text, match.start())
            secret = kept.end() if kept else match.start()
            shown += [written[index(self._position) : index(secret)], mask(rules.kinds[number].name)]
            self.found += 1
            self._begun = (self._dropped + index(secret), rules.kinds[number].name)
            self._position = match.end()
            self._tail = rules.tails[number]
        drop = max(self._position - LOOK_BEHIND, 0)
        self._text = written[index(drop) :]
        self._position -= drop
        self._dropped += index(drop)
        return "".join(shown)

    def _skip_tail(self, plain: PlainText, limit: int) -> None:
        """Pass over what still belongs to the secret that was found last."""
        match = self._tail.match(plain.text, self._position) if self._tail is not None else None
        end = match.end() if match else self._position
        if end + LONGEST_END <= len(plain.text) or limit > len(plain.text):
            self._tail = None
            self._behind_mask = True
            self._position = end
            self._note_place(plain.written_index(end))
        else:
            # It may go on in what is still to come.
            self._position = limit

    def _note_place(self, end: int) -> None:
        if self._places is not None:
            start, kind = self._begun
            self._places.append(Place(start, self._dropped + end, kind))


def _written_forms(value: str) -> set[str]:
    """A secret as it is, and as it stands in a string literal or in JSON, also inside another; plain as far as texts
    are made plain."""
    forms = {value}
    for _ in range(2):
        forms |= {write(form)[1:-1] for form in forms for write in (repr, json.dumps)}
    return {plain_text(form) for form in forms if len(form) <= LOOK_AHEAD}


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


def find_secrets(text: str) -> list[Place]:
    """Where the secrets of a text are."""
    places: list[Place] = []
    redactor = Redactor(places=places)
    redactor.feed(text)
    redactor.finish()
    return places


def cut_out(text: str, start: int, stop: int) -> str:
    """`text[start:stop]`, but a secret that goes past an end of it is masked: its part alone looks like nothing.

    Only secrets of one line are known here. `text` may be of any length: it is read near the cuts alone.
    """
    stop = max(min(stop, len(text)), start)
    left, right = _secret_at(text, start), _secret_at(text, stop)
    head = tail = ""
    if left is not None and left.start <= start < left.end:
        head, start = mask(left.kind), min(left.end, stop)
    if right is not None and start <= right.start < stop < right.end:
        tail, stop = mask(right.kind), right.start
    return f"{head}{text[start:stop]}{tail}"


def find_private_keys(text: str) -> list[Place]:
    """Where the private keys of a text are: the secrets that go over many lines, so that a line may be in one."""
    places: list[Place] = []
    position = text.find(_KEY_BEGINS)
    while position >= 0 and len(places) < MOST_PRIVATE_KEYS:
        found = find_secrets(text[position : position + LONGEST_PRIVATE_KEY])
        if found and found[0].start == 0 and found[0].kind == PRIVATE_KEY.name:
            places.append(Place(position, position + found[0].end, PRIVATE_KEY.name))
        position = text.find(_KEY_BEGINS, position + 1)
    return places


def _secret_at(text: str, place: int) -> Place | None:
    """The secret that stands around a place. There are no blanks in one; in what names it there may be."""
    if not 0 < place < len(text):
        return None
    before = text[max(place - LOOK_AHEAD, 0) : place][::-1]
    first = max(place - _word_end(before) - LOOK_BEHIND, 0)
    found = find_secrets(text[first : place + _word_end(text[place : place + LOOK_AHEAD])])
    near = (Place(first + each.start, first + each.end, each.kind) for each in found)
    return next((each for each in near if each.start <= place < each.end), None)


def _word_end(text: str) -> int:
    blank = _BLANK.search(text)
    return len(text) if blank is None else blank.start()


def redact(text: str, known: Iterable[str] = ()) -> str:
    """`text` with its secrets masked: ``[redacted: GitHub token]``."""
    redactor = Redactor(known)
    return redactor.feed(text) + redactor.finish()
