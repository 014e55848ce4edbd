"""Sandboxes on each CPython from 3.8 on that this machine has."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.guest.every_python import VERSIONS, find

from cloche import ExecutionPolicy, NativePythonSandbox


def found_versions() -> list[str]:
    return [version for version in VERSIONS if find(version) is not None]


@pytest.fixture(params=VERSIONS)
def executable(request: pytest.FixtureRequest) -> str:
    """The path of each interpreter in turn."""
    path = find(request.param)
    if path is None:
        pytest.skip(f"no CPython {request.param} on this machine: guest code is not tested there")
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
