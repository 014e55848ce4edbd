"""The cells of ``tests/hostile_cells``, by their names: one file each, whose first lines say what it tries."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent / "hostile_cells"
CELLS = sorted(path.stem for path in _FOLDER.glob("*.py"))


def read_cell(name: str) -> str:
    """The whole cell. What all cells of a kind begin with is in ``before``, once."""
    own = (_FOLDER / f"{name}.py").read_text("utf-8")
    shared = _FOLDER / "before" / f"{name.partition('_')[0]}.py"
    return shared.read_text("utf-8") + own if shared.exists() else own


def intention_of(name: str) -> str:
    """Its first line."""
    return (_FOLDER / f"{name}.py").read_text("utf-8").partition("\n")[0]
