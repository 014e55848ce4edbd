"""What a backend may be unable to do, and what it must raise when it is asked to.

A backend says what it can do in its `capabilities`. Everything in this table that is not among them must be
refused, with the error that stands here: a demand is honoured or refused, never forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from cloche.errors import ClocheError, CodeError, IsolationError, UnsupportedError
from cloche.isolation import Isolation

if TYPE_CHECKING:
    from cloche.conformance.fixtures import OpenSandbox
    from cloche.session.channel import Backend

MOST = 12
"""A backend that cannot do more than this is not one."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A capability, how to ask for it, and the error of a backend that does not have it."""

    capability: str
    ask: Callable[[OpenSandbox], Any]
    error: type[ClocheError] = UnsupportedError


def _tier_above(open_sandbox: OpenSandbox) -> Any:
    """Demand one tier more than the backend gives."""
    own = open_sandbox().isolation
    if own is max(Isolation):
        pytest.skip("this wall is of the highest tier")
    return open_sandbox(minimum_isolation=Isolation(own + 1)).execute("1")


def _undo(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox()
    with suppress(UnsupportedError):  # that is asked elsewhere
        sandbox.savepoint()
    sandbox.undo()


def _cell(code: str) -> Callable[[OpenSandbox], Any]:
    """What only shows when code tries it."""
    return lambda make: make().execute(code, timeout_ms=60_000).check()


TABLE: dict[str, Limit] = {
    "fork": Limit("fork", lambda make: make().fork()),
    "fork_many": Limit("fork", lambda make: make().fork_many(2)),
    "savepoint": Limit("savepoint", lambda make: make().savepoint()),
    "undo": Limit("savepoint", _undo),
    "fuel_budget": Limit("fuel_budget", lambda make: make(fuel_budget=1_000_000)),
    "network=False": Limit("network", lambda make: make(network=False)),
    "network=True": Limit("network_access", lambda make: make(network=True)),
    "deterministic": Limit("deterministic", lambda make: make(deterministic=True)),
    "mounts": Limit("mounts", lambda make: make(mounts=["/usr:/mnt/usr"])),
    "protect_state": Limit("protect_state", lambda make: make(protect_state=True)),
    "minimum_isolation": Limit("every tier", _tier_above, IsolationError),
    "threads": Limit("threads", _cell("import threading; threading.Thread(target=int).start()"), CodeError),
    "subprocess": Limit("subprocess", _cell("import subprocess; subprocess.run(['true'])"), CodeError),
    "site_packages": Limit("site_packages", _cell("import numpy"), CodeError),
    "links": Limit("links", _cell("import os; os.symlink('/nowhere', 'link')"), CodeError),
    "byte_names": Limit("byte_names", _cell("open(b'\\xff', 'w').close()"), CodeError),
}


def cannot(backend: type[Backend]) -> dict[str, type[ClocheError]]:
    """What a backend cannot do here, and the error that says so."""
    capabilities = backend.capabilities.difference(backend.probe().lacking)
    return {name: limit.error for name, limit in TABLE.items() if limit.capability not in capabilities}
