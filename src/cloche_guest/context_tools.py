"""The twelve functions with which a cell reads a text too long to look at: split, search, count, quote.

Those without a `text` parameter read the current context. Patterns are regular expressions and ignore case,
except in `extract_sections` and `chunk_by_headers`. A wrong argument is a ValueError before any work is done.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from re import Match, Pattern
    from typing import Any, Callable, Iterable, Iterator

MAX_PATTERN_LENGTH = 500

# How much of the text extract_json shows to the JSON decoder at first.
_JSON_WINDOW = 4096
# An escaped surrogate pair: the longest thing that a window can cut so that the error lies before the cut.
_JSON_LONGEST_ESCAPE = 12
# When extract_json gives up: after so many attempts, or when it has read so much, in characters.
_JSON_ATTEMPTS = 100_000
_JSON_READINGS = 8
_JSON_ALLOWANCE = 1_000_000
# What an attempt is charged that ran into the interpreter's recursion limit.
_JSON_TOO_DEEP = 10_000


def bind(current_context: Callable[[], object]) -> dict[str, Callable[..., Any]]:
    """The tools by name, working on whatever `current_context` returns at the time of each call."""

    def read(tool: str) -> str:
        return _as_text(tool, current_context())

    tools = {
        tool.__name__: tool
        for tool in (
            chunk_text,
            *_search_tools(read),
            extract_json,
            *_section_tools(read),
            *_line_tools(read),
            *_chunk_tools(read),
        )
    }
    for tool in tools.values():
        # What help() and inspect.signature() show: not the place of definition, nor annotations in quotes.
        tool.__qualname__ = tool.__name__
        tool.__module__ = "cloche"
        tool.__annotations__ = {}
    return tools


def chunk_text(text: str, size: int = 10000, overlap: int = 500) -> list[str]:
    """Split text into pieces of `size` characters; each repeats the last `overlap` of the one before.

    Only the last piece may be shorter. Example: chunk_text("abcdefgh", 4, 1) -> ["abcd", "defg", "gh"]
    """
    return _pieces(lambda: _text_argument(text), "size", size, overlap)


def extract_json(text: str) -> Any:
    """Return the first JSON object or array that stands anywhere in text, parsed; None if there is none.

    Prose, code fences and broken JSON before it are passed over. A long text made of little else than
    brackets is not searched to its end.
    """
    import json
    import re

    _text_argument(text)
    decoder = json.JSONDecoder()
    budget = _JSON_READINGS * len(text) + _JSON_ALLOWANCE
    # What cannot become an object or array, such as [a link], is not worth an attempt.
    starts = r'\{\s*["}]|\[\s*(?:["{\[\]\-0-9]|true|false|null|NaN|Infinity)'
    for _, match in zip(range(_JSON_ATTEMPTS), re.finditer(starts, text)):
        found, read = _decode_at(decoder, text, match.start())
        if found is not None:
            return found
        budget -= read
        if budget < 0:
            break
    return None


def _decode_at(decoder: Any, text: str, start: int) -> tuple[Any, int]:
    """(the object or array at `start` or None, number of characters read).

    The decoder sees a part of the text that grows while an end is missing: on each failure it counts the
    lines before it, which in the whole text would make the search quadratic.
    """
    read = 0
    size = _JSON_WINDOW
    while True:
        window = text[start : start + size]
        read += len(window)
        try:
            return decoder.raw_decode(window)[0], read
        except RecursionError:
            return None, read + _JSON_TOO_DEEP
        except ValueError as error:
            # An integer of too many digits is an error without a position.
            position = getattr(error, "pos", len(window))
            # Of an open string the position tells where it starts.
            is_cut = position + _JSON_LONGEST_ESCAPE >= len(window) or "Unterminated" in str(error)
        if not is_cut:
            return None, read - len(window) + position + 1
        if start + size >= len(text):
            return None, read
        size *= 8


def _search_tools(read: Callable[[str], str]) -> Iterable[Callable[..., Any]]:
    """Tools that look for a pattern anywhere in the context."""

    def search_context(pattern: str, window: int = 200, max_results: int = 100) -> list[dict[str, Any]]:
        """Find a regular expression in the context, ignoring case; at most `max_results` matches.

        Each is a dict: match (the text found), context (the same with `window` characters on both sides),
        start and end (character positions in the context).
        """
        regex = _regex(pattern)
        window = _whole_number("window", window, 0)
        max_results = _whole_number("max_results", max_results, 0)
        text = read("search_context")
        return [
            {
                "match": match.group(),
                "context": text[max(0, match.start() - window) : match.end() + window],
                "start": match.start(),
                "end": match.end(),
            }
            for match in _first(max_results, regex, text)
        ]

    def find_all(pattern: str, max_results: int = 1000) -> list[str]:
        """Return each text in the context that matches, ignoring case; at most `max_results`.

        Always the whole match, also when the pattern has groups.
        """
        regex = _regex(pattern)
        max_results = _whole_number("max_results", max_results, 0)
        return [match.group() for match in _first(max_results, regex, read("find_all"))]

    def count_matches(pattern: str) -> int:
        """Count the matches of a regular expression in the context, ignoring case."""
        regex = _regex(pattern)
        return sum(1 for _ in regex.finditer(read("count_matches")))

    def quote_match(pattern: str, max_length: int = 100) -> str | None:
        """Return the first text in the context that matches, ignoring case; None if nothing does.

        A match of more than `max_length` characters is cut there, and "..." appended.
        """
        regex = _regex(pattern)
        max_length = _whole_number("max_length", max_length, 0)
        match = regex.search(read("quote_match"))
        if match is None:
            return None
        found = match.group()
        return found if len(found) <= max_length else found[:max_length] + "..."

    return search_context, find_all, count_matches, quote_match


def _section_tools(read: Callable[[str], str]) -> Iterable[Callable[..., Any]]:
    """Tools that split the context at headers."""

    def extract_sections(header_pattern: str) -> list[dict[str, Any]]:
        r"""Split the context at headers: lines with a match of a regular expression, in which case matters.

        ^ and $ match at each line. Each section is a dict: header (from the match to the end of its line),
        content (up to the next header, without empty lines around it), start (character position of the
        header). Text before the first header is in no section. Example: extract_sections(r"^Chapter \d+")
        """
        regex = _regex(header_pattern, headers=True)
        sections = _cut_at(regex, read("extract_sections"))
        for section in sections:
            section["header"] = section["header"].rstrip("\r\n")
            section["content"] = section["content"].strip("\r\n")
        return sections

    def chunk_by_headers(level: int = 2) -> list[dict[str, Any]]:
        """Split the context at Markdown headers of one level (2: lines that start with "## ").

        Each chunk is a dict: header (its line), content (everything up to the next header of that level),
        start (character position). Text before the first header is a chunk whose header is empty, so that all
        headers and contents together are the whole context.
        """
        level = _whole_number("level", level, 1)
        if level > 6:
            raise ValueError("level must be at most 6, not %d" % level)
        regex = _regex(r"^#{%d}(?:[ \t][^\r\n]*|(?=\r?$))" % level, headers=True)
        text = read("chunk_by_headers")
        chunks = _cut_at(regex, text)
        before = text[: chunks[0]["start"]] if chunks else text
        return [{"header": "", "content": before, "start": 0}, *chunks] if before else chunks

    return extract_sections, chunk_by_headers


def _line_tools(read: Callable[[str], str]) -> Iterable[Callable[..., Any]]:
    """Tools that count lines, from 1, as editors do: a line break ends a line, also the last one."""

    def find_line(pattern: str) -> list[tuple[int, str]]:
        """Return (number, line) for each line of the context with a match, ignoring case. The first is 1."""
        regex = _regex(pattern)
        lines = _lines(read("find_line"))
        return [(number, line) for number, line in enumerate(lines, 1) if regex.search(line)]

    def count_lines(pattern: str | None = None) -> int:
        """Count the lines of the context, or only those with a match of a pattern, ignoring case."""
        if pattern is None:
            text = read("count_lines")
            return text.count("\n") + (1 if text and not text.endswith("\n") else 0)
        regex = _regex(pattern)
        return sum(1 for line in _lines(read("count_lines")) if regex.search(line))

    def get_line(n: int) -> str:
        """Return line number n of the context, the first being 1; "" if there is no such line."""
        n = _whole_number("n", n, None)
        if n < 1:
            return ""
        for number, line in enumerate(_lines(read("get_line")), 1):
            if number == n:
                return line
        return ""

    return find_line, count_lines, get_line


def _chunk_tools(read: Callable[[str], str]) -> Iterable[Callable[..., Any]]:
    """Tools that split the context by length."""

    def chunk_by_size(chars: int = 50000, overlap: int = 0) -> list[str]:
        """Split the context into pieces of `chars` characters; each repeats `overlap` of the one before.

        Only the last piece may be shorter.
        """
        return _pieces(lambda: read("chunk_by_size"), "chars", chars, overlap)

    return (chunk_by_size,)


def _pieces(read: Callable[[], str], size_name: str, size: int, overlap: int) -> list[str]:
    size = _whole_number(size_name, size, 1)
    overlap = _whole_number("overlap", overlap, 0)
    if overlap >= size:
        raise ValueError("overlap (%d) must be smaller than %s (%d)" % (overlap, size_name, size))
    text = read()
    # A piece that began in the last `overlap` characters would only repeat the end of the one before.
    starts = range(0, max(len(text) - overlap, min(len(text), 1)), size - overlap)
    return [text[start : start + size] for start in starts]


def _cut_at(regex: Pattern[str], text: str) -> list[dict[str, Any]]:
    """header, content and start of each section; the content begins where the header's line ends."""
    matches = list(regex.finditer(text))
    sections: list[dict[str, Any]] = []
    for match, following in zip(matches, [*matches[1:], None]):
        end = len(text) if following is None else following.start()
        header_end = min(_line_end(text, match), end)
        header, content = text[match.start() : header_end], text[header_end:end]
        sections.append({"header": header, "content": content, "start": match.start()})
    return sections


def _line_end(text: str, match: Match[str]) -> int:
    """Where the line of the match's end ends, before the line break."""
    position = match.end()
    if match.group().endswith("\n"):
        return position
    end = text.find("\n", position)
    if end < 0:
        return len(text)
    return end - 1 if end > position and text[end - 1] == "\r" else end


def _lines(text: str) -> Iterator[str]:
    """Each line without its end, one at a time: the context may be larger than what is free."""
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        if end < 0:
            end = len(text)
        line = text[start:end]
        yield line[:-1] if line.endswith("\r") else line
        start = end + 1


def _first(count: int, regex: Pattern[str], text: str) -> Iterator[Match[str]]:
    # zip with the range first: it stops without looking for one match too many.
    return (match for _, match in zip(range(count), regex.finditer(text)))


def _regex(pattern: str, headers: bool = False) -> Pattern[str]:
    """A compiled pattern; one for headers is anchored at lines, and case matters."""
    if not isinstance(pattern, str):
        raise ValueError("pattern must be a str, not %s" % type(pattern).__name__)
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise ValueError("Pattern too long (max %d chars)" % MAX_PATTERN_LENGTH)
    import re

    try:
        return re.compile(pattern, re.MULTILINE if headers else re.IGNORECASE)
    except (re.error, ValueError, OverflowError) as error:
        raise ValueError("Invalid regex pattern: %s" % error) from None
    except RecursionError:
        raise ValueError("Invalid regex pattern: nested too deeply") from None


def _whole_number(name: str, value: int, minimum: int | None) -> int:
    if isinstance(value, bool) or not hasattr(type(value), "__index__"):
        raise ValueError("%s must be a whole number, not %s" % (name, type(value).__name__))
    # Integers of other libraries become plain ones.
    number = value.__index__()
    if minimum is not None and number < minimum:
        raise ValueError("%s must be at least %d, not %d" % (name, minimum, number))
    return number


def _text_argument(text: str) -> str:
    if not isinstance(text, str):
        raise ValueError("text must be a str, not %s" % type(text).__name__)
    return text


def _as_text(tool: str, context: object) -> str:
    if isinstance(context, str):
        return context
    if context is None:
        problem, remedy = "there is none", "context = '...'"
    elif isinstance(context, (bytes, bytearray)):
        problem, remedy = "it is bytes", "context = context.decode('utf-8', 'replace')"
    elif isinstance(context, (list, tuple)):
        problem, remedy = "it is a " + type(context).__name__, "context = '\\n'.join(map(str, context))"
    else:
        problem, remedy = "it is of type " + type(context).__name__, "context = str(context)"
    raise TypeError("%s() needs a context that is text, and %s. First run: %s" % (tool, problem, remedy))
