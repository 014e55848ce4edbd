"""Pyodide holds: no technique has an effect on the host."""

from __future__ import annotations

import pytest

from cloche.backends.pyodide.backend import PyodideBackend
from cloche.errors import BackendUnavailableError
from cloche.escapes import Canaries, Technique, all_techniques, run_technique

AIMED_AT_IT = {"T52", "T62", "T65", "T68", "T70"}
"""By files, links and the bridge to JavaScript. Most others need what is not there, and are left to the slow tests: a
start takes half a second of a processor."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "technique" in metafunc.fixturenames:
        cells = [
            pytest.param(each, marks=() if each.id in AIMED_AT_IT else pytest.mark.slow, id=f"{each.id}-{each.name}")
            for each in all_techniques()
            if not each.is_probe
        ]
        metafunc.parametrize("technique", cells)


@pytest.fixture(scope="module")
def pyodide() -> None:
    try:
        PyodideBackend.set_up(print)
    except BackendUnavailableError as exc:
        pytest.skip(f"pyodide cannot be set up here: {exc.cause or exc.message}")


def test_nothing_happens_to_the_host(technique: Technique, canaries: Canaries, pyodide: None) -> None:
    outcome = run_technique(technique, canaries, backend="pyodide")
    assert outcome.contained, (outcome.effects, outcome.saw)
