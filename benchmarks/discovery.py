"""Finds the rows: every module in ``benchmarks/rows`` has a tuple ``ROWS``. A new row is a new file there."""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING

from benchmarks import rows as package

if TYPE_CHECKING:
    from benchmarks.row import Row


def find_rows() -> list[Row]:
    """All rows, in the order of their files' names."""
    found: list[Row] = []
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda item: item.name):
        found += importlib.import_module(f"{package.__name__}.{module.name}").ROWS
    return found


def select(rows: list[Row], wanted: list[str]) -> list[Row]:
    """Rows with one of these names, or below one of them (``native`` means ``native.start`` too)."""
    return [
        row for row in rows if not wanted or any(row.name == name or row.name.startswith(f"{name}.") for name in wanted)
    ]
