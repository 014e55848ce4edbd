"""Where an f-string ends. Since Python 3.12 the same quotes may stand again in the fields of one: `f"{row["key"]}"`."""

from __future__ import annotations

import re

_PREFIX = re.compile(r"(?i)(?:f|rf|fr|t|rt|tr)\Z")
_OPENING = re.compile(r"\"{3}|'{3}|\"|'")
_STRING = re.compile(r"\"(?:[^\"\\\r\n]|\\.)*+\"|'(?:[^'\\\r\n]|\\.)*+'", re.DOTALL)
_TRIPLE = re.compile(r"\"{3}(?:[^\"\\]|\\.|\"(?!\"\"))*+\"{3}|'{3}(?:[^'\\]|\\.|'(?!''))*+'{3}", re.DOTALL)
_IN_TEXT = re.compile(r"[^\\{}\"'\r\n]*+(?P<stop>\\.|\{\{|\}\}|\"{3}|'{3}|.)", re.DOTALL)
_IN_FIELD = re.compile(r"[^{}\"'\r\n]*+(?P<stop>.)", re.DOTALL)


def is_prefix(word: str) -> bool:
    """Whether `word`, right before a quote, makes it an f-string or a template string."""
    return bool(_PREFIX.match(word))


def find_end(code: str, start: int) -> tuple[int, int]:
    """The end of the f-string whose quote stands at `start`, and how far was looked. -1 where it does not end."""
    outermost = _quote_at(code, start)
    position = start + len(outermost)
    # A quote stands for the text of a string, a brace for one of its fields.
    open_parts = [outermost]
    while open_parts and position < len(code):
        inside = open_parts[-1]
        match = (_IN_FIELD if inside == "{" else _IN_TEXT).match(code, position)
        if match is None:
            break
        stop = match["stop"]
        position = match.end()
        if stop in "\r\n":
            if len(outermost) == 1:
                return -1, position
        elif inside == "{":
            position = _step_in_field(code, position - 1, open_parts)
            if position < 0:
                return -1, match.end()
        elif stop == "{":
            open_parts.append("{")
        elif stop[0] == inside[0] and (len(stop) == len(inside) or len(inside) == 1):
            # Of three quotes, one ends a string that began with one.
            position -= len(stop) - len(inside)
            open_parts.pop()
    return (-1 if open_parts else position), position


def _step_in_field(code: str, position: int, open_parts: list[str]) -> int:
    """Past the brace, quote or string at `position`; -1 where a string does not end."""
    sign = code[position]
    if sign == "{":
        open_parts.append("{")
    elif sign == "}":
        open_parts.pop()
    else:
        quote = _quote_at(code, position)
        if re.search(r"(?i)(?<!\w)(?:f|rf|fr|t|rt|tr)\Z", code[max(0, position - 3) : position]):
            open_parts.append(quote)
            return position + len(quote)
        match = (_TRIPLE if len(quote) == 3 else _STRING).match(code, position)
        return match.end() if match else -1
    return position + 1


def _quote_at(code: str, position: int) -> str:
    match = _OPENING.match(code, position)
    return match.group() if match else ""
