"""How many tokens a text is for a model: counted where a tokenizer is installed, otherwise estimated, and always named.

`splintr` carries its vocabularies in its wheel and needs no network; its `o200k_base` gives what tiktoken's gives.
Counts of other makers' models differ by some percent; exact ones come only from them.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

INSTALL = "pip install 'cloche[repl]'"
ENCODING = "o200k_base"
ESTIMATE = "len/4"


@dataclass(frozen=True, slots=True)
class Tokens:
    """A number of tokens, with how it was come by."""

    number: int
    encoding: str
    """The name of the encoding, or ``len/4``."""
    estimated: bool

    def __str__(self) -> str:
        return f"{'about ' if self.estimated else ''}{self.number:,} tokens ({self.encoding})"

    def __add__(self, other: Tokens) -> Tokens:
        """The sum. Of two encodings it is an estimate that names both."""
        if self.encoding == other.encoding:
            return Tokens(self.number + other.number, self.encoding, self.estimated or other.estimated)
        names = dict.fromkeys([*self.encoding.split(" + "), *other.encoding.split(" + ")])
        return Tokens(self.number + other.number, " + ".join(names), estimated=True)


TokenCounter: TypeAlias = Callable[[str], Tokens]
"""Whatever counts: a function from a text to `Tokens`."""

_loading = threading.Lock()
_found: TokenCounter | None = None


def estimate(text: str) -> Tokens:
    """One token for every four characters, rounded up: 7 % too many for English and code, too few for other scripts."""
    return Tokens(-(-len(text) // 4), ESTIMATE, estimated=True)


def default_counter() -> TokenCounter:
    """Counts in `o200k_base` where the extra `repl` is installed, and estimates otherwise. Loaded once."""
    global _found
    if _found is None:
        with _loading:
            if _found is None:
                _found = _load()
    return _found


def count(text: str) -> Tokens:
    """`text` by the default counter."""
    return default_counter()(text)


def _load() -> TokenCounter:
    try:
        tokenizer: Any = importlib.import_module("splintr").Tokenizer.from_pretrained(ENCODING)
    except ImportError:
        return estimate

    def count_exactly(text: str) -> Tokens:
        # What looks like a control token is text here. A lone surrogate can be sent to no model.
        sendable = text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
        return Tokens(len(tokenizer.encode_ordinary(sendable)), ENCODING, estimated=False)

    return count_exactly
