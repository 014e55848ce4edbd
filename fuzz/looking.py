"""Fuzz target: patterns and texts to search, and secrets to mask. The first line is the pattern, the rest the text."""

from __future__ import annotations

from fuzz.engine import main

from cloche.errors import PatternError
from cloche.repl.redaction import Redactor, redact
from cloche.repl.searching import Searcher, Text

REJECTED = b"("
CORPUS = (
    rb"(?i)\bn[\w-]{2,3}dle$" + b"\nthe needle\r\nno \xc3\xa9\n\nNeedle" + b"\xff\0" * 3,
    rb"a.*\n(?P<n>b|c)?" + b"\na1\nb\naa\nc" * 5,
    rb"[^\W\d]+[[:alpha:]]" + b"\npassword = 'hunter22' https://u:pw@h AKIAIOSFODNN7EXAMPLE",
    b"key\nsk-" + b"ant-api03-abcdefghij0123456789 -----BEGIN PRIVATE KEY-----\nMIIE=\n-----END PRIVATE KEY-----\n",
)


def target(data: bytes) -> None:
    """Hits lie where they say; a mask is the same however the text is cut, and is not masked again."""
    first, _, rest = data.partition(b"\n")
    try:
        searcher = Searcher(first.decode("utf-8", "replace"), ignore_case=len(first) % 2 == 0)
    except PatternError:
        pass
    else:
        _search(searcher, Text(rest))
    text = rest.decode("utf-8", "replace")
    masked = redact(text)
    redactor = Redactor()
    pieces = [redactor.feed(text[start : start + 9]) for start in range(0, len(text), 9)]
    assert "".join(pieces) + redactor.finish() == masked
    assert redact(masked) == masked


def _search(searcher: Searcher, text: Text) -> None:
    found = searcher.find_lines(text, before=1, after=1, max_results=50)
    assert len(found.hits) == min(found.total, 50)
    last = 0
    for hit in found.hits:
        assert last < hit.line <= text.line_count
        assert 0 <= hit.start <= hit.end <= text.character_count
        assert text.line_at(text.byte_at(hit.start)) == hit.line
        last = hit.line


if __name__ == "__main__":
    main(target, CORPUS)
