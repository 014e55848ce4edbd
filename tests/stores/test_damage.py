"""What was altered behind a store's back is found when it is read."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from tests.stores.conftest import Time, s3_options

from cloche.errors import DamagedEntryError, StoreError
from cloche.stores import EmbeddedStore, RedisStore, S3Store

LARGE = bytes(range(256)) * 2000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with EmbeddedStore(tmp_path / "store") as store:
        store.put("small", b"as it was", owner="me")
        store.put("large", LARGE, owner="me")
    return tmp_path / "store"


def blob(folder: Path) -> Path:
    (found,) = folder.glob("blobs/*/*/*")
    return found


def refuse(folder: Path, key: str) -> str:
    with EmbeddedStore(folder) as store, pytest.raises(DamagedEntryError) as caught:
        store.get(key, owner="me")
    return str(caught.value)


def test_a_file_cut_short_is_found(folder: Path) -> None:
    blob(folder).write_bytes(LARGE[:-1])
    assert f"{len(LARGE) - 1} bytes" in refuse(folder, "large")


def test_a_file_that_grew_is_found(folder: Path) -> None:
    blob(folder).write_bytes(LARGE + b"!")
    refuse(folder, "large")


def test_a_file_in_which_one_bit_flipped_is_found(folder: Path) -> None:
    blob(folder).write_bytes(bytes([LARGE[0] ^ 1]) + LARGE[1:])
    refuse(folder, "large")


def test_a_file_that_is_missing_is_found(folder: Path) -> None:
    blob(folder).unlink()
    assert "missing" in refuse(folder, "large")


def test_a_damaged_value_is_healed_by_the_next_put(folder: Path) -> None:
    blob(folder).write_bytes(bytes(len(LARGE)))
    with EmbeddedStore(folder) as store:
        store.put("large", LARGE, owner="me")
        assert store.get("large", owner="me").data == LARGE


def test_a_row_that_was_altered_is_found(folder: Path) -> None:
    connection = sqlite3.connect(folder / "entries.sqlite")
    connection.execute("UPDATE entries SET data = x'00' WHERE key = 'small'")
    connection.commit()
    connection.close()
    refuse(folder, "small")


def test_a_file_in_place_of_the_rows_is_found(folder: Path) -> None:
    for path in folder.glob("entries.sqlite*"):
        path.write_bytes(b"not a database" * 1000)
    with pytest.raises(DamagedEntryError, match=r"entries\.sqlite"):
        EmbeddedStore(folder)


def test_rows_of_a_later_version_are_left_alone(folder: Path) -> None:
    connection = sqlite3.connect(folder / "entries.sqlite")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StoreError, match="another version"):
        EmbeddedStore(folder)


@pytest.mark.parametrize("change", [{"data": b"altered!!"}, {"size": b"x"}, {"sha256": b"0" * 64}, {"data": None}])
def test_a_hash_of_redis_that_was_altered_is_found(redis_url: str, change: dict[str, Any]) -> None:
    import redis

    with RedisStore(redis_url, name="damage") as store, redis.Redis.from_url(redis_url) as client:
        store.put("k", b"as it was", owner="me")
        (place,) = client.keys("{damage}:entry:*")
        for field, value in change.items():
            client.hdel(place, field) if value is None else client.hset(place, field, value)
        with pytest.raises(DamagedEntryError):
            store.get("k", owner="me")


def test_what_redis_threw_away_is_unknown_and_taken_off_the_accounts(redis_url: str) -> None:
    import redis

    with RedisStore(redis_url, name="evicted") as store, redis.Redis.from_url(redis_url) as client:
        store.put("k", b"123", owner="me")
        client.delete(*client.keys("{evicted}:entry:*"))
        assert store.list(owner="me") == []
        done = store.collect()
        assert (done.leftovers, done.freed_bytes) == (1, 3)
        assert client.keys("{evicted}*") == []


@pytest.mark.parametrize("content", [b"", b"CLOCHE-E", b"something else " * 10, b"CLOCHE-E\xff\xff\xff\xff{}"])
def test_an_object_that_is_none_of_ours_is_found(s3_endpoint: str, content: bytes) -> None:
    from obstore.store import S3Store as Bucket

    with S3Store("shelf", "damage", **s3_options(s3_endpoint)) as store:
        store.put("k", b"as it was", owner="me")
        Bucket("shelf", **s3_options(s3_endpoint)).put("damage/.cloche-entries/me/k", content)
        for look in (store.get, store.head):
            with pytest.raises(DamagedEntryError):
                look("k", owner="me")
        assert store.list(owner="me") == []
        store.collect()
        store.put("k", b"a whole copy", owner="me")
        assert store.get("k", owner="me").data == b"a whole copy"


def test_a_damaged_object_can_be_deleted(s3_endpoint: str) -> None:
    from obstore.store import S3Store as Bucket

    with S3Store("shelf", "damaged", **s3_options(s3_endpoint)) as store:
        Bucket("shelf", **s3_options(s3_endpoint)).put("damaged/.cloche-entries/me/k", b"something else")
        assert store.delete("k", owner="me")
        assert not store.delete("k", owner="me")


def test_an_object_whose_data_was_cut_is_found(s3_endpoint: str) -> None:
    from obstore.store import S3Store as Bucket

    with S3Store("shelf", "cut", **s3_options(s3_endpoint)) as store:
        store.put("k", LARGE, owner="me")
        bucket = Bucket("shelf", **s3_options(s3_endpoint))
        bucket.put("cut/.cloche-entries/me/k", bytes(bucket.get("cut/.cloche-entries/me/k").bytes())[:-1])
        with pytest.raises(DamagedEntryError):
            store.get("k", owner="me")


def test_marks_of_what_is_gone_are_removed_when_they_are_old(s3_endpoint: str, time: Time) -> None:
    from obstore.store import S3Store as Bucket

    with S3Store("shelf", "marks", clock=time, **s3_options(s3_endpoint)) as store:
        store.put("k", LARGE, owner="me", ttl=10)
        time.now += 11  # later than the real time of the server, by years
        assert store.collect().entries == 1
        assert store.collect().leftovers == 1
        listed = list(Bucket("shelf", **s3_options(s3_endpoint)).list("marks"))
    assert listed == []
