"""One server with few modules for most tests, and one with all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.repl_server.client import Client


@pytest.fixture(scope="session")
def _light(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    client = Client(tmp_path_factory.mktemp("light"), PRELOAD_MODULES="numpy,json,math,os,sys")
    client.wait_until_ready()
    yield client
    client.close()


@pytest.fixture
def server(_light: Client) -> Client:
    """A server without variables of another test."""
    _light.run("[globals().pop(name) for name in list(globals()) if name[0] != '_' and name != 'display']\nNone")
    _light.run("import json, math, os, sys\nimport numpy as np")
    return _light


@pytest.fixture(scope="session")
def full_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """With the usual modules imported."""
    client = Client(tmp_path_factory.mktemp("full"), PRELOAD_MODULES="+colorsys,no_such_module")
    client.wait_until_ready()
    yield client
    client.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path
