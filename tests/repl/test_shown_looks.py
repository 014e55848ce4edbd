"""How hits print: each line once, with its number."""

from __future__ import annotations

import pickle

from cloche.repl import looking
from cloche.repl.sources import Sources
from cloche_guest.looks import Hits, make_hits

TEXT = "".join(f"{word}\r\n" for word in ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])


def grep(pattern: str, **around: int) -> Hits:
    sources = Sources([], lambda _: None)
    sources.set_context(TEXT)
    return make_hits(looking.grep(sources, 100, None, pattern, **around))


def test_lines_around_two_hits_are_shown_once():
    shown = str(grep("three|five|six", before=1, after=1))
    assert shown == "2- two\n3: three\n4- four\n5: five\n6: six\n7- seven"


def test_a_rule_stands_where_lines_are_left_out():
    assert str(grep("one|nine", before=1, after=1)) == "1: one\n2- two\n--\n8- eight\n9: nine"
    assert str(grep("one|nine")) == "1: one\n9: nine"


def test_a_match_of_several_lines_has_all_their_numbers():
    hits = grep("(?s)four.*six", before=1, after=1)
    assert str(hits) == "3- three\n4: four\n5: five\n6: six\n7- seven"
    assert (hits[0].line, hits[0].last_line) == (4, 6)


def test_hits_in_an_order_of_the_codes_own_are_shown_in_that_order():
    hits = grep("one|two|nine")
    hits.reverse()
    assert str(hits) == "9: nine\n2: two\n1: one"
    hits.append("mine")
    assert str(hits).endswith("\n'mine'")


def test_hits_are_saved_as_plain_lines():
    assert pickle.loads(pickle.dumps(grep("one|two"))) == ["one", "two"]
