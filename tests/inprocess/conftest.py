"""The conformance suite on the in-process backend, with each guard."""

from __future__ import annotations

from typing import Any

import pytest

from cloche.conformance.fixtures import cloche_api, open_sandbox, portal, run_on, sandbox
from cloche.conformance.guarded import why_left_out
from cloche.pytest_plugin import chosen_backends

__all__ = ["cloche_api", "open_sandbox", "portal", "sandbox"]

GUARDS = ("ast", "restricted")
CHECKED_TOPICS = (
    "test_bridges", "test_cancel", "test_cells", "test_errors", "test_lifecycle", "test_limits", "test_output",
    "test_results", "test_time", "test_variables",
)  # fmt: skip
"""A cell that passes the AST guard goes to the native backend's own guest. So only what is about cells is run."""
COMMON_TOPICS = ("test_context_tools", "test_files", "test_logging", "test_policy")
"""What no compiler of cells has a part in."""
LOOP_TOPICS = ("test_cancel",)
"""The drivers know nothing of guards either: a sample of the async API will do."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each behaviour with each guard."""
    run_on(metafunc, ("inprocess",))
    if "cloche_api" in metafunc.fixturenames:
        metafunc.parametrize("cloche_guard", GUARDS)


@pytest.fixture
def cloche_guard() -> str:
    """``ast`` or ``restricted``."""
    return "ast"


@pytest.fixture(autouse=True)
def cloche_options(cloche_guard: str) -> dict[str, Any]:
    return {"guard": cloche_guard}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """One variant of a behaviour with each guard; ``--backend=inprocess`` runs them all."""
    seen: set[tuple[str, str, str]] = set()
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        chosen = getattr(getattr(item, "callspec", None), "params", {})
        guard, api = chosen.get("cloche_guard"), chosen.get("cloche_api")
        if guard is None or api is None:
            kept.append(item)
            continue
        which = (getattr(item, "originalname", item.name), guard, api)
        topic = getattr(getattr(item, "function", None), "__module__", "").rpartition(".")[2]
        of_guard = topic in CHECKED_TOPICS if guard == "ast" else topic not in COMMON_TOPICS
        of_api = api == "sync" or (guard == "ast" and topic in LOOP_TOPICS)
        wanted = of_guard and of_api
        sampled = (wanted and which not in seen) or bool(chosen_backends(config))
        if why_left_out(item, guard) or not sampled:
            left.append(item)
        else:
            seen.add(which)
            kept.append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left)
