"""Every store behind one fixture. Servers are shared; each test has a place of its own in them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.stores.servers import redis_server, s3_server

from cloche.stores import EmbeddedStore, RedisStore, S3Store, Store

_places = itertools.count()


class Time:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    with s3_server() as endpoint:
        yield endpoint


Opener = Callable[..., Store]


def s3_options(endpoint: str) -> dict[str, Any]:
    return {
        "endpoint": endpoint, "access_key_id": "x", "secret_access_key": "y", "region": "us-east-1",
        "client_options": {"allow_http": True},
    }  # fmt: skip


@pytest.fixture(params=["sqlite", "redis", "s3"])
def opener(request: pytest.FixtureRequest, tmp_path: Path, time: Time) -> Opener:
    """Opens the test's own store, any number of times."""
    place = f"place-{next(_places)}"
    if request.param == "sqlite":
        return lambda **options: EmbeddedStore(tmp_path / "store", clock=time, **options)
    if request.param == "redis":
        url = request.getfixturevalue("redis_url")
        return lambda **options: RedisStore(url, name=place, clock=time, **options)
    endpoint = request.getfixturevalue("s3_endpoint")
    return lambda **options: S3Store("shelf", place, clock=time, **s3_options(endpoint), **options)


@pytest.fixture
def store(opener: Opener) -> Iterator[Store]:
    with opener() as opened:
        yield opened
