"""The fixtures of the suite: one sandbox, whichever backend and whichever API is under test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from cloche.conformance.facade import AsyncAsSync
from cloche.conformance.guarded import why_left_out
from cloche.factory import create_async_sandbox, create_sandbox, find_backend
from cloche.pytest_plugin import chosen_backends

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from anyio.from_thread import BlockingPortal

    from cloche.sandbox import SessionSandbox

    OpenSandbox = Callable[..., SessionSandbox]

APIS = ("sync", "async")


def run_on(metafunc: pytest.Metafunc, default: tuple[str, ...]) -> None:
    """For `pytest_generate_tests`: each behaviour on each backend (``--backend``, or `default`) and each API."""
    if "cloche_api" not in metafunc.fixturenames:
        return
    only = metafunc.definition.get_closest_marker("cloche_only")
    names = chosen_backends(metafunc.config) or default
    metafunc.parametrize("cloche_backend", [backend_parameter(metafunc, name) for name in names])
    metafunc.parametrize("cloche_api", only.args if only is not None else APIS)


def backend_parameter(metafunc: pytest.Metafunc, name: str) -> Any:
    """A value for `cloche_backend`: skipped where the backend lacks what the behaviour is about."""
    missing = sorted(_needed(metafunc.definition) - find_backend(name).capabilities)
    reason = f"the {name} backend does not have {', '.join(missing)}"
    return pytest.param(name, marks=[pytest.mark.skip(reason=reason)] if missing else [])


def _needed(test: pytest.Item) -> set[str]:
    """Capabilities without which a behaviour cannot be."""
    return {word for marker in test.iter_markers("cloche_needs") for word in marker.args}


@pytest.fixture
def cloche_api() -> str:
    """``sync`` or ``async``."""
    return "sync"


@pytest.fixture(scope="session")
def portal() -> Iterator[BlockingPortal]:
    """An event loop in a thread of its own."""
    from anyio.from_thread import start_blocking_portal

    with start_blocking_portal("asyncio") as portal:
        yield portal


@pytest.fixture
def open_sandbox(cloche_backend: str, cloche_api: str, request: pytest.FixtureRequest) -> Iterator[OpenSandbox]:
    """Makes sandboxes, with the arguments of `create_sandbox`; all are destroyed when the test is over.

    Where the backend has several forms, a fixture `cloche_options` says which one is under test.
    """
    made: list[SessionSandbox] = []
    cloche_options = request.getfixturevalue("cloche_options") if "cloche_options" in request.fixturenames else {}
    if cloche_backend == "inprocess":
        guard, worker = cloche_options.get("guard", "ast"), cloche_options.get("worker", "process")
        if reason := why_left_out(request.node, guard, worker):
            pytest.skip(reason)
    needed = _needed(request.node)
    if needed and (missing := needed.intersection(find_backend(cloche_backend).probe().lacking)):
        pytest.skip(f"the {cloche_backend} backend does not have {', '.join(sorted(missing))} on this machine")

    def make(*args: Any, **options: Any) -> SessionSandbox:
        options.setdefault("backend", cloche_backend)
        if options["backend"] == cloche_backend:
            options = {**cloche_options, **options}
        if cloche_api == "async":
            portal = request.getfixturevalue("portal")
            bare = portal.call(lambda: create_async_sandbox(*args, **options))
            made.append(cast("SessionSandbox", AsyncAsSync(portal, bare)))
        else:
            made.append(create_sandbox(*args, **options))
        return made[-1]

    yield make
    for sandbox in made:
        sandbox.destroy()


@pytest.fixture
def sandbox(open_sandbox: OpenSandbox) -> SessionSandbox:
    """A fresh sandbox with the default policy."""
    return open_sandbox()
