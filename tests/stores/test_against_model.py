"""Any order of operations gives on every store what it gives on a dictionary."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from tests.stores.conftest import Time

from cloche.errors import ConflictError, UnknownEntryError
from cloche.stores import Held, Store

STEPS = 150
OWNERS, KEYS = ("ann", "bob"), ("a", "b/1", "b/2")
SIZES = (0, 10, 40_000, 70_000)
ACTIONS = ("put", "swap", "create", "delete", "drop", "get", "list", "wait", "collect")


@dataclass
class Model:
    """A store and the dictionary that it is to be: (data, version, expiry) by owner and key."""

    store: Store
    time: Time
    chance: random.Random
    kept: dict[tuple[str, str], tuple[bytes, str, float]] = field(default_factory=dict)
    stale: str = "nothing"
    owner: str = ""
    key: str = ""

    def step(self) -> None:
        self.owner, self.key = self.chance.choice(OWNERS), self.chance.choice(KEYS)
        getattr(self, f"_{self.chance.choice(ACTIONS)}")()

    def _alive(self) -> dict[str, tuple[bytes, str, float]]:
        now = self.time.now
        return {key: it for (owner, key), it in self.kept.items() if owner == self.owner and it[2] > now}

    def _found(self) -> tuple[bytes, str, float] | None:
        return self._alive().get(self.key)

    def _some_version(self) -> str:
        found = self._found()
        return self.chance.choice([self.stale, self.stale if found is None else found[1]])

    def _write(self, allowed: bool, **conditions: Any) -> None:
        data, ttl = self.chance.randbytes(self.chance.choice(SIZES)), self.chance.choice([None, 5, 50])
        before = self._found()
        try:
            entry = self.store.put(self.key, data, owner=self.owner, ttl=ttl, **conditions)
        except ConflictError:
            assert not allowed
            return
        assert allowed
        self.stale = self.stale if before is None else before[1]
        self.kept[self.owner, self.key] = (data, entry.version, self.time.now + (ttl or 1e9))

    def _put(self) -> None:
        self._write(True)

    def _swap(self) -> None:
        version, found = self._some_version(), self._found()
        self._write(found is not None and found[1] == version, if_match=version)

    def _create(self) -> None:
        self._write(self._found() is None, if_none_match=True)

    def _delete(self) -> None:
        assert self.store.delete(self.key, owner=self.owner) == (self._found() is not None)
        self.kept.pop((self.owner, self.key), None)

    def _drop(self) -> None:
        version, found = self._some_version(), self._found()
        allowed = found is not None and found[1] == version
        try:
            self.store.delete(self.key, owner=self.owner, if_match=version)
        except ConflictError:
            assert not allowed
            return
        assert allowed
        del self.kept[self.owner, self.key]

    def _get(self) -> None:
        found = self._found()
        try:
            stored = self.store.get(self.key, owner=self.owner)
        except UnknownEntryError:
            assert found is None
            return
        assert found is not None
        assert (stored.data, stored.entry.version) == found[:2]

    def _list(self) -> None:
        alive = self._alive()
        listed = [(it.key, it.version) for it in self.store.list(owner=self.owner)]
        assert listed == [(key, alive[key][1]) for key in sorted(alive)]
        assert self.store.usage(owner=self.owner) == Held(sum(len(it[0]) for it in alive.values()), len(alive))

    def _wait(self) -> None:
        self.time.now += 3

    def _collect(self) -> None:
        self.store.collect()


def test_a_store_is_a_dictionary_with_versions_and_expiry(store: Store, time: Time) -> None:
    model = Model(store, time, random.Random(11))
    for _ in range(STEPS):
        model.step()
    assert len(model.kept) > 2, "something was kept at the end"
