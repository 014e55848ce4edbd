"""The conformance suite on the in-process backend: with each guard, in a worker process and inline."""

from __future__ import annotations

from typing import Any

import pytest

from cloche.conformance.fixtures import (
    APIS,
    backend_parameter,
    cloche_api,
    open_sandbox,
    portal,
    run_on,
    sandbox,
)
from cloche.conformance.guarded import why_left_out
from cloche.pytest_plugin import chosen_backends

__all__ = ["cloche_api", "open_sandbox", "portal", "sandbox"]

FORMS = ("ast", "restricted", "ast-inline", "restricted-inline")
CELL_TOPICS = ("test_cells", "test_errors", "test_last_word", "test_limits", "test_time")
"""A cell that passes the AST guard goes to the native backend's own guest. So only what is about cells is run."""
COMPILED_TOPICS = (*CELL_TOPICS, "test_bridges", "test_displays", "test_snapshot", "test_variables")
"""What another compiler of cells and other builtins may have a part in."""
LOOP_TOPICS = {"ast": ("test_cancel",), "restricted-inline": ("test_bridges", "test_batches", "test_cancel")}
"""The async API of a worker is that of every other one; inline it has a driver of its own."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each behaviour in each form in which it is sampled; ``--backend=inprocess`` runs them all."""
    if "cloche_api" not in metafunc.fixturenames:
        return
    if chosen_backends(metafunc.config):
        run_on(metafunc, ("inprocess",))
        metafunc.parametrize("cloche_form", FORMS)
        return
    only = metafunc.definition.get_closest_marker("cloche_only")
    topic = metafunc.function.__module__.rpartition(".")[2]
    sampled = [(api, form) for api in (only.args if only else APIS) for form in FORMS if _is_sampled(form, api, topic)]
    metafunc.parametrize("cloche_backend", [backend_parameter(metafunc, "inprocess")])
    metafunc.parametrize(("cloche_api", "cloche_form"), sampled)


@pytest.fixture
def cloche_form() -> str:
    """A guard, and perhaps the kind of worker."""
    return "ast"


@pytest.fixture(autouse=True)
def cloche_options(cloche_form: str) -> dict[str, Any]:
    guard, _, worker = cloche_form.partition("-")
    return {"guard": guard, "worker": worker or "process"}


def _is_sampled(form: str, api: str, topic: str) -> bool:
    if api == "async":
        return topic in LOOP_TOPICS.get(form, ())
    if form == "restricted-inline":
        return True
    return topic in (COMPILED_TOPICS if form == "restricted" else CELL_TOPICS)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """One variant of a behaviour in each form, and none that a guard refuses."""
    seen: set[tuple[str, str, str]] = set()
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        chosen = getattr(getattr(item, "callspec", None), "params", {})
        form, api = chosen.get("cloche_form"), chosen.get("cloche_api")
        if form is None or api is None:
            kept.append(item)
            continue
        guard, _, worker = form.partition("-")
        which = (getattr(item, "originalname", item.name), form, api)
        if why_left_out(item, guard, worker or "process") or (which in seen and not chosen_backends(config)):
            left.append(item)
        else:
            seen.add(which)
            kept.append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=left)
