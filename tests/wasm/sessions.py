"""What the tests of the WebAssembly wall share."""

from __future__ import annotations

from typing import Any

import cloche


def wasm(**options: Any) -> cloche.PythonSandbox:
    """A sandbox behind the wall."""
    sandbox = cloche.create_sandbox(backend="wasm", **options)
    assert isinstance(sandbox, cloche.PythonSandbox)
    return sandbox


def value(sandbox: cloche.SessionSandbox, code: str) -> str | None:
    """The value of a cell that must succeed."""
    return sandbox.execute(code).check().value
