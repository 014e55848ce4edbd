"""When `auto` takes this wall, and when it does not."""

from __future__ import annotations

import pytest

import cloche
from cloche.backends.native import NativeBackend
from cloche.backends.pyodide import runtime
from cloche.backends.wasm.backend import WasmBackend
from cloche.errors import BackendUnavailableError
from cloche.factory import choose_backend
from cloche.policy import ExecutionPolicy
from cloche.session.channel import Availability


@pytest.fixture
def no_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which no interpreter can be found (but the one that runs this)."""
    monkeypatch.setattr(NativeBackend, "probe", classmethod(lambda cls, **_: Availability(False, "no Python")))


def test_auto_takes_pyodide_where_no_python_is_found(no_python: None, pyodide: runtime.Runtime):
    with cloche.create_sandbox() as sandbox:
        assert type(sandbox) is cloche.PyodideSandbox
        assert sandbox.execute("6 * 7").value == "42"


def test_an_interpreter_that_was_named_is_not_passed_over_for_another(no_python: None):
    with pytest.raises(BackendUnavailableError, match="another one was named"):
        cloche.create_sandbox(python="/nonexistent/python")


def test_auto_does_not_count_on_a_deno_that_is_not_there(no_python: None, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(runtime.NAMED, "/nonexistent/deno")
    monkeypatch.setattr(WasmBackend, "probe", classmethod(lambda cls, **_: Availability(False, "no wasmtime")))
    with pytest.raises(BackendUnavailableError, match="there is no Deno at /nonexistent/deno"):
        choose_backend(ExecutionPolicy(), {})
