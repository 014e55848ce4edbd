r"""Patterns as people write them for Python, made into patterns of RE2, or refused with the name of what it lacks.

RE2 takes time in proportion to the text, whatever the pattern. The price: no lookaround, no backreferences, and `\b` is
the edge of an ASCII word only. `\w`, `\d` and `\s` are those of Python. A pattern goes past the end of a line only if
it says so, with `\n` or `(?s)`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cloche.errors import BackendUnavailableError, PatternError

if TYPE_CHECKING:
    from collections.abc import Iterator

INSTALL = "pip install 'cloche[repl]'"
LONGEST = 10_000
_MEMORY = 64 << 20

_TOKEN = re.compile(
    r"""
    \\Q.*?(?:\\E|\Z)
  | \\u[0-9A-Fa-f]{4} | \\U[0-9A-Fa-f]{8} | \\N\{[^}]*\}
  | \\[pP]\{[^}]*\} | \\x\{[^}]*\} | \\x[0-9A-Fa-f]{2}
  | \\[0-3][0-7]{2} | \\. | \\\Z
  | \[\^?\]?
  | \(\?P[=>] | \(\?<[=!] | \(\?\( | \(\?[=!>\#] | \(\?[a-zA-Z-]*[:)]
  | [*+?}]\+
  | .
    """,
    re.VERBOSE | re.DOTALL,
)
# What Python's classes hold, for the inside of brackets.
_CLASSES = {r"\w": r"\pL\pN_", r"\d": r"\p{Nd}", r"\s": r"\s\v\x1c-\x1f\x{85}\pZ"}
_NEGATED = {r"\W": r"\w", r"\D": r"\d", r"\S": r"\s"}
_NOT_IN_WORDS = (
    r"\pM\pZ\pS\pC\p{Pd}\p{Ps}\p{Pe}\p{Pi}\p{Pf}\p{Po}\x{203F}\x{2040}\x{2054}\x{FE33}\x{FE34}\x{FE4D}-\x{FE4F}\x{FF3F}"
)
_ENDS_COUNT = re.compile(r"\{\d+(?:,\d*)?\Z")
# Inside of brackets only an escape, a class by name and the closing bracket mean more than themselves.
_IN_CLASS = re.compile(
    r"\[:\^?[a-z]+:\]|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8}|\\N\{[^}]*\}|\\[pPx]\{[^}]*\}|\\x[0-9A-Fa-f]{2}|\\.|.",
    re.DOTALL,
)
_FEATURES = {
    "(?=": "lookahead", "(?!": "lookahead", "(?<=": "lookbehind", "(?<!": "lookbehind",
    "(?P=": "a backreference", "(?(": "a conditional group", "(?>": "an atomic group", "(?#": "a comment",
    "(?P>": "recursion",
}  # fmt: skip
_INSTEAD = {
    "lookahead": "search for the text itself and look at the lines that come back",
    "lookbehind": "search for the text itself and look at the lines that come back",
    "a backreference": "write both parts out, or compare them in Python",
    "a conditional group": "write an alternation: a|b",
    "an atomic group": "use a plain group: this engine never goes back",
    "a possessive repetition": r"use the plain one: this engine never goes back; \+ is the sign itself",
    "a comment": "leave the comment out",
    "the flag x": "write the pattern without blanks and comments",
    "a repetition of more than 1000": "use * or +, or repeat less",
    "a named character": "write the character itself",
}


@dataclass(frozen=True, slots=True)
class Translated:
    """A pattern for RE2."""

    pattern: str
    across_lines: bool
    """It may match more than one line."""
    for_crlf: str | None
    """The same where lines end in CR LF, if that makes a difference."""
    word_edges: bool
    """It asks for edges of words, which are those of ASCII words."""


def translate(pattern: str) -> Translated:
    """`pattern` for RE2. Raises PatternError with the name of the feature that RE2 does not have."""
    if len(pattern) > LONGEST:
        raise PatternError(f"the pattern has {len(pattern)} characters; {LONGEST} are allowed", pattern=pattern)
    parts: list[str] = []
    crlf: list[str] = []
    across = False
    edges = False
    for token, in_class in tokens_of(pattern):
        if token == "}+" and not in_class and not _ENDS_COUNT.search("".join(parts[-12:])):
            # A brace that is meant as such.
            plain = token
        else:
            plain = _translate_token(token, pattern, in_class=in_class)
        edges = edges or (token in (r"\b", r"\B") and not in_class)
        across = across or _crosses_lines(token, in_class=in_class)
        parts.append(plain)
        crlf.append(r"(?:\r?$)" if token == "$" and not in_class else plain)
    return Translated("".join(parts), across, "".join(crlf) if crlf != parts else None, edges)


def compile_pattern(pattern: str, *, across_lines: bool, ignore_case: bool, asked: str) -> Any:
    """A compiled pattern of RE2. `asked` is how the user wrote it."""
    re2 = load_engine()
    options = re2.Options()
    options.never_nl = not across_lines
    options.never_capture = True
    options.log_errors = False
    options.max_mem = _MEMORY
    flags = "(?im)" if ignore_case else "(?m)"
    try:
        return re2.compile((flags + pattern).encode("utf-8", "surrogatepass"), options=options)
    except re2.error as exc:
        raw = exc.args[0] if exc.args else b""
        reason = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw)
        raise _refusal(asked, reason.replace(flags, "")) from None


def load_engine() -> Any:
    """The module `re2`."""
    try:
        import re2
    except ImportError as exc:
        raise BackendUnavailableError(
            "grep needs google-re2, which is not installed", cause=str(exc), remedy=INSTALL
        ) from exc
    return re2


def tokens_of(pattern: str) -> Iterator[tuple[str, bool]]:
    """The parts of a pattern, each with whether it stands inside of brackets."""
    in_class = False
    position = 0
    while match := (_IN_CLASS if in_class else _TOKEN).match(pattern, position):
        token = match.group()
        position = match.end()
        yield token, in_class
        in_class = token != "]" if in_class else token[0] == "["


def _translate_token(token: str, pattern: str, *, in_class: bool) -> str:
    if token[0] == "\\":
        return _translate_escape(token, pattern, in_class=in_class)
    if in_class:
        return token
    feature = _FEATURES.get(token)
    if feature is None and token.startswith("(?") and "x" in token.partition("-")[0]:
        feature = "the flag x"
    if feature is None and len(token) == 2 and token[1] == "+" and token[0] in "*+?}":
        feature = "a possessive repetition"
    if feature is not None:
        raise _missing(feature, pattern)
    if token.startswith("(?") and token[-1] in ":)" and set(token[2:-1]) & set("auL"):
        # Flags of Python that RE2 knows nothing of and that change nothing here.
        kept = "".join(flag for flag in token[2:-1] if flag not in "auL")
        return f"(?{kept}{token[-1]}" if kept or token[-1] == ":" else ""
    return token


def _translate_escape(token: str, pattern: str, *, in_class: bool) -> str:
    kind = token[1:2]
    if token in _CLASSES:
        inside = _CLASSES[token]
        return inside if in_class else f"[{inside}]"
    if token in _NEGATED and not in_class:
        return f"[^{_CLASSES[_NEGATED[token]]}]"
    if token == r"\W":
        return _NOT_IN_WORDS
    if kind == "Z" and not in_class:
        return r"\z"
    if kind in ("u", "U") and len(token) > 2:
        return rf"\x{{{token[2:]}}}"
    if kind == "N":
        raise _missing("a named character", pattern)
    if kind.isdigit() and kind != "0" and len(token) == 2 and not in_class:
        raise _missing("a backreference", pattern)
    return token


def _crosses_lines(token: str, *, in_class: bool) -> bool:
    if token in (r"\n", "\n", r"\x0a", r"\x0A") or re.fullmatch(r"\\x\{0*[aA]\}", token):
        return True
    return not in_class and token.startswith("(?") and token[-1] in ":)" and "s" in token[2:-1].partition("-")[0]


def _missing(feature: str, pattern: str) -> PatternError:
    return PatternError(
        f"{feature} is not supported in patterns",
        pattern=pattern,
        feature=feature,
        cause="grep uses an engine whose time grows with the text alone",
        remedy=_INSTEAD.get(feature),
    )


def _refusal(pattern: str, reason: str) -> PatternError:
    size = re.search(r"invalid repetition size: \{(\d+),?(\d*)\}", reason)
    if size and (not size[2] or int(size[1]) <= int(size[2])):
        # Also by repetitions in each other.
        return _missing("a repetition of more than 1000", pattern)
    return PatternError(
        f"the pattern is not valid: {reason:.200}",
        pattern=pattern,
        remedy=r"put a backslash before signs that are meant as they are: \( \[ \. \* \+ \?",
    )
