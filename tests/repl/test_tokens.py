"""Accounting: tokens are counted where that is possible, estimated otherwise, and the encoding is always named."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from cloche.repl import tokens
from cloche.repl.tokens import Tokens, count, default_counter, estimate


def test_the_extra_counts_in_o200k_base():
    assert count("hello world, hello tokens") == Tokens(5, "o200k_base", estimated=False)
    assert count("") == Tokens(0, "o200k_base", estimated=False)


def test_a_text_that_looks_like_a_control_token_is_counted_as_text():
    assert count("<|endoftext|>").number > 1


def test_any_text_can_be_counted():
    assert count("a\ud800b\0é😀" * 100).number > 100


def test_without_the_extra_a_quarter_of_the_length_is_marked_as_an_estimate(monkeypatch: pytest.MonkeyPatch):
    real = importlib.import_module

    def without(name: str, *rest: Any) -> Any:
        if name == "splintr":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(importlib, "import_module", without)
    monkeypatch.setattr(tokens, "_found", None)
    assert default_counter()("x" * 41) == Tokens(11, "len/4", estimated=True)


def test_the_encoding_stands_beside_every_figure():
    assert str(Tokens(1234, "o200k_base", estimated=False)) == "1,234 tokens (o200k_base)"
    assert str(estimate("x" * 40)) == "about 10 tokens (len/4)"


def test_a_sum_of_two_encodings_is_an_estimate_that_names_both():
    exact, guessed = Tokens(3, "o200k_base", estimated=False), Tokens(4, "len/4", estimated=True)
    assert exact + exact == Tokens(6, "o200k_base", estimated=False)
    assert guessed + exact + guessed == Tokens(11, "len/4 + o200k_base", estimated=True)


def test_the_tokenizer_is_loaded_once():
    assert default_counter() is default_counter()
