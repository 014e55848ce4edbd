"""The reference is made from the code, and leaves nothing out."""

from __future__ import annotations

from docs.generate_reference import PAGE, render, write

import cloche


def test_the_reference_is_current():
    assert PAGE.read_text("utf-8") == render(), "run: python docs/generate_reference.py"


def test_every_public_name_is_in_the_reference_with_a_sentence():
    rows = {line.split("|")[1].strip(" `"): line for line in render().splitlines() if line.startswith("| `")}
    names = [name for name in cloche.__all__ if name not in ("UNSET", "__version__")]
    assert [name for name in names if rows.get(name, "").endswith("|  |") or name not in rows] == []


def test_a_reference_that_is_current_is_not_written_again(monkeypatch, tmp_path):
    monkeypatch.setattr("docs.generate_reference.PAGE", tmp_path / "reference.md")
    assert write()
    assert not write()
