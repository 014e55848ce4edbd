"""The conformance suite, on every backend that is part of this package."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("cloche.conformance")

from cloche.conformance.fixtures import (  # noqa: E402 - after the rewriting of its asserts was asked for
    cloche_api,
    declare_markers,
    open_sandbox,
    portal,
    run_on,
    sandbox,
)

__all__ = ["cloche_api", "open_sandbox", "portal", "sandbox"]

BACKENDS = (
    "native",
    "fake",
)


def pytest_configure(config: pytest.Config) -> None:
    """Known markers only."""
    declare_markers(config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each behaviour on each backend, on both APIs."""
    run_on(metafunc, BACKENDS)
