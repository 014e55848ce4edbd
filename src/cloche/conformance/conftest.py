"""``pytest --pyargs cloche.conformance --backend=NAME``."""

from __future__ import annotations

import pytest

from cloche.conformance.fixtures import cloche_api, open_sandbox, portal, run_on, sandbox

__all__ = ["cloche_api", "open_sandbox", "portal", "sandbox"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Without ``--backend``: what every machine with Python has."""
    run_on(metafunc, ("native",))
