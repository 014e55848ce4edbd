"""Sandboxes on each CPython from 3.8 on that this machine has."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.guest.every_python import FOUND, find

from cloche import ExecutionPolicy, NativePythonSandbox


def found_versions() -> list[str]:
    return list(FOUND)


@pytest.fixture(params=FOUND)
def executable(request: pytest.FixtureRequest) -> str:
    """The path of each interpreter in turn."""
    path = find(request.param)
    assert path is not None
    return path


@pytest.fixture
def version(request: pytest.FixtureRequest, executable: str) -> tuple[int, int]:
    major, minor = request.node.callspec.params["executable"].split(".")
    return int(major), int(minor)


@pytest.fixture
def sandbox(executable: str) -> Iterator[NativePythonSandbox]:
    """A fresh session on that interpreter. Bridges: `echo`."""
    policy = ExecutionPolicy(grace_ms=3000)
    with NativePythonSandbox(policy, python=executable, tools={"echo": lambda value: value}) as made:
        yield made
