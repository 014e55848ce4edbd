"""The tools that read the context, on every interpreter found."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.guest.every_python import Interpreter, Raised, python

from cloche_guest.context_tools import bind

__all__ = ["python"]

SIGNATURES = {
    "chunk_text": "(text, size=10000, overlap=500)",
    "search_context": "(pattern, window=200, max_results=100)",
    "find_all": "(pattern, max_results=1000)",
    "count_matches": "(pattern)",
    "quote_match": "(pattern, max_length=100)",
    "extract_json": "(text)",
    "extract_sections": "(header_pattern)",
    "chunk_by_headers": "(level=2)",
    "find_line": "(pattern)",
    "count_lines": "(pattern=None)",
    "get_line": "(n)",
    "chunk_by_size": "(chars=50000, overlap=0)",
}
PATTERN_TOOLS = (
    *("search_context", "find_all", "count_matches", "quote_match"),
    *("extract_sections", "find_line", "count_lines"),
)
NEEDS_NO_CONTEXT = {"chunk_text", "extract_json"}
# Something that each tool can be called with.
ARGUMENTS: dict[str, tuple[object, ...]] = {
    **dict.fromkeys(PATTERN_TOOLS, ("x",)),
    "get_line": (1,),
    "chunk_by_headers": (),
    "chunk_by_size": (),
}


def evaluate(python: Interpreter, expression: str, **names: object) -> Any:
    return python.evaluate("cloche_guest.context_tools", expression, **names)


def call(python: Interpreter, context: object, tool: str, *args: object, **options: object) -> Any:
    names = {"context": context, "tool": tool, "args": args, "options": options}
    return evaluate(python, "bind(lambda: context)[tool](*args, **options)", **names)


# -- what a reader of help() sees ----------------------------------------------------------------


def test_there_are_twelve_tools_with_the_documented_signatures(python):
    signature = "str(__import__('inspect').signature(tool))"
    found = evaluate(python, f"{{name: {signature} for name, tool in bind(str).items()}}")
    assert found == SIGNATURES


def test_each_tool_is_called_what_it_is_called(python):
    found = evaluate(python, "[(tool.__name__, tool.__qualname__) for tool in bind(str).values()]")
    assert found == [(name, name) for name in SIGNATURES]


@pytest.mark.parametrize("tool", SIGNATURES)
def test_help_shows_signature_and_text(python, tool):
    page = evaluate(python, "__import__('pydoc').render_doc(bind(str)[tool])", tool=tool)
    assert SIGNATURES[tool] in page
    assert any(line.startswith("    ") and len(line) > 30 for line in page.splitlines())


def test_binding_imports_nothing(python):
    slow = "[name for name in ('re', 'json') if name in __import__('sys').modules]"
    program = f"import sys; sys.path[:0] = {{}}; from cloche_guest.context_tools import bind; bind(str); print({slow})"
    run = "__import__('subprocess').run([__import__('sys').executable, '-I', '-S', '-c', program], stdout=-1).stdout"
    source = evaluate(python, "[path for path in __import__('sys').path if path.endswith('src')]")
    assert evaluate(python, run, program=program.format(source)) == b"[]\n"


# -- the current context -------------------------------------------------------------------------


def test_each_call_reads_the_context_of_its_time():
    contexts = iter(["one", "one one"])
    count_matches = bind(lambda: next(contexts))["count_matches"]
    assert [count_matches("one"), count_matches("one")] == [1, 2]


@pytest.mark.parametrize("tool", sorted(SIGNATURES.keys() - NEEDS_NO_CONTEXT))
def test_a_context_that_is_no_text_is_refused_with_a_remedy_that_works(python, tool):
    for context in (None, b"bytes \xff", ["a", 1], ("a",), {"a": 1}, 42):
        with pytest.raises(Raised, match=rf"^TypeError: {tool}\(\) needs a context that is text") as refusal:
            call(python, context, tool, *ARGUMENTS[tool])
        names = {"context": context}
        exec(str(refusal.value).partition("First run: ")[2], names)
        call(python, names["context"], tool, *ARGUMENTS[tool])


@pytest.mark.parametrize("tool", sorted(NEEDS_NO_CONTEXT))
def test_a_tool_with_a_text_of_its_own_needs_no_context(python, tool):
    assert call(python, None, tool, "[1]") in ([1], ["[1]"])


# -- wrong arguments -----------------------------------------------------------------------------


@pytest.mark.parametrize("tool", PATTERN_TOOLS)
def test_a_pattern_of_501_characters_is_refused(python, tool):
    call(python, "text", tool, "x" * 500)
    with pytest.raises(Raised, match=r"^ValueError: Pattern too long \(max 500 chars\)$"):
        call(python, "text", tool, "x" * 501)


@pytest.mark.parametrize("tool", PATTERN_TOOLS)
def test_a_broken_pattern_is_refused(python, tool):
    for pattern in ("(", "*", "[a", "(?P<1>x)", "x{99999999999}", "(?L)x", "(" * 499):
        with pytest.raises(Raised, match=r"^ValueError: Invalid regex pattern: \w"):
            call(python, "text", tool, pattern)


@pytest.mark.parametrize("tool", PATTERN_TOOLS)
def test_a_pattern_that_is_no_text_is_refused(python, tool):
    for pattern in (b"x", 1, ["x"]):
        with pytest.raises(Raised, match=r"^ValueError: pattern must be a str, not \w"):
            call(python, "text", tool, pattern)


@pytest.mark.parametrize("tool", ["chunk_text", "extract_json"])
def test_a_text_that_is_no_text_is_refused(python, tool):
    for text in (None, b"text", ["text"], 1):
        with pytest.raises(Raised, match=r"^ValueError: text must be a str, not \w"):
            call(python, "text", tool, text)


@pytest.mark.parametrize(
    ("tool", "args", "message"),
    [
        ("chunk_text", ("text", 10, 10), r"overlap \(10\) must be smaller than size \(10\)"),
        ("chunk_text", ("text", 10, 11), r"overlap \(11\) must be smaller than size \(10\)"),
        ("chunk_text", ("", 10, 11), r"overlap \(11\) must be smaller than size \(10\)"),
        ("chunk_text", ("text", 100), r"overlap \(500\) must be smaller than size \(100\)"),
        ("chunk_text", ("text", 0, 0), "size must be at least 1, not 0"),
        ("chunk_text", ("text", -5, 0), "size must be at least 1, not -5"),
        ("chunk_text", ("text", 10, -1), "overlap must be at least 0, not -1"),
        ("chunk_text", ("text", 2.5, 0), "size must be a whole number, not float"),
        ("chunk_text", ("text", "9", 0), "size must be a whole number, not str"),
        ("chunk_text", ("text", True, 0), "size must be a whole number, not bool"),
        ("chunk_by_size", (5, 5), r"overlap \(5\) must be smaller than chars \(5\)"),
        ("chunk_by_size", (0,), "chars must be at least 1, not 0"),
        ("chunk_by_size", (None,), "chars must be a whole number, not NoneType"),
        ("search_context", ("x", -1), "window must be at least 0, not -1"),
        ("search_context", ("x", 1.0), "window must be a whole number, not float"),
        ("search_context", ("x", 1, -1), "max_results must be at least 0, not -1"),
        ("find_all", ("x", -1), "max_results must be at least 0, not -1"),
        ("quote_match", ("x", -1), "max_length must be at least 0, not -1"),
        ("quote_match", ("x", "1"), "max_length must be a whole number, not str"),
        ("chunk_by_headers", (0,), "level must be at least 1, not 0"),
        ("chunk_by_headers", (7,), "level must be at most 6, not 7"),
        ("chunk_by_headers", ("##",), "level must be a whole number, not str"),
        ("get_line", ("1",), "n must be a whole number, not str"),
    ],
)
def test_a_wrong_argument_is_refused_whatever_the_context(python, tool, args, message):
    for context in ("some text", "", None):
        with pytest.raises(Raised, match=f"^ValueError: {message}$"):
            call(python, context, tool, *args)


def test_integers_of_other_libraries_are_whole_numbers():
    numpy = pytest.importorskip("numpy")
    assert bind(lambda: "a\nb")["get_line"](numpy.int64(2)) == "b"


# -- chunk_text, chunk_by_size -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "size", "overlap", "chunks"),
    [
        ("abcdefgh", 4, 1, ["abcd", "defg", "gh"]),
        ("abcdefgh", 4, 0, ["abcd", "efgh"]),
        ("abcdefgh", 4, 2, ["abcd", "cdef", "efgh"]),
        ("abcdefgh", 4, 3, ["abcd", "bcde", "cdef", "defg", "efgh"]),
        ("abc", 4, 2, ["abc"]),
        ("abc", 3, 2, ["abc"]),
        ("a", 3, 2, ["a"]),
        ("", 3, 2, []),
        ("é\r\n\0", 2, 0, ["é\r", "\n\0"]),
    ],
)
def test_chunks_overlap_and_the_last_adds_something(python, text, size, overlap, chunks):
    assert call(python, None, "chunk_text", text, size, overlap) == chunks
    assert call(python, text, "chunk_by_size", size, overlap) == chunks


def test_chunks_have_the_documented_default_sizes(python):
    text = "0123456789" * 6000
    assert call(python, None, "chunk_text", text)[:2] == [text[:10000], text[9500:19500]]
    assert call(python, text, "chunk_by_size") == [text[:50000], text[50000:]]


@given(st.text(max_size=60), st.integers(1, 20), st.data())
def test_chunks_without_their_overlap_are_the_text(text, size, data):
    overlap = data.draw(st.integers(0, size - 1))
    first, *others = bind(str)["chunk_text"](text, size, overlap) or [""]
    assert first + "".join(chunk[overlap:] for chunk in others) == text
    assert all(len(chunk) > overlap for chunk in others)


# -- search_context, find_all, count_matches, quote_match ----------------------------------------

LOG = "error: disk full\nwarning: slow\nERROR: net down\n"


def test_search_gives_match_surroundings_and_place(python):
    first, second = call(python, LOG, "search_context", "error", 4)
    assert first == {"match": "error", "context": "error: di", "start": 0, "end": 5}
    assert second == {"match": "ERROR", "context": "low\nERROR: ne", "start": 31, "end": 36}


def test_search_shows_200_characters_on_both_sides_and_100_matches(python):
    text = "." * 300 + "x" * 150 + "." * 300
    found = call(python, text, "search_context", "x")
    assert len(found) == 100
    assert found[0]["context"] == text[100:501]


@pytest.mark.parametrize(("most", "found"), [(0, 0), (1, 1), (2, 2), (3, 2)])
def test_search_stops_at_the_limit(python, most, found):
    assert len(call(python, LOG, "search_context", "error", max_results=most)) == found
    assert len(call(python, LOG, "find_all", "error", most)) == found


def test_search_does_not_look_for_one_match_too_many():
    # The second match would take for ever: nothing after the first 30 letters ends the repetition.
    text = "ab" + "a" * 40 + "!"
    assert bind(lambda: text)["find_all"](r"(?:a+)+b", 1) == ["ab"]


def test_find_all_gives_whole_matches(python):
    assert call(python, LOG, "find_all", r"(error|warning): (\w+)") == ["error: disk", "warning: slow", "ERROR: net"]


def test_find_all_gives_1000_at_most(python):
    assert len(call(python, "x" * 1001, "find_all", "x")) == 1000


@pytest.mark.parametrize(("pattern", "count"), [("error", 2), ("^error", 1), ("(?m)^error", 2), ("gone", 0), ("", 49)])
def test_matches_are_counted_ignoring_case(python, pattern, count):
    text = LOG + "."
    assert call(python, text, "count_matches", pattern) == count


def test_matches_are_counted_without_keeping_them(python):
    evaluate(python, "__import__('tracemalloc').start()")
    assert call(python, "x" * 200_000, "count_matches", "x") == 200_000
    peak = evaluate(python, "__import__('tracemalloc').get_traced_memory()[1]")
    evaluate(python, "__import__('tracemalloc').stop()")
    # The text comes in some copies of one byte a character; a match takes more than a hundred.
    assert peak < 10_000_000


@pytest.mark.parametrize(
    ("pattern", "options", "quote"),
    [
        ("DISK FULL", {}, "disk full"),
        (r"(?s)error.*", {"max_length": 10}, "error: dis..."),
        ("error", {"max_length": 5}, "error"),
        ("error", {"max_length": 0}, "..."),
        ("gone", {}, None),
    ],
)
def test_a_quote_is_cut_with_dots(python, pattern, options, quote):
    assert call(python, LOG, "quote_match", pattern, **options) == quote


def test_a_quote_has_100_characters_at_most(python):
    assert call(python, "x" * 101, "quote_match", "x+") == "x" * 100 + "..."
    assert call(python, "x" * 100, "quote_match", "x+") == "x" * 100


# -- lines ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("a", ["a"]),
        ("a\n", ["a"]),
        ("a\nb", ["a", "b"]),
        ("a\n\nb\n\n", ["a", "", "b", ""]),
        ("a\r\nb\r\n", ["a", "b"]),
        ("\n", [""]),
        # Only line feeds end lines, as for grep and editors.
        ("a\x0bb\x0cc\x1cd\u2028e\n", ["a\x0bb\x0cc\x1cd\u2028e"]),
    ],
)
def test_lines_are_those_of_an_editor(python, text, lines):
    numbered = list(enumerate(lines, 1))
    assert call(python, text, "find_line", "") == numbered
    assert call(python, text, "count_lines") == len(lines)
    assert call(python, text, "count_lines", "") == len(lines)
    assert [call(python, text, "get_line", number) for number, _ in numbered] == lines


def test_a_line_is_found_with_its_number_ignoring_case(python):
    assert call(python, LOG, "find_line", "error") == [(1, "error: disk full"), (3, "ERROR: net down")]


def test_anchors_match_at_the_ends_of_each_line(python):
    assert call(python, LOG.replace("\n", "\r\n"), "find_line", "^error.*down$") == [(3, "ERROR: net down")]


def test_lines_with_a_match_are_counted(python):
    assert call(python, LOG + "error error", "count_lines", "ERROR") == 3


@pytest.mark.parametrize("number", [-1, 0, 4, 10**30])
def test_a_line_out_of_range_is_empty(python, number):
    assert call(python, LOG, "get_line", number) == ""


# -- sections ------------------------------------------------------------------------------------

PAPER = "intro\n## One\nfirst\n\n### Deep\nmore\n## Two\n\nsecond\n"


def test_sections_have_header_content_and_start(python):
    assert call(python, PAPER, "extract_sections", r"^## \w+$") == [
        {"header": "## One", "content": "first\n\n### Deep\nmore", "start": 6},
        {"header": "## Two", "content": "second", "start": 34},
    ]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("pattern", ["^## ", r"^## .*\n", r"^## .*$"])
def test_a_header_is_its_whole_line(python, pattern, newline):
    sections = call(python, PAPER.replace("\n", newline), "extract_sections", pattern)
    assert [section["header"] for section in sections] == ["## One", "## Two"]
    assert [section["content"].split(newline)[0] for section in sections] == ["first", "second"]


def test_case_matters_in_headers(python):
    text = "Chapter 1\nchapter 2\n"
    assert [section["start"] for section in call(python, text, "extract_sections", "^Chapter")] == [0]


def test_two_headers_on_one_line_are_two_sections(python):
    sections = call(python, "A: one B: two\n", "extract_sections", "[AB]:")
    assert [(section["header"], section["start"]) for section in sections] == [("A: one ", 0), ("B: two", 7)]


def test_no_header_means_no_section(python):
    assert call(python, PAPER, "extract_sections", "^Chapter") == []


def test_chunks_by_header_begin_with_what_is_before_the_first(python):
    assert call(python, PAPER, "chunk_by_headers") == [
        {"header": "", "content": "intro\n", "start": 0},
        {"header": "## One", "content": "\nfirst\n\n### Deep\nmore\n", "start": 6},
        {"header": "## Two", "content": "\n\nsecond\n", "start": 34},
    ]


@pytest.mark.parametrize(("level", "headers"), [(1, [""]), (2, ["", "## One", "## Two"]), (3, ["", "### Deep"])])
def test_chunks_are_split_at_one_level(python, level, headers):
    assert [chunk["header"] for chunk in call(python, PAPER, "chunk_by_headers", level)] == headers


@pytest.mark.parametrize("line", ["##x", " ## x", "x ## y", "###", "#\\# x"])
def test_what_is_no_header_does_not_split(python, line):
    assert len(call(python, f"text\n{line}\nmore", "chunk_by_headers")) == 1


@pytest.mark.parametrize("line", ["## x", "##\tx", "##", "## x\r", "##\r"])
def test_what_is_a_header_splits(python, line):
    chunks = call(python, f"text\n{line}\nmore", "chunk_by_headers")
    assert [chunk["header"] for chunk in chunks] == ["", line.rstrip("\r")]


def test_an_empty_context_has_no_chunks(python):
    assert call(python, "", "chunk_by_headers") == []


@given(st.lists(st.sampled_from(["## ", "# ", "### x", "##", "a", "\n", "\r\n", "\r", "é", " "])), st.integers(1, 6))
def test_chunks_by_header_lose_nothing(parts, level):
    text = "".join(parts)
    chunks = bind(lambda: text)["chunk_by_headers"](level)
    assert "".join(chunk["header"] + chunk["content"] for chunk in chunks) == text
    assert all(text.startswith(chunk["header"] + chunk["content"], chunk["start"]) for chunk in chunks)


# -- extract_json --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a": 1}', {"a": 1}),
        ("[1, 2]", [1, 2]),
        ('```json\n{"key": "value"}\n```', {"key": "value"}),
        ('first {"a": 1} then {"b": 2}', {"a": 1}),
        ('{"a": "}{", "b": "]["} and }', {"a": "}{", "b": "]["}),
        ('{"quote": "say \\"{}\\""}', {"quote": 'say "{}"'}),
        ('not {json} nor [this one] but {"a": [1, {"b": null}]}', {"a": [1, {"b": None}]}),
        ('{"broken": tru, "inner": {"a": 1}}', {"a": 1}),
        ('["see {"a": 1} ok"]', {"a": 1}),
        ('{"a": 1, "b": [1, 2', None),
        ('{"a": 1, "b": {"c": 2}', {"c": 2}),
        ("{}", {}),
        ("[]", []),
        ("{ \n }", {}),
        ("{'a': 1}", None),
        ("no JSON here", None),
        ('"text", 42, true', None),
        ("", None),
        ("[", None),
        ('{"', None),
        ('é {"é": "\\u00e9"}', {"é": "é"}),
    ],
)
def test_the_first_valid_object_or_array_is_found(python, text, found):
    assert call(python, None, "extract_json", text) == found


def test_json_of_any_length_is_found_whole(python):
    document = {"a": [1, -2.5e10, True, False, None, '😀 " } ]', {}, [], {"b": "x"}], "é": 12345678901234567890}
    # The decoder sees parts of the text: here one ends at each character of the document in turn.
    text = json.dumps(document, indent=3) + json.dumps(document, ensure_ascii=False)
    texts = [f'["{"-" * length}", {text.replace("}{", "}, {")}]' for length in range(4096 - len(text) - 20, 4100)]
    same = "extract_json(text) == __import__('json').loads(text)"
    assert evaluate(python, f"[text for text in texts if not {same}]", texts=texts) == []


def test_a_large_document_is_found(python):
    found = evaluate(python, "extract_json('see ' + repr(list(range(200000))) + ' and more')[-1]")
    assert found == 199_999


@pytest.mark.parametrize(
    "expression",
    [
        "'[' * 300000",
        "'[1\\n' * 150000",
        "'{\"a\":' * 100000",
        "'[' * 900 + '1,' * 100000",
        "'[' + '9' * 500000 + ']['",
    ],
)
def test_text_made_of_brackets_is_given_up(python, expression):
    # Without a bound, most of these take minutes.
    assert evaluate(python, f"extract_json({expression})") is None


def test_thousands_of_broken_documents_are_passed_over(python):
    assert evaluate(python, "extract_json('[1, oops] {\"a\": oops} ' * 5000 + '{\"a\": 1}')") == {"a": 1}


def test_prose_with_many_brackets_is_searched_to_its_end(python):
    assert evaluate(python, "extract_json('see [the link](here) {x} ' * 100000 + '{\"a\": 1}')") == {"a": 1}
