"""Text for people: control characters are shown, not obeyed."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.command import Cloche
from tests.cli.typewriter import Typewriter

from cloche.cli.terminal import Terminal, neutralise

CONTROLS = [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n\r"]
REORDERING = list("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


@pytest.mark.parametrize("character", CONTROLS + REORDERING, ids=lambda character: f"U+{ord(character):04X}")
def test_a_control_character_is_shown(character: str) -> None:
    shown = neutralise(f"a{character}b")
    assert character not in shown
    assert shown.startswith("a")
    assert shown.endswith("b")
    assert len(shown) > 2


@given(st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs"])))
def test_ordinary_text_is_unchanged(text: str) -> None:
    assert neutralise(text) == text


@given(st.text(st.sampled_from([*CONTROLS, *REORDERING, "[", "3", "1", "m", "é", "\n"])))
def test_no_control_character_survives(text: str) -> None:
    assert not set(neutralise(text)) & {*CONTROLS, *REORDERING}


@given(st.text(), st.text())
def test_a_sequence_cut_in_two_is_no_way_through(first: str, second: str) -> None:
    assert neutralise(first) + neutralise(second) == neutralise(first + second)


def test_lines_tabs_and_carriage_returns_stay() -> None:
    assert neutralise("a\tb\r\n") == "a\tb\r\n"


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_note_starts_on_a_line_of_its_own_where_both_streams_are_one_screen() -> None:
    out, err = Screen(), Screen()
    terminal = Terminal(out, err)
    terminal.out("no newline")
    terminal.note("note")
    assert err.getvalue() == "\nnote\n"


def test_a_note_adds_nothing_to_output_that_goes_to_a_pipe() -> None:
    out, err = io.StringIO(), Screen()
    terminal = Terminal(out, err)
    terminal.out("no newline")
    terminal.note("note")
    assert (out.getvalue(), err.getvalue()) == ("no newline", "note\n")


HOSTILE = "print('\\x1b]0;owned\\x07\\x1b[31mred\\x9b2J end')"


def test_escapes_are_neutralised_on_a_terminal(typewriter: Typewriter) -> None:
    typewriter.start("run", "-c", HOSTILE)
    assert typewriter.finish() == 0
    assert "␛]0;owned␇␛[31mred\\x9b2J end" in typewriter.rest
    assert b"\x1b" not in typewriter.raw


def test_escapes_of_a_value_are_neutralised_on_a_terminal(typewriter: Typewriter) -> None:
    typewriter.start("run", "-c", "class Sly:\n    __repr__ = lambda self: '\\x1b[2Jgone'\nSly()")
    assert typewriter.finish() == 0
    assert "␛[2Jgone" in typewriter.rest


def test_output_is_untouched_in_a_pipe(cloche: Cloche) -> None:
    assert cloche("run", "-c", HOSTILE).stdout == "\x1b]0;owned\x07\x1b[31mred\x9b2J end\n"
