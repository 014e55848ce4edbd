"""What every store does, on every store."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from tests.stores.conftest import Opener, Time

from cloche.errors import ConflictError, QuotaError, RequestError, UnknownEntryError
from cloche.stores import Held, Quota, Store

LARGE = bytes(range(256)) * 2000
ME, OTHER = "me", "somebody else"


@pytest.mark.parametrize("data", [b"", b"plain", b"\0\xff\r\n\0", LARGE], ids=["empty", "text", "binary", "large"])
def test_what_was_put_is_got_byte_for_byte(store: Store, data: bytes) -> None:
    entry = store.put("k", data, owner=ME)
    stored = store.get("k", owner=ME)
    assert stored.data == data
    assert stored.entry == entry == store.head("k", owner=ME)


def test_anything_like_bytes_can_be_put(store: Store) -> None:
    for data in (bytearray(b"abc"), memoryview(b"xabcx")[1:4]):
        store.put("k", data, owner=ME)
        assert store.get("k", owner=ME).data == b"abc"


@pytest.mark.parametrize("key", ["a/b/../c", "{x}:y~7e", "Ünï — 名", "%2F", "..", "a b", "*?[x]", "x" * 256])
def test_any_printable_text_is_a_key(store: Store, key: str) -> None:
    store.put(key, b"1", owner=key[:20])
    store.put(key + "x" if len(key) < 200 else key[1:], b"2", owner=key[:20])
    assert store.get(key, owner=key[:20]).data == b"1"
    assert key in [entry.key for entry in store.list(owner=key[:20])]


@pytest.mark.parametrize("key", ["", "x" * 257, "a\nb", "a\0b", "\ud800", None, 7])
def test_what_is_no_key_is_refused(store: Store, key: str) -> None:
    with pytest.raises(RequestError):
        store.put(key, b"", owner=ME)
    with pytest.raises(RequestError):
        store.get("k", owner=key)


def test_what_is_not_there_is_unknown(store: Store) -> None:
    for look in (store.get, store.head):
        with pytest.raises(UnknownEntryError):
            look("nothing", owner=ME)
    assert not store.delete("nothing", owner=ME)
    assert store.list(owner=ME) == []


def test_a_later_put_replaces_and_has_another_version(store: Store) -> None:
    first = store.put("k", LARGE, owner=ME)
    second = store.put("k", b"small now", owner=ME)
    third = store.put("k", b"small now", owner=ME)
    assert len({first.version, second.version, third.version}) == 3
    assert store.get("k", owner=ME).data == b"small now"
    assert len(store.list(owner=ME)) == 1


def test_what_was_deleted_is_gone(store: Store) -> None:
    store.put("k", LARGE, owner=ME)
    assert store.delete("k", owner=ME)
    assert not store.delete("k", owner=ME)
    with pytest.raises(UnknownEntryError):
        store.get("k", owner=ME)


def test_a_value_is_there_for_whoever_opens_the_store_next(opener: Opener) -> None:
    with opener() as first:
        entry = first.put("k", LARGE, owner=ME, ttl=60)
    with opener() as second:
        assert second.get("k", owner=ME).data == LARGE
        assert second.head("k", owner=ME) == entry


def test_the_list_is_sorted_and_can_be_narrowed(store: Store) -> None:
    for key in ("b/2", "a/1", "b/1", "b_", "bé"):
        store.put(key, key.encode(), owner=ME)
    assert [entry.key for entry in store.list(owner=ME)] == sorted(["b/2", "a/1", "b/1", "b_", "bé"])
    assert [entry.key for entry in store.list(owner=ME, prefix="b/")] == ["b/1", "b/2"]
    assert [entry.key for entry in store.list(owner=ME, prefix="b%")] == []


# -- owners ------------------------------------------------------------------------------------


def test_owners_do_not_see_each_other(store: Store) -> None:
    store.put("k", b"mine", owner=ME)
    store.put("k", b"theirs", owner=OTHER)
    assert store.get("k", owner=ME).data == b"mine"
    assert store.delete("k", owner=ME)
    assert store.get("k", owner=OTHER).data == b"theirs"
    assert store.list(owner=ME) == []


def test_an_owner_whose_name_begins_like_anothers_sees_nothing_of_it(store: Store) -> None:
    store.put("k", b"1", owner="ab")
    assert store.list(owner="a") == []
    assert store.usage(owner="a") == Held(0, 0)
    store.put("b/k", b"2", owner="a")
    assert store.get("k", owner="ab").data == b"1"


def test_the_version_of_another_owner_opens_nothing(store: Store) -> None:
    theirs = store.put("k", b"theirs", owner=OTHER)
    with pytest.raises(ConflictError):
        store.put("k", b"x", owner=ME, if_match=theirs.version)


def test_equal_content_of_two_owners_is_kept_twice(store: Store) -> None:
    store.put("k", LARGE, owner=ME)
    store.put("k", LARGE, owner=OTHER)
    store.delete("k", owner=ME)
    store.collect()
    assert store.get("k", owner=OTHER).data == LARGE


def test_equal_content_under_two_keys_outlives_one_of_them(store: Store) -> None:
    store.put("a", LARGE, owner=ME)
    store.put("b", LARGE, owner=ME)
    store.delete("a", owner=ME)
    store.collect()
    assert store.get("b", owner=ME).data == LARGE


# -- compare and set ---------------------------------------------------------------------------


def test_a_write_that_has_not_seen_the_last_version_is_refused(store: Store) -> None:
    seen = store.put("k", b"1", owner=ME)
    newer = store.put("k", b"2", owner=ME, if_match=seen.version)
    with pytest.raises(ConflictError) as caught:
        store.put("k", b"3", owner=ME, if_match=seen.version)
    assert (caught.value.expected, caught.value.found) == (seen.version, newer.version)
    assert store.get("k", owner=ME).data == b"2"


def test_a_large_write_that_is_refused_leaves_what_was_there(store: Store) -> None:
    seen = store.put("k", LARGE, owner=ME)
    newer = store.put("k", LARGE[::-1], owner=ME)
    with pytest.raises(ConflictError):
        store.put("k", LARGE + b"!", owner=ME, if_match=seen.version)
    assert store.get("k", owner=ME).data == LARGE[::-1]
    assert store.head("k", owner=ME) == newer


def test_create_happens_only_where_nothing_is(store: Store) -> None:
    store.put("k", b"1", owner=ME, if_none_match=True)
    with pytest.raises(ConflictError, match="already"):
        store.put("k", b"2", owner=ME, if_none_match=True)
    assert store.get("k", owner=ME).data == b"1"


def test_a_change_to_what_is_gone_is_refused(store: Store) -> None:
    seen = store.put("k", b"1", owner=ME)
    store.delete("k", owner=ME)
    with pytest.raises(ConflictError, match="gone"):
        store.put("k", b"2", owner=ME, if_match=seen.version)


def test_a_delete_that_has_not_seen_the_last_version_is_refused(store: Store) -> None:
    seen = store.put("k", b"1", owner=ME)
    newer = store.put("k", b"2", owner=ME)
    with pytest.raises(ConflictError):
        store.delete("k", owner=ME, if_match=seen.version)
    assert store.get("k", owner=ME).data == b"2"
    assert store.delete("k", owner=ME, if_match=newer.version)
    assert store.list(owner=ME) == []


def test_what_was_deleted_on_condition_can_be_created_anew(store: Store) -> None:
    seen = store.put("k", b"1", owner=ME)
    store.delete("k", owner=ME, if_match=seen.version)
    store.put("k", b"2", owner=ME, if_none_match=True)
    assert store.get("k", owner=ME).data == b"2"


@pytest.mark.parametrize("version", ["", "\ud800", b"1", 1])
def test_a_condition_that_is_no_version_is_refused_and_not_passed_over(store: Store, version: Any) -> None:
    store.put("k", b"1", owner=ME)
    with pytest.raises(RequestError, match="if_match"):
        store.put("k", b"2", owner=ME, if_match=version)
    with pytest.raises(RequestError, match="if_match"):
        store.delete("k", owner=ME, if_match=version)
    assert store.get("k", owner=ME).data == b"1"


@pytest.mark.parametrize("data", ["text", 5, [1, 2], None])
def test_what_is_not_bytes_is_refused(store: Store, data: Any) -> None:
    with pytest.raises(RequestError, match="bytes"):
        store.put("k", data, owner=ME)


def test_a_beginning_that_no_key_has_is_refused(store: Store) -> None:
    with pytest.raises(RequestError, match="UTF-8"):
        store.list(owner=ME, prefix="\ud800")


def test_conditions_exclude_each_other(store: Store) -> None:
    with pytest.raises(RequestError, match="exclude"):
        store.put("k", b"", owner=ME, if_match="v", if_none_match=True)


def test_no_update_of_many_writers_is_lost(opener: Opener) -> None:
    """Each adds one, reading again after every conflict: the sum tells."""
    writers, rounds = 4, 5
    with opener() as store:
        store.put("sum", b"0", owner=ME)

    def add() -> None:
        with opener() as mine:
            for _ in range(rounds):
                while True:
                    seen = mine.get("sum", owner=ME)
                    try:
                        mine.put("sum", str(int(seen.data) + 1).encode(), owner=ME, if_match=seen.entry.version)
                        break
                    except ConflictError:
                        continue

    threads = [threading.Thread(target=add) for _ in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with opener() as store:
        assert store.get("sum", owner=ME).data == str(writers * rounds).encode()


def test_of_many_that_create_one_wins(opener: Opener) -> None:
    won: list[int] = []
    start = threading.Barrier(4)

    def create(number: int) -> None:
        with opener() as mine:
            start.wait()
            try:
                mine.put("k", LARGE + bytes([number]), owner=ME, if_none_match=True)
                won.append(number)
            except ConflictError:
                pass

    threads = [threading.Thread(target=create, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with opener() as store:
        assert [store.get("k", owner=ME).data[-1]] == won


# -- expiry ------------------------------------------------------------------------------------


def test_what_has_expired_is_as_good_as_gone(store: Store, time: Time) -> None:
    store.put("k", b"1", owner=ME, ttl=10)
    time.now += 9.9
    assert store.get("k", owner=ME).data == b"1"
    time.now += 0.2
    for look in (store.get, store.head):
        with pytest.raises(UnknownEntryError):
            look("k", owner=ME)
    assert store.list(owner=ME) == []
    assert store.usage(owner=ME) == Held(0, 0)
    assert not store.delete("k", owner=ME)


def test_each_write_sets_the_expiry_anew(store: Store, time: Time) -> None:
    store.put("k", b"1", owner=ME, ttl=10)
    store.put("k", b"2", owner=ME)
    time.now += 1000
    store.collect()
    assert store.get("k", owner=ME).data == b"2"


def test_what_has_expired_is_neither_changed_nor_in_the_way(store: Store, time: Time) -> None:
    seen = store.put("k", b"1", owner=ME, ttl=10)
    time.now += 11
    with pytest.raises(ConflictError):
        store.put("k", b"2", owner=ME, if_match=seen.version)
    with pytest.raises(ConflictError):
        store.delete("k", owner=ME, if_match=seen.version)
    store.put("k", b"3", owner=ME, if_none_match=True)
    assert store.get("k", owner=ME).data == b"3"


@pytest.mark.parametrize("ttl", [0, -1, float("nan"), float("inf"), 10**400, True, "5"])
def test_a_time_to_live_that_is_none_is_refused(store: Store, ttl: Any) -> None:
    with pytest.raises(RequestError, match="ttl"):
        store.put("k", b"", owner=ME, ttl=ttl)


def test_collecting_removes_what_has_expired_and_nothing_else(store: Store, time: Time) -> None:
    store.put("old", LARGE, owner=ME, ttl=10)
    store.put("old too", b"1", owner=OTHER, ttl=10)
    store.put("young", LARGE, owner=OTHER, ttl=100)
    store.put("for ever", b"1", owner=ME)
    time.now += 11
    done = store.collect()
    assert (done.entries, done.leftovers) == (2, 0)
    assert done.freed_bytes == len(LARGE) + 1
    assert store.collect().entries == 0
    assert store.get("young", owner=OTHER).data == LARGE
    assert store.get("for ever", owner=ME).data == b"1"


# -- quota -------------------------------------------------------------------------------------


def test_the_usage_counts_bytes_and_entries_of_one_owner(store: Store) -> None:
    store.put("a", b"12345", owner=ME)
    store.put("b", LARGE, owner=ME)
    store.put("b", b"123", owner=ME)
    store.put("c", b"x", owner=OTHER)
    assert store.usage(owner=ME) == Held(8, 2)


def test_more_bytes_than_the_quota_are_refused_with_figures(opener: Opener) -> None:
    with opener(quota=Quota(total_bytes=1000)) as store:
        store.put("a", bytes(600), owner=ME)
        with pytest.raises(QuotaError, match=r"600 bytes.*500 more.*1000") as caught:
            store.put("b", bytes(500), owner=ME)
        assert caught.value.quota == "total_bytes"
        store.put("a", bytes(1000), owner=ME)  # what it replaces does not count
        store.put("b", bytes(500), owner=OTHER)
        assert store.usage(owner=ME) == Held(1000, 1)


def test_more_entries_than_the_quota_are_refused_with_figures(opener: Opener, time: Time) -> None:
    with opener(quota=Quota(entries=2)) as store:
        store.put("a", b"", owner=ME, ttl=10)
        store.put("b", b"", owner=ME)
        with pytest.raises(QuotaError, match=r"2 entries; 2 are allowed") as caught:
            store.put("c", b"", owner=ME)
        assert caught.value.quota == "entries"
        store.put("b", b"again", owner=ME)
        time.now += 11
        store.put("c", b"in the place of what has expired", owner=ME)


def test_one_entry_that_is_too_large_is_refused_with_figures(opener: Opener) -> None:
    with opener(quota=Quota(entry_bytes=10)) as store, pytest.raises(QuotaError, match=r"11 bytes.*10"):
        store.put("a", bytes(11), owner=ME)


def test_a_deleted_entry_makes_room(opener: Opener) -> None:
    with opener(quota=Quota(total_bytes=LARGE.__len__(), entries=1)) as store:
        seen = store.put("a", LARGE, owner=ME)
        store.delete("a", owner=ME, if_match=seen.version)
        store.put("b", LARGE, owner=ME)
        assert store.usage(owner=ME) == Held(len(LARGE), 1)
