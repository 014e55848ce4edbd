"""smolagents: `LocalPythonExecutor`, an interpreter of syntax trees in the host's own process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from benchmarks.row import Contender, Sampler

NAME = "smolagents LocalPythonExecutor"


@contextmanager
def executor() -> Iterator[Any]:
    """A fresh one, with its own time-out, as agents use it."""
    from smolagents.local_python_executor import LocalPythonExecutor

    made = LocalPythonExecutor(additional_authorized_imports=[])
    made.send_tools({})
    yield made


def running_executor(sample: Callable[[Any], Sequence[float]]) -> Contender:
    """Samples that one executor gives."""

    @contextmanager
    def open_executor() -> Iterator[Sampler]:
        with executor() as made:
            yield lambda: sample(made)

    return Contender(NAME, open_executor)
