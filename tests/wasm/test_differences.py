"""What this wall cannot do: a short list, each with its typed error (`cloche.conformance.limits` tries them all)."""

from __future__ import annotations

from cloche.backends.wasm.backend import WasmBackend
from cloche.conformance.limits import MOST, cannot
from cloche.errors import CodeError, IsolationError, UnsupportedError


def test_the_list_of_what_the_wall_cannot_do_is_short_and_known():
    found = cannot(WasmBackend)
    assert found.pop("minimum_isolation", IsolationError) is IsolationError, "there is no higher tier to ask for"
    assert found == {
        "fork": UnsupportedError,
        "fork_many": UnsupportedError,
        "savepoint": UnsupportedError,
        "undo": UnsupportedError,
        "network=True": UnsupportedError,
        "mounts": UnsupportedError,
        "threads": CodeError,
        "subprocess": CodeError,
        "site_packages": CodeError,
        "links": CodeError,
        "byte_names": CodeError,
    }
    assert len(found) <= MOST
