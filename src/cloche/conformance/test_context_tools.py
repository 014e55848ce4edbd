"""The functions that read a long context: one signature and one answer on every backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from cloche.conformance.fixtures import OpenSandbox
    from cloche.sandbox import SessionSandbox

CONTEXT = (
    '# Title\nIntro line\n## First\nAlpha beta.\nError: one\n## Second\nGamma DELTA\nerror: two {"k": [1, 2]}\n'
    "### Deeper\nlast line"
)

SIGNATURES = {
    "chunk_text": ["text", "size", "overlap"],
    "search_context": ["pattern", "window", "max_results"],
    "find_all": ["pattern", "max_results"],
    "count_matches": ["pattern"],
    "extract_json": ["text"],
    "extract_sections": ["header_pattern"],
    "find_line": ["pattern"],
    "count_lines": ["pattern"],
    "get_line": ["n"],
    "quote_match": ["pattern", "max_length"],
    "chunk_by_headers": ["level"],
    "chunk_by_size": ["chars", "overlap"],
}

GOLDEN: dict[str, Any] = {
    "chunk_text('abcdefgh', 4, 1)": ["abcd", "defg", "gh"],
    "chunk_text('abcd', 4, 0)": ["abcd"],
    "chunk_text('abcde', 4, 0)": ["abcd", "e"],
    "chunk_text('', 4, 0)": [],
    "chunk_text('ab', size=10, overlap=3)": ["ab"],
    "len(chunk_text('x' * 25_000))": 3,
    "search_context('error', 2)": [
        {"match": "Error", "context": ".\nError: ", "start": 40, "end": 45},
        {"match": "error", "context": "A\nerror: ", "start": 73, "end": 78},
    ],
    "search_context('ERROR: (one)', 0)": [{"match": "Error: one", "context": "Error: one", "start": 40, "end": 50}],
    "search_context('nothing', 5)": [],
    "len(search_context('e', 1, max_results=3))": 3,
    "find_all('error: (one|two)')": ["Error: one", "error: two"],
    "count_matches('error')": 2,
    "count_matches('nothing')": 0,
    "extract_json('noise {\"a\": 1} more')": {"a": 1},
    'extract_json(\'first {"a": 1} then {"b": 2}\')': {"a": 1},
    "extract_json('```json\\n[1, {\"b\": null}]\\n```')": [1, {"b": None}],
    "extract_json('{broken {\"ok\": true}')": {"ok": True},
    "extract_json('nothing here')": None,
    "extract_sections('^## ')": [
        {"header": "## First", "content": "Alpha beta.\nError: one", "start": 19},
        {"header": "## Second", "content": 'Gamma DELTA\nerror: two {"k": [1, 2]}\n### Deeper\nlast line', "start": 51},
    ],
    "extract_sections('^nothing')": [],
    "find_line('error')": [(5, "Error: one"), (8, 'error: two {"k": [1, 2]}')],
    "count_lines()": 10,
    "count_lines('error')": 2,
    "get_line(1)": "# Title",
    "get_line(10)": "last line",
    "get_line(11)": "",
    "get_line(0)": "",
    "quote_match('gamma \\\\w+')": "Gamma DELTA",
    "quote_match('gamma .*', 7)": "Gamma D...",
    "quote_match('nothing')": None,
    "[c['header'] for c in chunk_by_headers()]": ["", "## First", "## Second"],
    "[c['header'] for c in chunk_by_headers(3)]": ["", "### Deeper"],
    "''.join(c['header'] + c['content'] for c in chunk_by_headers(2)) == context": True,
    "[len(c) for c in chunk_by_size(50, 10)]": [50, 50, 38],
    "len(chunk_by_size())": 1,
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_every_function_has_one_signature(sandbox: SessionSandbox, name: str) -> None:
    """Known defect 1.8.12: names and defaults of parameters differed between backends."""
    assert sandbox.execute(f"import inspect; list(inspect.signature({name}).parameters)").value == str(SIGNATURES[name])


@pytest.mark.parametrize("call", GOLDEN)
def test_every_function_gives_the_answer_of_the_table(sandbox: SessionSandbox, call: str) -> None:
    sandbox.initialize(CONTEXT)
    sandbox.execute(f"answer = {call}").check()
    assert sandbox.get_variable("answer") == GOLDEN[call]


@pytest.mark.parametrize(
    "call", ["chunk_text('x' * 100, 10, 10)", "chunk_text('x', 10, 11)", "chunk_by_size(10, 10)", "chunk_by_size(0)"]
)
def test_an_overlap_that_would_never_end_is_refused(sandbox: SessionSandbox, call: str) -> None:
    """Known defect 1.8.11: `chunk_text` with overlap >= size did not end."""
    sandbox.initialize("x" * 100)
    result = sandbox.execute(call)
    assert result.exception is not None
    assert result.exception.type == "ValueError"


@pytest.mark.parametrize(
    "name",
    ["search_context", "find_all", "count_matches", "extract_sections", "find_line", "count_lines", "quote_match"],
)
def test_a_pattern_that_is_too_long_is_refused(sandbox: SessionSandbox, name: str) -> None:
    sandbox.initialize("text")
    assert sandbox.execute(f"{name}('x' * 500)").outcome == "ok"
    assert sandbox.execute(f"{name}('x' * 501)").error == "ValueError: Pattern too long (max 500 chars)"


@pytest.mark.parametrize(
    "name",
    ["search_context", "find_all", "count_matches", "extract_sections", "find_line", "count_lines", "quote_match"],
)
def test_a_broken_pattern_is_refused(sandbox: SessionSandbox, name: str) -> None:
    sandbox.initialize("text")
    assert str(sandbox.execute(f"{name}('(')").error).startswith("ValueError: Invalid regex pattern: ")


@pytest.mark.parametrize("name", ["count_matches", "search_context", "find_all", "find_line", "quote_match"])
def test_a_catastrophic_pattern_ends_at_the_deadline_and_keeps_the_session(
    open_sandbox: OpenSandbox, name: str
) -> None:
    """Known defect 1.8.11: the length cap does not stop catastrophic backtracking."""
    sandbox = open_sandbox(grace_ms=20_000)
    sandbox.initialize("a" * 60 + "b")
    result = sandbox.execute(f"{name}('(a+)+$')", timeout_ms=200)
    assert (result.outcome, result.session_state) == ("timeout", "kept")


def test_the_functions_read_the_current_context(sandbox: SessionSandbox) -> None:
    sandbox.initialize("one two")
    assert sandbox.execute("context = 'two two'\ncount_matches('two')").value == "2"


def test_the_functions_say_so_when_there_is_no_text(sandbox: SessionSandbox) -> None:
    result = sandbox.execute("search_context('x', 1)")
    assert result.exception is not None
    assert (result.exception.type, "search_context()" in result.exception.message) == ("TypeError", True)


def test_positions_count_characters(sandbox: SessionSandbox) -> None:
    """Known defect 1.8.10: offsets were wrong, since the text had been changed on its way."""
    sandbox.initialize("\U0001f600\r\n\\needle")
    assert sandbox.execute("search_context('needle', 0)[0]['start']").value == "4"
