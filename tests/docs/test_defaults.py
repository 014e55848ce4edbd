"""The table of defaults is made from the code."""

from __future__ import annotations

import dataclasses

from docs.generate_defaults import PAGE, render, write

from cloche import ExecutionPolicy


def test_page_of_defaults_is_current():
    assert PAGE.read_text("utf-8") == render(), "run: python docs/generate_defaults.py"


def test_page_of_defaults_has_every_policy_field():
    rows = [line.split("|")[1].strip(" `") for line in render().splitlines() if line.startswith("| `")]
    assert rows[: len(dataclasses.fields(ExecutionPolicy))] == list(ExecutionPolicy.field_names())


def test_page_that_is_current_is_not_written_again(monkeypatch, tmp_path):
    monkeypatch.setattr("docs.generate_defaults.PAGE", tmp_path / "defaults.md")
    assert write()
    assert not write()
