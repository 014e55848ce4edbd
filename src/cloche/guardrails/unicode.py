"""Code with characters from prose in it, such as `theta = 47° × 2`, made into Python.

What parses is never touched. The rest is read once from left to right; strings and comments are passed over as they
are, and each replacement is told.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from cloche.guardrails import fstrings
from cloche.guardrails.characters import (
    DOUBLE_QUOTES,
    FRACTIONS,
    PLAIN,
    PRIMES,
    ROOTS,
    SINGLE_QUOTES,
    SUPERSCRIPT_LETTERS,
    SUPERSCRIPTS,
)
from cloche.guardrails.parsing import parses


@dataclass(frozen=True, slots=True)
class Replacement:
    """One text that was replaced, and where it stood."""

    line: int
    column: int
    found: str
    replaced_by: str


class Sanitized(str):
    """Python source, and what was replaced to get it."""

    __slots__ = ("replacements",)
    replacements: tuple[Replacement, ...]

    def __new__(cls, code: str, replacements: Iterable[Replacement] = ()) -> Self:
        self = super().__new__(cls, code)
        self.replacements = tuple(replacements)
        return self

    @property
    def code(self) -> str:
        """The source as a plain string."""
        return str.__str__(self)

    @property
    def note(self) -> str:
        """What was replaced, as a line for the author of the code; empty if nothing was."""
        if not self.replacements:
            return ""
        times = Counter((each.found, each.replaced_by) for each in self.replacements)
        parts = [_told(found, by) + (f" ({count} times)" if count > 1 else "") for (found, by), count in times.items()]
        shown = parts[:_MOST_TOLD] + ([f"and {len(parts) - _MOST_TOLD} more"] if len(parts) > _MOST_TOLD else [])
        return "replaced outside of strings and comments: " + ", ".join(shown)


def sanitize_code_unicode(code: str) -> Sanitized:
    """`code` with the characters that Python does not know replaced by those that it does.

    Code that is ASCII, or that parses, comes back as it is. Otherwise characters outside of strings and comments are
    replaced, and `.replacements` says which; curly quotes become straight ones where they delimit a string.
    """
    if code.isascii() or parses(code):
        return Sanitized(code)
    scanner = Scanner(code)
    scanner.run()
    return Sanitized("".join(scanner.written), scanner.placed())


_MOST_TOLD = 12
_MOST_CANDIDATES = 8
_LONGEST_LOOK_BACK = 64
_BLANKS = {" ": "a space", "\n": "a line end"}
# What may end a string, by what begins it, where not every quote of the family may.
_CLOSERS = {"\u201c": "\u201d\u201f\u2033\u275e\uff02", "\u2018": "\u2019\u201b\u2032\u00b4\u275c\uff07"}
_QUOTES = DOUBLE_QUOTES + SINGLE_QUOTES
# Regular expressions count them as letters; Python does not.
_NOT_IN_NAMES = "".join(
    sign for sign in (*SUPERSCRIPTS, *FRACTIONS, *PLAIN) if sign.isnumeric() and not sign.isdecimal()
)
_OPERAND_END = r"[\w)\]}]\Z"
_OPERAND_START = re.compile(r"[\w(]")
_TO_LINE_END = re.compile(r"[^\r\n]*+")
_TOKEN = re.compile(
    r"""
    (?P<comment>\#[^\r\n]*+)
  | (?P<triple>\"{3}(?:[^"\\]|\\.|"(?!""))*+(?:\"{3}|\Z)|'{3}(?:[^'\\]|\\.|'(?!''))*+(?:'{3}|\Z))
  | (?P<string>"(?:[^"\\\r\n]|\\.)*+(?:"|(?=[\r\n]|\\?\Z))|'(?:[^'\\\r\n]|\\.)*+(?:'|(?=[\r\n]|\\?\Z)))
  | (?P<number>[0-9][0-9_]*+(?:\.[0-9_]*+)?(?:[eE][+-]?[0-9]++)?)
  | (?P<superscript>[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿⁱ]++)
  | (?P<word>[^\W\dEXCLUDED][^\WEXCLUDED]*+)
  | (?P<open>[(\[{])
  | (?P<close>[)\]}])
  | (?P<ascii>[\x00-\x7f])
  | (?P<other>.)
    """.replace("EXCLUDED", _NOT_IN_NAMES),
    re.VERBOSE | re.DOTALL,
)
_ROOT_OPERAND = re.compile(
    r"[ \t]*+(?P<simple>[0-9][0-9_]*+(?:\.[0-9_]++)?|[^\W\d]\w*+(?:\.[^\W\d]\w*+)*+)?(?P<group>\()?"
)


class Scanner:
    """Reads code that does not parse, from left to right, and never goes back."""

    def __init__(self, code: str) -> None:
        self.written: list[str] = []
        self.replaced: list[tuple[int, str, str]] = []
        self.examined = 0
        """Characters looked at: that this grows with the size of the code, and no faster, is tested."""
        self._code = code
        self._position = 0
        # What to write behind the bracket that closes each open one.
        self._brackets: list[str] = []
        self._no_f_string_until = 0
        self._places: dict[str, list[int]] = {}

    def run(self) -> None:
        """Read everything."""
        while self._position < len(self._code):
            match = _TOKEN.match(self._code, self._position)
            if match is None or match.lastgroup is None:
                raise AssertionError("every character is some token")
            self.examined += match.end() - match.start()
            getattr(self, f"_take_{match.lastgroup}", self._copy)(match.group())

    def placed(self) -> list[Replacement]:
        """The replacements, with lines and columns counted from 1."""
        starts = [0, *(match.end() for match in re.finditer(r"\r\n|\r|\n", self._code))]
        places = []
        for offset, found, by in self.replaced:
            line = bisect_right(starts, offset)
            places.append(Replacement(line, offset - starts[line - 1] + 1, found, by))
        return places

    # -- what is kept --------------------------------------------------------------------------

    def _copy(self, text: str) -> None:
        self.written.append(text)
        self._position += len(text)

    def _replace(self, found: str, by: str) -> None:
        if found != by:
            self.replaced.append((self._position, found, by))
        self.written.append(by)
        self._position += len(found)

    def _take_triple(self, text: str) -> None:
        if not self._take_f_string():
            self._copy(text)

    def _take_string(self, text: str) -> None:
        if self._take_f_string():
            return
        if len(text) > 1 and text[-1] == text[0]:
            self._copy(text)
            return
        # No straight quote ends it. A curly one may have been meant to.
        closers = DOUBLE_QUOTES if text[0] == '"' else SINGLE_QUOTES
        end = _find_any(text, closers)
        self.examined += len(text)
        if end < 0:
            self._copy(text)
            return
        self._copy(text[:end])
        self._replace(text[end], text[0])

    def _take_f_string(self) -> bool:
        """Copy the f-string that begins here, if one does and it has an end."""
        if self._position < self._no_f_string_until or not self.written or not fstrings.is_prefix(self.written[-1]):
            return False
        end, looked = fstrings.find_end(self._code, self._position)
        self.examined += looked - self._position
        if end < 0:
            self._no_f_string_until = looked
            return False
        self._copy(self._code[self._position : end])
        return True

    def _take_open(self, text: str) -> None:
        self._brackets.append("")
        self._copy(text)

    def _take_close(self, text: str) -> None:
        self._copy(text)
        if self._brackets:
            self.written.append(self._brackets.pop())

    # -- what is replaced ----------------------------------------------------------------------

    def _take_ascii(self, text: str) -> None:
        if text == "`":
            self._take_quote(text)
        else:
            self._copy(text)

    def _take_other(self, text: str) -> None:
        if text in _QUOTES:
            self._take_quote(text)
        elif text in FRACTIONS:
            self._take_fraction(text)
        elif text in ROOTS:
            self._take_root(text)
        elif text == "＃":
            self._replace(text, "#")
            self._copy(self._rest_of_line())
        elif text in PLAIN:
            plain = self._fitted(PLAIN[text])
            self._replace(text, plain)
            if plain in ("(", "[", "{"):
                self._brackets.append("")
            elif plain in (")", "]", "}") and self._brackets:
                self.written.append(self._brackets.pop())
        else:
            self._copy(text)

    def _fitted(self, word: str) -> str:
        """A word such as ` not ` without the blanks that it does not need: at the start of a line they would indent."""
        if not word.strip(" "):
            return word
        before, behind = (
            self._code[max(self._position - 1, 0) : self._position],
            self._code[self._position + 1 : self._position + 2],
        )
        word = word.lstrip(" ") if not before or before.isspace() else word
        return word.rstrip(" ") if behind.isspace() else word

    def _take_superscript(self, text: str) -> None:
        if text[0] in SUPERSCRIPT_LETTERS and self._after(r"[^\W\d]\w*\Z"):
            self._copy(text)
            return
        power = "".join(SUPERSCRIPTS[sign] for sign in text)
        simple = re.fullmatch(r"[+-]?(?:[0-9]+|n|i)|\([^()]*\)", power)
        self._replace(text, "**" + (power if simple else f"({power})"))

    def _take_fraction(self, text: str) -> None:
        value = f"({FRACTIONS[text]})"
        if self._after(r"[0-9]\Z") and self.written[-1].isdigit():
            value = f"({self.written.pop()}+{FRACTIONS[text]})"
        elif self._after(_OPERAND_END):
            value = f"*{value}"
        if _OPERAND_START.match(self._code, self._position + 1):
            value += "*"
        self._replace(text, value)

    def _take_root(self, text: str) -> None:
        operand = _ROOT_OPERAND.match(self._code, self._position + 1)
        if operand is None or (operand["simple"] is None and operand["group"] is None):
            self._copy(text)
            return
        self.examined += operand.end() - operand.start()
        power = f"**{ROOTS[text]}"
        self.replaced.append((self._position, text, power))
        self.written.append("*(" if self._after(_OPERAND_END) else "(")
        self.written.append(operand.group())
        self._position = operand.end()
        if operand["group"] is None:
            self.written.append(f"{power})")
        else:
            self._brackets.append(f"{power})")

    def _take_quote(self, text: str) -> None:
        if text in PRIMES and self._after(r"\w\Z"):
            # Minutes of arc, feet, inches; or a name such as x′.
            self._replace(text, "" if self._after(r"(?<![^\W\d])[0-9]\Z") else "_prime")
            return
        family, straight = (DOUBLE_QUOTES, '"') if text in DOUBLE_QUOTES else (SINGLE_QUOTES, "'")
        if self._is_triple(self._position, family):
            self._take_triple_quote(family, straight)
            return
        end = self._closing(_CLOSERS.get(text, family), straight)
        if end < 0:
            self._replace(text, straight)
            return
        content = self._code[self._position + 1 : end]
        self._replace(text, straight)
        self.written.append(re.sub(rf"\\.|{straight}|\\\Z", _escape, content))
        self._position = end
        self._replace(self._code[end], straight)

    def _closing(self, closers: str, straight: str) -> int:
        """Where the string that begins here ends, or -1 if nothing on this line can end it."""
        curly = self._next_closer(closers)
        quotes = self._places_of(straight)
        # Straight quotes in pairs are part of it: “say "hi"”. A single one ends it.
        if curly < 0 or (bisect_right(quotes, curly) - bisect_right(quotes, self._position)) % 2:
            plain = self._next_closer(straight)
            return plain if plain >= 0 else curly
        return curly

    def _next_closer(self, closers: str) -> int:
        """The next of `closers` on this line that is no apostrophe within a word; failing that, the next."""
        places = self._places_of(closers)
        lines = self._places_of("\r\n")
        first = bisect_right(places, self._position)
        line = bisect_right(lines, self._position)
        end_of_line = lines[line] if line < len(lines) else len(self._code)
        candidates = [place for place in places[first : first + _MOST_CANDIDATES] if place < end_of_line]
        self.examined += len(candidates)
        outside = (place for place in candidates if not _OPERAND_START.match(self._code, place + 1))
        return next(outside, candidates[0] if candidates else -1)

    def _places_of(self, signs: str) -> list[int]:
        """Where any of `signs` stands in the code; found once, so that no line is searched again and again."""
        if signs not in self._places:
            self.examined += len(self._code)
            self._places[signs] = [match.start() for match in re.finditer(f"[{re.escape(signs)}]", self._code)]
        return self._places[signs]

    def _rest_of_line(self) -> str:
        match = _TO_LINE_END.match(self._code, self._position)
        return match.group() if match else ""

    def _take_triple_quote(self, family: str, straight: str) -> None:
        self._replace(self._code[self._position : self._position + 3], straight * 3)
        closing = re.compile(f"[{re.escape(family)}]{{3}}|{straight}{{3}}").search(self._code, self._position)
        end = closing.start() if closing else len(self._code)
        self.examined += end - self._position
        self._copy(self._code[self._position : end])
        if closing:
            self._replace(closing.group(), straight * 3)

    def _is_triple(self, position: int, family: str) -> bool:
        three = self._code[position : position + 3]
        return len(three) == 3 and all(sign in family and sign != "`" for sign in three)

    def _after(self, pattern: str) -> bool:
        """Whether what was written last ends as `pattern` says."""
        return bool(self.written and re.search(pattern, self.written[-1][-_LONGEST_LOOK_BACK:]))


def _find_any(text: str, signs: str) -> int:
    match = re.search(f"[{re.escape(signs)}]", text)
    return match.start() if match else -1


def _escape(match: re.Match[str]) -> str:
    """A quote gets a backslash before it, and so does a backslash that would escape the quote behind the string."""
    return match.group() if len(match.group()) > 1 else "\\" + match.group()


def _told(found: str, by: str) -> str:
    name = found if found.isprintable() and not found.isspace() else " ".join(f"U+{ord(sign):04X}" for sign in found)
    return f"{name} removed" if by == "" else f"{name} by {_BLANKS.get(by, by.strip())}"
