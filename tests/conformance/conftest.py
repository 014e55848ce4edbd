"""The conformance suite, on every backend that is part of this package."""

from __future__ import annotations

import pytest

from cloche.conformance.fixtures import cloche_api, open_sandbox, portal, run_on, sandbox

__all__ = ["cloche_api", "open_sandbox", "portal", "sandbox"]

BACKENDS = (
    "native",
    "fake",
    "jail",
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each behaviour on each backend, on both APIs."""
    run_on(metafunc, BACKENDS)
