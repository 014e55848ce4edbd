"""Characters that models copy from prose into code, and what stands for them in Python."""

from __future__ import annotations

import unicodedata
from types import MappingProxyType

DOUBLE_QUOTES = "\u201c\u201d\u201e\u201f\u2033\u275d\u275e\uff02"  # “ ” „ ‟ ″ ❝ ❞ ＂
SINGLE_QUOTES = "\u2018\u2019\u201a\u201b\u2032\u00b4\u275b\u275c\uff07`"  # ‘ ’ ‚ ‛ ′ ´ ❛ ❜ ＇ and the backtick
PRIMES = "\u2032\u2033"  # ′ ″

SUPERSCRIPTS = MappingProxyType(dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿⁱ", "0123456789+-()ni", strict=True)))
# ⁿ and ⁱ are letters: after a letter they belong to the name.
SUPERSCRIPT_LETTERS = "ⁿⁱ"
ROOTS = MappingProxyType({"√": "0.5", "∛": "(1/3)", "∜": "0.25"})
FRACTIONS = MappingProxyType(
    {sign: unicodedata.normalize("NFKC", sign).replace("\u2044", "/") for sign in "½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅐⅛⅜⅝⅞⅑⅒"}
)

_SPACES = "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
_NOTHING = (
    "\u200b\u200c\u200d\u2060\ufeff\u00ad\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufe0e\ufe0f"
    "°℃℉"
)
_SAME_LENGTH = {
    "*": "×·⋅∙•∗✕✖⨯⁎",
    "/": "÷∕⁄",
    "-": "\u2212\u2010\u2011\u2012\u2013\u2014\u2015\ufe63",  # the minus sign, hyphens and dashes
    "|": "∪",
    "&": "∩",
    "~": "∼",
    ",": "、",
    ".": "。",
    " ": _SPACES,
    "\n": "\u2028\u2029\u0085",
    "": _NOTHING,
}
_LONGER = {
    "±": "+-", "≤": "<=", "≦": "<=", "⩽": "<=", "≥": ">=", "≧": ">=", "⩾": ">=", "≠": "!=", "→": "->", "←": "<-",
    "…": "...", "∞": 'float("inf")', "∧": " and ", "∨": " or ", "¬": " not ", "∈": " in ", "∉": " not in ",
}  # fmt: skip
_SUBSCRIPTS = dict(zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True))
# Letters and the underscore are left: in a name, Python reads them as their plain forms by itself.
_FULL_WIDTH = {
    chr(code): chr(code - 0xFEE0)
    for code in range(0xFF01, 0xFF5F)
    if not chr(code - 0xFEE0).isalpha() and chr(code) not in DOUBLE_QUOTES + SINGLE_QUOTES + "＿｀"
}

PLAIN = MappingProxyType(
    {sign: plain for plain, signs in _SAME_LENGTH.items() for sign in signs} | _LONGER | _SUBSCRIPTS | _FULL_WIDTH
)
"""One character by a text, wherever it stands outside of strings and comments."""
