"""The two APIs are one: the same names, with the same arguments."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import pytest

from cloche.aio import AsyncSandbox
from cloche.factory import create_async_sandbox, create_sandbox
from cloche.sandbox import BaseSandbox, SessionSandbox

if TYPE_CHECKING:
    from cloche.conformance.fixtures import OpenSandbox


def public(kind: type) -> set[str]:
    """Names that users see."""
    return {name for name in dir(kind) if not name.startswith("_")}


def arguments(function: object) -> list[tuple[str, object, object]]:
    """Names, kinds and defaults of a function's parameters."""
    parameters = inspect.signature(function).parameters.values()  # type: ignore[arg-type]  # any public method
    return [(parameter.name, parameter.kind, parameter.default) for parameter in parameters]


METHODS = sorted(name for name in public(SessionSandbox) if inspect.isfunction(getattr(SessionSandbox, name)))


def test_both_apis_have_the_same_names(open_sandbox: OpenSandbox) -> None:
    assert public(SessionSandbox) - {"backend_type"} == public(AsyncSandbox)


@pytest.mark.parametrize("name", METHODS)
def test_both_apis_take_the_same_arguments(open_sandbox: OpenSandbox, name: str) -> None:
    assert arguments(getattr(SessionSandbox, name)) == arguments(getattr(AsyncSandbox, name))


def test_both_factories_take_the_same_arguments(open_sandbox: OpenSandbox) -> None:
    assert arguments(create_sandbox) == arguments(create_async_sandbox)


@pytest.mark.cloche_only("sync")
def test_a_sandbox_is_a_base_sandbox(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox()
    assert isinstance(sandbox, BaseSandbox)
    for name in ("initialize", "execute", "destroy", "cancel", "get_variable"):
        assert callable(getattr(sandbox, name))


def test_policy_workspace_and_logger_are_kept(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox()
    assert sandbox.policy is not None
    assert sandbox.workspace is None
    assert sandbox.logger is not None
