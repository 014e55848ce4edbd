"""Bytes and tokens, for each call and for each turn, with the name of the count beside every figure."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cloche import REPLEnvironment, Tool
from cloche.repl.accounting import COUNTED, measure
from cloche.repl.tokens import Tokens, default_counter


def words(text: str) -> Tokens:
    """A count that can be done in the head."""
    return Tokens(len(text.split()), "words", estimated=False)


@pytest.fixture(scope="module")
def env() -> Iterator[REPLEnvironment]:
    tools = {"give": Tool(lambda: "one two three")}
    with REPLEnvironment("Grüße an alle\nund noch eine\n", backend="native", counter=words, tools=tools) as one:
        yield one


def test_a_call_is_counted_as_it_would_be_printed(env):
    calls = env.execute("peek(13); grep('eine', before=1); context_len(); give(); list_dir()").calls
    assert [(call.name, call.characters, call.bytes, call.tokens.number) for call in calls] == [
        ("peek", 13, 15, 3),
        ("grep", len("1- Grüße an alle\n2: und noch eine"), 35, 8),
        ("context_len", 2, 2, 1),
        ("give", 13, 13, 3),
        ("list_dir", len("empty"), 5, 1),
    ]
    assert {call.tokens.encoding for call in calls} == {"words"}


@pytest.mark.parametrize(
    "call", ["grep('eine', before=1)", "grep('nothing')", "grep('e', max_results=1)", "list_dir('.')"]
)
def test_what_a_look_gave_is_counted_as_the_code_prints_it(env, call):
    env.sandbox.put_file("some/file.txt", b"")
    result = env.execute(f"print({call})")
    assert result.calls[0].characters == len(result.output)


def test_pieces_of_the_context_are_counted_by_their_text(env):
    (call,) = env.execute("chunk_context(2, overlap=0)").calls
    assert (call.characters, call.bytes, call.tokens.number, call.tokens.estimated) == (28, 30, 6, True)


def test_a_call_that_failed_gave_nothing(env):
    (call,) = env.execute("grep('(')").calls
    assert (call.characters, call.bytes, call.tokens.number) == (0, 0, 0)
    assert str(call.failed).startswith("PatternError: ")


def test_a_turn_is_counted_by_what_is_shown_and_not_by_what_was_read(env):
    result = env.execute("x = peek(500)\nprint('Grüße', 'x y')")
    assert (result.shown_bytes, result.shown.number, result.shown.encoding) == (11, 3, "words")


def test_of_a_stored_output_only_the_summary_is_counted(env):
    result = env.execute("print('word ' * 5000)")
    assert result.shown.number == len(result.output.split()) < 400
    assert result.shown_bytes == len(result.output.encode())


def test_a_refusal_is_counted_too(env):
    result = env.execute("import subprocess")
    assert result.shown.number == len(result.output.split()) > 5


def test_the_counts_are_in_the_plain_data_of_a_turn(env):
    data = env.execute("print(peek(5))").to_dict()
    assert (data["shown_bytes"], data["shown"]["encoding"], data["calls"][0]["tokens"]["encoding"]) == (
        7,
        "words",
        "words",
    )
    assert data["calls"][0]["bytes"] == 7


def test_of_a_very_long_result_a_part_is_counted_and_the_rest_estimated():
    size = measure("word " * COUNTED, words)
    assert size.tokens == Tokens(COUNTED, "words", estimated=True)
    assert measure("", default_counter()).tokens.number == 0
    assert measure("\ud800ü", words).bytes == 5
