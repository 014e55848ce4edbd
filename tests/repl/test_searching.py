"""Built-In Functions: the engine of `grep`. Right places in any text, and time that grows with the text alone."""

from __future__ import annotations

import builtins
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloche.errors import BackendUnavailableError, PatternError, RequestError
from cloche.repl import prefilter, searching
from cloche.repl import text as text_module
from cloche.repl.prefilter import required_texts
from cloche.repl.searching import Hit, Searcher, Text


def find(pattern: str, text: str, **options: Any) -> list[Hit]:
    ignore_case = options.pop("ignore_case", True)
    return Searcher(pattern, ignore_case=ignore_case).find_lines(Text(text), **options).hits


def lines_of(pattern: str, text: str, **options: Any) -> list[int]:
    return [hit.line for hit in find(pattern, text, **options)]


# -- what matches --------------------------------------------------------------------------------


def test_a_hit_has_its_line_its_column_its_place_and_its_text():
    assert find("beta", "alpha\nthe beta\n") == [Hit(line=2, last_line=2, column=5, start=10, end=14, text="the beta")]


def test_case_is_ignored_unless_asked_for_also_beyond_ascii():
    assert lines_of("ÉTAT", "État\nbeta") == [1]
    assert lines_of("ÉTAT", "État\nbeta", ignore_case=False) == []


def test_a_line_counts_once_however_often_it_matches():
    found = Searcher("a").find_lines(Text("aaa\nb\naa"))
    assert (found.total, [hit.line for hit in found.hits]) == (2, [1, 3])


def test_lines_around_a_hit_come_with_it():
    hit = find("c", "a\nb\nc\r\nd\ne", before=5, after=1)[0]
    assert (hit.before, hit.text, hit.after) == (("a", "b"), "c", ("d",))


def test_no_more_than_max_results_are_described_and_all_are_counted():
    found = Searcher("x").find_lines(Text("x\n" * 500), max_results=3)
    assert (len(found.hits), found.total, found.exact) == (3, 500, True)


def test_counting_ends_at_a_bound_and_says_so(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(searching, "MOST_COUNTED", 50)
    found = Searcher("x").find_lines(Text("x\n" * 500), max_results=3)
    assert (len(found.hits), found.total, found.exact) == (3, 50, False)


def test_an_empty_text_has_no_lines_and_a_line_end_begins_no_other():
    assert lines_of("^", "") == []
    assert lines_of("^$", "a\n") == []
    assert lines_of("^$", "a\n\n") == [2]
    assert lines_of("", "a\nb\n") == [1, 2]


def test_anchors_are_those_of_lines_also_with_cr_lf():
    text = "one\r\n\r\ntwo one\r\none"
    assert lines_of("^one$", text) == [1, 4]
    assert lines_of("^$", text) == [2]
    assert [hit.end - hit.start for hit in find("one$", text)] == [3, 3, 3]
    assert find("two", text)[0].text == "two one"


def test_the_end_of_the_text_is_not_the_end_of_a_line():
    assert lines_of(r"a\Z", "a\na") == [2]
    assert lines_of(r"\Aa", "a\na") == [1]


def test_classes_are_those_of_python():
    assert find(r"\w+", "- éñ2_ -")[0].end == 6
    assert lines_of(r"^\d$", "٣\n3\nx") == [1, 2]
    assert lines_of(r"a\sb", "a\u00a0b\na b\na\tb\nab") == [1, 2, 3]
    assert lines_of(r"^[\W]$", "é\n-\n_\nß\n€") == [2, 5]
    assert lines_of(r"^[^\W\d]$", "é\n-\n3\nß") == [1, 4]


def test_the_edge_of_a_word_is_ascii_and_the_answer_says_so():
    found = Searcher(r"\bÉtat").find_lines(Text("l'État"))
    assert found.total == 0
    assert r"\b is the edge of a word of ASCII letters" in found.note
    assert Searcher(r"\bcat").find_lines(Text("a cat")).note == ""
    assert Searcher("État").find_lines(Text("État")).note == ""


# -- more than one line --------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", [r'"[^"]*"', r"a\s+b", r"a\Wb", r"a[\s]b", "a.b"])
def test_a_pattern_stays_on_one_line(pattern: str):
    assert lines_of(pattern, 'a\nb "x\ny"') == []


@pytest.mark.parametrize("pattern", ["b\nc", r"b\nc", r"b[\n]c", r"b\x0ac", "(?s)b.c", "(?s:b.c)", r"(?is)B.C"])
def test_a_pattern_with_a_line_end_or_the_flag_s_covers_several_lines(pattern: str):
    hits = find(pattern, "a\nb\nc\nd", after=1)
    assert [(hit.line, hit.column, hit.text, hit.after) for hit in hits] == [(2, 1, "b\nc", ("d",))]


def test_matches_of_several_lines_do_not_overlap():
    assert lines_of("a\na", "a\na\na\na\na") == [1, 3]
    assert lines_of("a\n", "a\na\nb") == [1, 2]


# -- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "feature"),
    [
        ("a(?=b)", "lookahead"),
        ("a(?!b)", "lookahead"),
        ("(?<=a)b", "lookbehind"),
        ("(?<!a)b", "lookbehind"),
        (r"(a)\1", "a backreference"),
        ("(?P<x>a)(?P=x)", "a backreference"),
        ("(a)(?(1)b|c)", "a conditional group"),
        ("(?>a)", "an atomic group"),
        ("a++", "a possessive repetition"),
        ("a{2}+", "a possessive repetition"),
        ("(?x) a", "the flag x"),
        ("a(?#note)", "a comment"),
        (r"\N{DEGREE SIGN}", "a named character"),
        ("a{2000}", "a repetition of more than 1000"),
        ("(?:a{100}){100}", "a repetition of more than 1000"),
    ],
)
def test_what_a_linear_engine_lacks_is_refused_by_its_name(pattern: str, feature: str):
    with pytest.raises(PatternError) as caught:
        Searcher(pattern)
    assert caught.value.feature == feature
    assert feature in str(caught.value)
    assert caught.value.pattern == pattern
    assert caught.value.remedy
    assert isinstance(caught.value, RequestError)


@pytest.mark.parametrize("pattern", ["(", "[", "*a", "a**", "a{2,1}", "a)", "\\", "a" * 20_000])
def test_a_wrong_pattern_is_an_error_that_says_why(pattern: str):
    with pytest.raises(PatternError) as caught:
        Searcher(pattern)
    assert caught.value.feature is None
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("pattern", "matching"),
    [
        ("[(?=]", "="), ("[^]]", "a"), ("[]a]", "]"), (r"\(\?=", "(?="), ("[*+]+", "*+"), (r"\{a}+", "{a}}"),
        (r"\++", "++"), ("a+?b", "ab"), (r"\u00e9|\U0001F600", "é"), ("(?P<n>a)|(?<m>b)", "b"), ("(?u)é", "É"),
        (r"\Q(?=\E", "(?="), ("[[:alpha:]]", "x"), (r"\101", "A"), ("(?i:A)b", "ab"), (r"\p{Greek}", "λ"),
        ("[$]", "$"), ("x\ud800", "x\ud800"), (r"\$5", "$5"),
    ],
)  # fmt: skip
def test_what_only_looks_like_a_missing_feature_is_searched(pattern: str, matching: str):
    assert lines_of(pattern, f"\n{matching}") == [2]


def test_python_s_own_engine_is_never_used_for_the_text(monkeypatch: pytest.MonkeyPatch):
    """A pattern that takes it for ever: (a+)+$ on a line of 100,000 letters."""
    assert lines_of("(a+)+$", "a" * 100_000 + "!\nb\n" + "a" * 50) == [3]
    assert lines_of(r"^(\w+\s?)*$", "word " * 20_000 + "!") == []


def test_without_the_extra_the_error_names_the_command(monkeypatch: pytest.MonkeyPatch):
    real = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name == "re2":
            raise ImportError("No module named 're2'")
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(BackendUnavailableError, match=r"pip install 'cloche\[repl\]'"):
        Searcher("a")


# -- long lines ----------------------------------------------------------------------------------


def test_a_very_long_line_is_cut_around_the_match():
    hit = find("needle", "é" * 300_000 + "needle" + "x" * 300_000)[0]
    assert (hit.column, hit.start) == (300_001, 300_000)
    assert hit.text.startswith("…é")
    assert hit.text.endswith("x…")
    assert "needle" in hit.text
    assert len(hit.text) <= text_module.WIDTH + 2


def test_a_match_longer_than_the_line_that_is_shown_is_cut_too():
    hit = find("a+", "b" * 1000 + "a" * 100_000)[0]
    assert len(hit.text) <= text_module.WIDTH + 2
    assert "aaa" in hit.text
    assert (hit.start, hit.end) == (1000, 101_000)


@given(st.text(alphabet="aé😀\ud800", max_size=60), st.text(alphabet="bé😀", max_size=60), st.integers(4, 40))
def test_a_cut_line_is_a_piece_of_the_line_with_the_match_in_it(head: str, tail: str, width: int):
    shown = find("#", head + "#" + tail, width=width)[0].text
    assert shown.strip("…") in head + "#" + tail
    assert "#" in shown
    assert len(shown) <= width + 2
    assert shown.startswith("…") == (not (head + "#").startswith(shown.strip("…").partition("#")[0] + "#"))


# -- places in any text --------------------------------------------------------------------------

texts = st.text(alphabet="ab é\u2028😀\ud800\udfff\0\r\n\x85٣", max_size=120)
patterns = st.sampled_from(
    [
        "ab", "ab|éa", "b?ab", "ab+é", "ab{0}a", "ab{1,2}b", r"a\wb", "(?:ab)?éa", "(ab|b)a?", "[[:alpha:]]ab",
        "a", "b+",
        "[aé]", "a.b", "^a", "a$", "ab$", "^ab", "a|😀", r"\w+", r"\d", r"[^a]+b", "é?a", r"\s", "", "^", ".",
        "\0", r"\W",
    ]
)  # fmt: skip


@given(texts, patterns, st.booleans(), st.booleans())
def test_hits_are_those_of_python_line_by_line_and_at_the_same_places(
    text: str, pattern: str, small_blocks: bool, ignore_case: bool
):
    """CRLF aside, where `$` is before the CR."""
    text = text.replace("\r", "")
    expected = []
    offset = 0
    for number, line in enumerate(text.split("\n"), 1):
        match = re.search(pattern.replace("[:alpha:]", "a-zA-Z"), line, re.IGNORECASE if ignore_case else 0)
        if match and (line or offset < len(text)):
            expected.append((number, match.start() + 1, offset + match.start(), line))
        offset += len(line) + 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_module, "BLOCK", 3 if small_blocks else 1 << 16)
        patch.setattr(searching, "WINDOW", 5 if small_blocks else 1 << 24)
        patch.setattr(prefilter, "_TRIALS", 2 if small_blocks else 1 << 16)
        hits = find(pattern, text, max_results=1000, ignore_case=ignore_case)
    assert [(hit.line, hit.column, hit.start, hit.text) for hit in hits] == expected


@given(texts, st.integers(1, 9))
def test_a_text_is_indexed_as_python_counts(text: str, block: int):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_module, "BLOCK", block)
        indexed = Text(text)
        lines = text.split("\n")
        assert indexed.character_count == len(text)
        assert indexed.line_count == len(lines) - (lines[-1] == "")
        for place in range(len(text) + 1):
            offset = len(text[:place].encode("utf-8", "surrogatepass"))
            assert indexed.byte_at(place) == offset
            assert indexed.character_at(offset) == place
            assert indexed.line_at(offset) == text[:place].count("\n") + 1
            assert indexed.slice(place, place + 3) == text[place : place + 3]
        for number, line in enumerate(lines, 1):
            assert indexed.line(number) == line.removesuffix("\r")
        assert indexed.line(len(lines) + 1) == ""
        assert indexed.lines(1, len(lines)) == text.removesuffix("\n").removesuffix("\r")


def test_bytes_that_are_no_utf_8_are_searched_and_shown():
    found = Searcher("b").find_lines(Text(b"\xff\xfea\nb\x80\xff\n"))
    assert [(hit.line, hit.column) for hit in found.hits] == [(2, 1)]
    assert found.hits[0].text == "b\ufffd\ufffd"


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        ("needle", ("needle",)),
        (r"\b\w+@\w+_post\.com\b", ("_post.com",)),
        ("one|two|three", ("one", "two", "three")),
        (r"def .*\(self", ("(self",)),
        ("colou?r", ("colo",)),
        ("abc*d", ("ab",)),
        ("abc+d", ("abc",)),
        ("xyz{2,3}ab", ("xy",)),
        ("xyz{ab", ("xyz{ab",)),
        ("(abc)+de", ("de",)),
        ("(?:abc|de)fg", ("fg",)),
        ("[abc]de[f]", ("de",)),
        ("[[:digit:]]xyz", ("xyz",)),
        ("a|bc", ()),
        ("(?i)abc", ()),
        ("abc|", ()),
        (r"\Qabc\E", ()),
        (".*", ()),
    ],
)
def test_the_texts_that_a_pattern_cannot_do_without_are_known(pattern: str, texts: tuple[str, ...]):
    assert required_texts(pattern) == texts


def test_a_text_that_is_on_every_line_is_not_looked_for_any_longer():
    """Counted in calls of the engine."""

    class Counting:
        calls = 0

        def __init__(self, engine: Any) -> None:
            self.engine = engine

        def search(self, *arguments: Any) -> Any:
            Counting.calls += 1
            return self.engine.search(*arguments)

    searcher = Searcher("ab.*z", ignore_case=False)
    searcher._engine = Counting(searcher._engine)
    assert searcher.find_lines(Text("abc\n" * 10_000 + "abz")).total == 1
    assert Counting.calls < 200


# -- large texts ---------------------------------------------------------------------------------


def test_a_file_is_mapped_and_not_read(tmp_path: Path):
    path = tmp_path / "large.txt"
    path.write_bytes(b"some line of text\r\n" * 200_000 + "here is the né\0edle".encode())
    mapped = Text.map_file(path)
    assert not isinstance(mapped.data, bytes)
    hit = Searcher("N\u00c9\0edle$").find_lines(mapped, before=1).hits[0]
    assert (hit.line, hit.column, hit.start, hit.before) == (200_001, 13, 3_800_012, ("some line of text",))
    path.write_bytes(b"")
    assert Text.map_file(path).line_count == 0


def test_the_search_copies_no_more_than_pieces_of_the_text(monkeypatch: pytest.MonkeyPatch):
    """Counted on what the index asks for; the engine reads the text where it lies."""

    class Counting(bytes):
        largest = 0

        def __getitem__(self, key: Any) -> Any:
            piece = super().__getitem__(key)
            if isinstance(piece, bytes):
                Counting.largest = max(Counting.largest, len(piece))
            return piece

    text = Text(Counting(b"x" * 5_000_000 + b"needle" + b"y" * 1_000_000 + b"\nn\xc3\xa9edle\n"))
    assert Searcher("n.?edle").find_lines(text, before=2, after=2).total == 2
    assert 0 < Counting.largest <= 1 << 20


def test_a_search_can_be_given_up_between_pieces(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(searching, "WINDOW", 100)
    calls = []

    def between() -> None:
        calls.append(1)
        if len(calls) == 3:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        Searcher("x").find_lines(Text("abc\n" * 1000), between=between)
    assert len(calls) == 3


def test_searches_of_one_text_may_run_side_by_side(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(text_module, "BLOCK", 64)
    text = Text("line é\n" * 5000 + "needle\n")
    found: list[tuple[int, int]] = []

    def search() -> None:
        hit = Searcher("needle").find_lines(text).hits[0]
        found.append((hit.line, hit.start))

    threads = [threading.Thread(target=search) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [(5001, 35_000)] * 8
