"""Seed 004, Pre-loaded Libraries: the names that code finds without importing anything."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from tests.repl_server.client import Client

SCIENCE = {
    "np": "numpy",
    "pd": "pandas",
    "stats": "scipy.stats",
    "optimize": "scipy.optimize",
    "interpolate": "scipy.interpolate",
    "linear_model": "sklearn.linear_model",
    "tree": "sklearn.tree",
    "ensemble": "sklearn.ensemble",
    "cluster": "sklearn.cluster",
    "preprocessing": "sklearn.preprocessing",
    "model_selection": "sklearn.model_selection",
    "metrics": "sklearn.metrics",
    "sm": "statsmodels.api",
    "matplotlib": "matplotlib",
    "plt": "matplotlib.pyplot",
    "sns": "seaborn",
}
STANDARD = ["json", "csv", "datetime", "collections", "itertools", "functools", "math", "random", "re", "os", "sys"]


@pytest.mark.parametrize(("name", "module"), [*SCIENCE.items(), *zip(STANDARD, STANDARD, strict=True)])
def test_a_name_of_the_document_is_its_module(full_server: Client, name: str, module: str) -> None:
    if importlib.util.find_spec(module.partition(".")[0]) is None:
        assert full_server.run(f"'{name}' in globals()") == "False\n", "bound although its package is not installed"
    else:
        assert full_server.run(f"{name}.__name__") == f"'{module}'\n"


def test_figures_are_drawn_without_a_screen_and_saved_as_files(full_server: Client) -> None:
    assert full_server.run("matplotlib.get_backend().lower()") == "'agg'\n"
    response = full_server.ask("plt.plot([1, 2])\nplt.savefig('output.png')")
    assert response["error"] is None
    assert response["files"] == ["output.png"]


def test_a_figure_that_is_left_open_is_among_the_displays(full_server: Client) -> None:
    shown = full_server.ask("plt.plot([1, 2]);")["displays"]
    assert [sorted(bundle) for bundle in shown] == [["image/png", "text/plain"]]
    assert "displays" not in full_server.ask("1")


def test_modules_can_be_added_and_one_that_is_missing_hinders_nobody(full_server: Client) -> None:
    assert full_server.run("colorsys.__name__, 'no_such_module' in globals(), np.__name__") == (
        "('colorsys', False, 'numpy')\n"
    )


def test_other_libraries_can_be_imported_by_the_code(full_server: Client) -> None:
    assert full_server.run("import fractions\nfractions.Fraction(1, 2)") == "Fraction(1, 2)\n"


def test_a_module_that_ends_the_interpreter_is_left_out_and_named(folder: Path) -> None:
    (folder / "deadly.py").write_text("import os\nos._exit(3)\n")
    (folder / "broken.py").write_text("1 / 0\n")
    client = Client(folder, PRELOAD_MODULES="deadly,broken,math")
    client.wait_until_ready()
    assert client.run("'deadly' in globals(), 'broken' in globals(), 'math' in globals()") == "(False, False, True)\n"
    said = client.close().decode()
    assert "deadly was not imported: the interpreter exited with status 3" in said
    assert "broken was not imported: ZeroDivisionError" in said


def test_what_modules_print_when_they_are_imported_is_in_no_response(folder: Path) -> None:
    (folder / "chatty.py").write_text("import os\nprint('hello')\nos.write(1, b'raw')\n")
    client = Client(folder, PRELOAD_MODULES="chatty")
    client.wait_until_ready()
    assert client.ask("1")["stdout"] == "1\n"
    client.close()
