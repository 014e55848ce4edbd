"""Stores that lie in each other, in a bucket, a database or a folder: none sees, counts or removes what another has."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.stores.conftest import Time, s3_options

from cloche.errors import StoreError, UnknownEntryError
from cloche.stores.embedded import EmbeddedStore
from cloche.stores.interface import Held, Quota
from cloche.stores.redis_store import RedisStore
from cloche.stores.s3_store import S3Store

BUCKET = "shelf"


def test_a_store_at_the_top_of_a_bucket_lists_nothing_of_one_below_it(s3_endpoint: str) -> None:
    options = s3_options(s3_endpoint)
    with S3Store(BUCKET, **options) as top, S3Store(BUCKET, "p", **options) as below:
        below.put("k", b"below", owner="alice")
        assert top.list(owner="p") == []
        assert top.usage(owner="p") == Held(0, 0)
        top.put("alice", b"top", owner="p")
        assert [entry.key for entry in below.list(owner="alice")] == ["k"]
        top.delete("alice", owner="p")


def test_what_has_expired_in_one_store_is_not_removed_by_another(s3_endpoint: str, time: Time) -> None:
    options = s3_options(s3_endpoint)
    with S3Store(BUCKET, "q", clock=time, **options) as above, S3Store(BUCKET, "q/r", clock=time, **options) as below:
        below.put("k", b"x", owner="me", ttl=10)
        time.now += 100
        assert above.collect().entries == 0
        assert below.collect().entries == 1


def test_a_quota_does_not_count_what_lies_in_a_store_below(s3_endpoint: str) -> None:
    options = s3_options(s3_endpoint)
    with S3Store(BUCKET, "u/me", **options) as below, S3Store(BUCKET, "u", quota=Quota(entries=1), **options) as above:
        below.put("k", b"x", owner="me")
        above.put("k", b"x", owner="me")


def test_an_object_that_was_copied_from_another_store_is_none_of_this_one(s3_endpoint: str) -> None:
    from obstore.store import S3Store as Bucket

    options = s3_options(s3_endpoint)
    with S3Store(BUCKET, "one", **options) as one, S3Store(BUCKET, "two", **options) as two:
        one.put("k", b"x", owner="alice")
        bucket = Bucket(BUCKET, **options)
        bucket.put("two/.cloche-entries/bob/k", bytes(bucket.get("one/.cloche-entries/alice/k").bytes()))
        assert two.list(owner="bob") == []


def test_a_prefix_among_the_entries_of_a_store_is_refused(s3_endpoint: str) -> None:
    with pytest.raises(StoreError, match="cannot be used as a store"):
        S3Store(BUCKET, "p/.cloche-entries/alice", **s3_options(s3_endpoint))


def test_no_name_of_a_redis_store_leads_into_another(redis_url: str) -> None:
    with RedisStore(redis_url, name="a") as one, RedisStore(redis_url, name="a}:entry:me:{") as other:
        other.put("k", b"other", owner="me")
        with pytest.raises(UnknownEntryError):
            one.get("{}:entry:me:k", owner="me")
        assert one.list(owner="me") == []


def test_a_folder_among_the_files_of_a_store_is_refused(tmp_path: Path) -> None:
    with EmbeddedStore(tmp_path / "store"), pytest.raises(StoreError, match="cannot be used as a store") as caught:
        EmbeddedStore(tmp_path / "store" / "blobs" / "inner")
    assert str(tmp_path / "store") in str(caught.value.cause)
