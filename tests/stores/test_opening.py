"""Addresses of stores, what is missing, and the face for event loops."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.stores.conftest import Opener, s3_options
from tests.stores.servers import Wsgi, s3_server

from cloche.errors import ConflictError, RequestError, StoreError
from cloche.stores import AsyncStore, EmbeddedStore, Quota, RedisStore, S3Store, Store, open_store


def test_without_an_address_it_is_among_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLOCHE_STORE", raising=False)
    monkeypatch.delenv("CLOCHE_STATE_DIR", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with open_store() as store:
        assert store.url == f"sqlite://{tmp_path}/state/cloche/store"


def test_a_variable_names_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOCHE_STORE", f"sqlite://{tmp_path}/a%20b")
    with open_store() as store:
        assert store.url == f"sqlite://{tmp_path}/a b"


def test_a_folder_in_which_there_is_something_else_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir(mode=0o755)
    (tmp_path / "shared" / "letter").write_text("x")
    with pytest.raises(StoreError, match=r"something else(.|\n)*sqlite://.*/shared/cloche-store"):
        open_store(f"sqlite://{tmp_path}/shared")
    assert (tmp_path / "shared").stat().st_mode & 0o777 == 0o755
    with pytest.raises(StoreError, match="cannot be used"):
        open_store(f"sqlite://{tmp_path}/shared/letter")


def test_each_address_opens_its_store(tmp_path: Path, redis_url: str, s3_endpoint: str) -> None:
    with open_store(f"sqlite://{tmp_path}/s", quota=Quota(entries=3)) as store:
        assert isinstance(store, EmbeddedStore)
        assert store.quota == Quota(entries=3)
    with open_store(redis_url) as store:
        assert isinstance(store, RedisStore)
        store.put("k", b"1", owner="opening")
        assert store.get("k", owner="opening").data == b"1"
    with open_store(f"s3://shelf/some/where?endpoint={s3_endpoint}&region=us-east-1") as store:
        assert isinstance(store, S3Store)
        assert store.url == "s3://shelf/some/where"


@pytest.mark.parametrize("url", ["", "postgres://x", "s3://", "nothing", "s3://b/p?color=red"])
def test_what_is_no_address_is_refused_with_those_that_are(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOCHE_STORE", "color://")
    with pytest.raises(RequestError, match="one of"):
        open_store(url)


def test_two_slashes_where_three_belong_are_explained() -> None:
    with pytest.raises(RequestError, match="sqlite:///var/x"):
        open_store("sqlite://var/x")


def test_a_folder_without_its_place_is_given_one() -> None:
    with pytest.raises(RequestError) as caught:
        open_store("sqlite:here")
    assert caught.value.remedy == f"sqlite://{os.path.abspath('here')}"


def test_a_password_in_what_is_no_address_is_not_shown() -> None:
    with pytest.raises(RequestError) as caught:
        open_store("redi://user:secret@host/0")
    assert "secret" not in str(caught.value)


def test_a_password_is_not_shown() -> None:
    with RedisStore("redis://user:secret@127.0.0.1:1/0") as store:
        assert store.url == "redis://127.0.0.1:1/0"
        with pytest.raises(StoreError, match="127") as caught:
            store.put("k", b"", owner="me")
        assert "secret" not in str(caught.value)


def test_a_bucket_that_cannot_be_reached_is_an_error_of_ours() -> None:
    options: Any = s3_options("http://127.0.0.1:1") | {"retry_config": {"max_retries": 0}}
    with S3Store("b", **options) as store, pytest.raises(StoreError, match="s3://b"):
        store.put("k", b"", owner="me")


@pytest.mark.parametrize(("package", "url"), [("redis", "redis://x"), ("obstore", "s3://b/p")])
def test_a_missing_package_is_named_with_the_command_that_installs_it(package: str, url: str) -> None:
    code = f"import sys; sys.modules[{package!r}] = None\nfrom cloche.stores import open_store\nopen_store({url!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'cloche[" in done.stderr.splitlines()[-1]
    assert "StoreError" in done.stderr


def test_a_server_that_ignores_conditions_is_refused() -> None:
    def deaf(app: Wsgi) -> Wsgi:
        def without_conditions(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
            environ.pop("HTTP_IF_MATCH", None)
            environ.pop("HTTP_IF_NONE_MATCH", None)
            return app(environ, start)

        return without_conditions

    with s3_server(wrap=deaf) as endpoint, S3Store("shelf", "deaf", **s3_options(endpoint)) as store:
        entry = store.put("k", b"1", owner="me")
        with pytest.raises(StoreError, match="two writers"):
            store.put("k", b"2", owner="me", if_match=entry.version)
        assert store.get("k", owner="me").data == b"1"


def test_the_face_for_event_loops_has_the_same_methods() -> None:
    def public(kind: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(member).parameters)
            for name, member in inspect.getmembers(kind, inspect.isfunction)
            if not name.startswith("_")
        }

    assert public(AsyncStore) == public(Store)


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
@pytest.mark.anyio
async def test_a_store_can_be_awaited(opener: Opener, anyio_backend: str) -> None:
    async with AsyncStore(opener()) as store:
        entry = await store.put("k", b"1", owner="me", ttl=60)
        assert (await store.get("k", owner="me")).data == b"1"
        with pytest.raises(ConflictError):
            await store.put("k", b"2", owner="me", if_none_match=True)
        assert await store.list(owner="me") == [entry] == [await store.head("k", owner="me")]
        assert (await store.usage(owner="me")).entries == 1
        assert (await store.collect()).entries == 0
        assert await store.delete("k", owner="me", if_match=entry.version)
