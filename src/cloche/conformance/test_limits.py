"""What a backend cannot do, it refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cloche.conformance.limits import MOST, TABLE, cannot
from cloche.errors import UnsupportedError
from cloche.factory import find_backend

if TYPE_CHECKING:
    from cloche.conformance.fixtures import OpenSandbox


@pytest.mark.parametrize("name", TABLE)
def test_what_the_backend_cannot_do_is_refused_with_a_typed_error(
    open_sandbox: OpenSandbox, cloche_backend: str, name: str
) -> None:
    refusals = cannot(find_backend(cloche_backend))
    if name not in refusals:
        TABLE[name].ask(open_sandbox)
        return
    with pytest.raises(refusals[name]) as caught:
        TABLE[name].ask(open_sandbox)
    assert caught.value.remedy
    if isinstance(caught.value, UnsupportedError):
        assert caught.value.capability == TABLE[name].capability


def test_the_backend_lacks_only_a_few_things(open_sandbox: OpenSandbox, cloche_backend: str) -> None:
    missing = {TABLE[name].capability for name in cannot(find_backend(cloche_backend))}
    assert len(missing) <= MOST


def test_a_demand_that_is_not_made_is_not_refused(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(fuel_budget=None, network=None, deterministic=False, protect_state=False)
    assert sandbox.execute("1").success


def test_the_sandbox_names_its_capabilities(open_sandbox: OpenSandbox, cloche_backend: str) -> None:
    sandbox = open_sandbox()
    backend = find_backend(cloche_backend)
    assert sandbox.capabilities == backend.capabilities.difference(backend.probe().lacking)
    assert sandbox.backend == cloche_backend
