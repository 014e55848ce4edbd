"""Waiting for something to become true, without betting on how long it takes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from cloche.result import SandboxResult
    from cloche.sandbox import SessionSandbox

T = TypeVar("T")

PATIENCE = 30.0
"""A hang detector: nothing is meant to come near it."""


def wait_until(
    condition: Callable[[], object], missed: str | Callable[[], object] = "what was waited for did not happen"
) -> None:
    """Look again and again until `condition` holds; `missed`: what to say when it does not, or what finds that out."""
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(missed() if callable(missed) else missed)
        time.sleep(0.005)


class Background:
    """A call in a thread of its own; `result()` is what it returned, or raises what it raised."""

    def __init__(self, call: Callable[[], Any]) -> None:
        from concurrent.futures import ThreadPoolExecutor

        self._pool = ThreadPoolExecutor(1)
        self._future = self._pool.submit(call)

    def result(self) -> Any:
        """Wait for the end of the call."""
        try:
            return self._future.result(PATIENCE)
        finally:
            self._pool.shutdown(wait=False)


def start_cell(sandbox: SessionSandbox, code: str, **options: Any) -> Background:
    """Run a cell in the background; returns when the cell has printed something."""
    from threading import Event

    printed = Event()
    call = Background(lambda: sandbox.execute(code, on_output=lambda stream, text: printed.set(), **options))
    assert printed.wait(PATIENCE), "the cell did not print"
    return call


def release_after(gate: threading.Event, call: Callable[[], SandboxResult]) -> SandboxResult:
    """Run `call`, and open `gate` whatever happens, so that no thread of the test stays behind."""
    try:
        return call()
    finally:
        gate.set()
