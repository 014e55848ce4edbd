"""Durations and sizes as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloche.cli.quantities import NO_LIMIT, milliseconds, size_in_bytes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("500", 500),
        ("500ms", 500),
        ("2s", 2000),
        ("1.5s", 1500),
        ("1m", 60000),
        ("1min", 60000),
        ("1h", 3600000),
        (" 2 S ", 2000),
        ("1_000", 1000),
        ("0.5ms", 1),
    ],
)
def test_a_duration_is_read(text: str, expected: int) -> None:
    assert milliseconds(text) == expected


@pytest.mark.parametrize("text", ["", "0", "-1", "2 weeks", "s", "1e3", "nan", "inf", "1.2.3", "٣s", "9" * 400])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a duration|is out of range"):
        milliseconds(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4096", 4096),
        ("1k", 1024),
        ("256M", 256 << 20),
        ("256MB", 256 << 20),
        ("256MiB", 256 << 20),
        ("2G", 2 << 30),
        ("1.5g", 3 << 29),
        ("100b", 100),
        ("none", NO_LIMIT),
    ],
)
def test_a_size_is_read(text: str, expected: int) -> None:
    assert size_in_bytes(text) == expected


@pytest.mark.parametrize("text", ["", "0", "-5M", "much", "12Q", "1MiBB", "5GiM", "0x10"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a size|is out of range"):
        size_in_bytes(text)


@given(st.text())
def test_any_text_is_a_positive_number_or_a_value_error(text: str) -> None:
    for read in (milliseconds, size_in_bytes):
        try:
            number = read(text)
        except ValueError:
            continue
        assert number >= 1 or text.strip().lower() == "none"
