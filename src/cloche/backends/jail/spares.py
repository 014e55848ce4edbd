"""Sessions made ahead: jailed, warm, never used, so that the next caller need not wait for one."""

from __future__ import annotations

import math
import select
import threading
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

from cloche.backends.jail.cgroups import Limits
from cloche.backends.jail.channel import JailChannel
from cloche.backends.jail.seat import Seat
from cloche.errors import ClocheError
from cloche.session.callback_threads import threads
from cloche.session.chores import chores

if TYPE_CHECKING:
    from cloche.backends.jail.broker import Broker

MOST = 8
"""Of one kind. Each has a few megabytes of its own."""
MOST_OF_ALL = 16
KINDS = 4
"""Of seats for which one broker keeps spares."""
BREATH = 0.02
"""Whoever has just claimed is about to use it: the making of another must not get in the way..."""
LONGEST_BREATH = 0.25
"""... but claims that follow each other without end must not put it off for ever."""
WINDOW = 2.0
"""Seconds in which the claims are counted that come together: as many spares are kept."""
HALF_LIFE = 15.0
"""Seconds of quiet after which half as many are enough."""
LEAST = 0.01
"""Below this level (some 100 s after a single claim) none is kept."""

Spare = tuple[Seat, JailChannel]


class Demand:
    """How many are wanted: as many as lately came at a time, fading while none come."""

    def __init__(self) -> None:
        self._level = 0.0
        self._at = 0.0
        self._recent: deque[float] = deque(maxlen=MOST)

    def note(self, now: float) -> None:
        """One more was asked for."""
        self._recent.append(now)
        while now - self._recent[0] > WINDOW:
            self._recent.popleft()
        self._level, self._at = max(self._faded(now), float(len(self._recent))), now

    def copy(self) -> Demand:
        """For those who take over."""
        other = Demand()
        other._level, other._at = self._level, self._at
        return other

    def _faded(self, now: float) -> float:
        return self._level * math.pow(0.5, (now - self._at) / HALF_LIFE)

    def wanted(self, now: float) -> int:
        """How many to have ready."""
        level = self._faded(now)
        return 0 if level < LEAST else max(1, min(MOST, round(level)))


class Spares:
    """The spares of one broker and one kind of seat. None ever serves twice, and none that has died serves at all."""

    _all = 0  # kept in this process, of every kind
    _count = threading.Lock()

    def __init__(self, broker: Broker, options: dict[str, Any]) -> None:
        self._broker = broker
        self.options = options
        self.limits = Limits()
        """Of the last claim: most are alike, and then nothing is left to set."""
        self._lock = threading.Lock()
        self._ready: list[Spare] = []
        self.demand = Demand()
        self._turn = 0  # of being tended: an older one that is still to come does nothing
        self._due = math.inf
        self._last_claim = time.monotonic()
        self._put_off_since = math.inf
        self._closed = False

    @property
    def last_claim(self) -> float:
        """When one was last asked for."""
        return self._last_claim

    def claim(self, limits: Limits, *, at_once: bool = False) -> Spare | None:
        """A spare, or None when there is none; either way more are made in the background. `at_once`: whoever finds
        none comes again for the same session, and is counted then."""
        now = time.monotonic()
        with self._lock:
            if at_once and not self._ready:
                return None
            self.limits = limits
            self.demand.note(now)
            self._last_claim = now
            spare = self._take()
            if self._due > now + BREATH:
                self._schedule(BREATH)
        if spare is not None:
            spare[0].limit(limits)
        return spare

    def _schedule(self, delay: float) -> None:
        """Caller holds the lock."""
        if not self._closed:
            self._turn += 1
            self._due = time.monotonic() + delay
            chores.after(delay, partial(self._tend, self._turn))

    def _take(self) -> Spare | None:
        """The oldest that lives: it has had the most time to come to rest."""
        while self._ready:
            spare = self._ready.pop(0)
            with Spares._count:
                Spares._all -= 1
            if _lives(spare):
                return spare
            threads.run(partial(_discard, spare))
        return None

    def _tend(self, turn: int) -> None:
        """Make one that is missing or end those that are too many, and see to it again as long as there are any."""
        now = time.monotonic()
        with self._lock:
            if turn != self._turn or self._closed:
                return
            self._due = math.inf
            wanted = self.demand.wanted(now)
            surplus = self._ready[wanted:]
            del self._ready[wanted:]
            with Spares._count:
                Spares._all -= len(surplus)
            lacking = len(self._ready) < wanted
            put_off = lacking and now - self._last_claim < BREATH and now - self._put_off_since < LONGEST_BREATH
            self._put_off_since = min(self._put_off_since, now) if put_off else math.inf
        for spare in surplus:
            _discard(spare)
        more = lacking and (put_off or self._add())
        with self._lock:
            if turn == self._turn and (more or self._ready):
                self._schedule(BREATH if put_off else 0.0 if more else HALF_LIFE)

    def prefill(self, other: Spares) -> None:
        """Be wanted as those were, and have as many, now."""
        self.demand, self.limits = other.demand.copy(), other.limits
        while len(self._ready) < self.demand.wanted(time.monotonic()) and self._add():
            pass
        with self._lock:
            if self._ready:
                self._schedule(HALF_LIFE)

    def _add(self) -> bool:
        """Make one more; whether there is room for it and it came up."""
        with Spares._count:
            if Spares._all >= MOST_OF_ALL:
                return False
            Spares._all += 1
        spare = self._make()
        with self._lock:
            kept = spare is not None and not self._closed
            if kept and spare is not None:
                self._ready.append(spare)
        if not kept:
            with Spares._count:
                Spares._all -= 1
            if spare is not None:
                _discard(spare)
        return kept

    def _make(self) -> Spare | None:
        try:
            seat = Seat(self._broker, None, self.limits)
        except (OSError, ClocheError):  # no descriptors left, no cgroup: those who ask for a session will be told
            return None
        try:
            channel = JailChannel.start(seat, {**self.options, "ahead": True})
        except (OSError, ClocheError):
            seat.close()
            return None
        try:
            seat.answer()
            channel.pid  # noqa: B018 - looked up now, so that whoever claims it need not
            if seat.group is not None:
                seat.group.gauges.open_all()
        except ClocheError:  # the jail ended meanwhile
            _discard((seat, channel))
            return None
        return seat, channel

    def close(self) -> None:
        """End those that were never claimed."""
        with self._lock:
            self._closed = True
            spares, self._ready = self._ready, []
            with Spares._count:
                Spares._all -= len(spares)
        for spare in spares:
            _discard(spare)

    @classmethod
    def forget_all(cls) -> None:
        """In a forked child: what was kept is the parent's."""
        cls._all, cls._count = 0, threading.Lock()


class Stock:
    """All spares of one broker, by the kind of their seats."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._lock = threading.Lock()
        self._kinds: dict[str, Spares] = {}
        self._closed = False

    def claim(self, options: dict[str, Any], limits: Limits, *, at_once: bool = False) -> Spare | None:
        """A session made ahead for these options, if there is one, within these limits."""
        if not self._broker.ready:
            self._broker.look(0)
        if not self._broker.ready:
            return None  # its imports come first
        spares = self._of(options)
        return None if spares is None else spares.claim(limits, at_once=at_once)

    def take_after(self, other: Stock) -> None:
        """Have what that one has: whoever comes next is to find no difference."""
        for theirs in list(other._kinds.values()):
            if "template" in theirs.options:
                continue  # of the other jail
            spares = self._of(theirs.options)
            if spares is not None:
                spares.prefill(theirs)

    def _of(self, options: dict[str, Any]) -> Spares | None:
        """Those of one kind. What was not asked for lately makes room for others."""
        key = repr(options)
        found = self._kinds.get(key)
        if found is None:
            with self._lock:
                if self._closed:
                    return None
                found = self._kinds.setdefault(key, Spares(self._broker, options))
                if len(self._kinds) > KINDS:
                    oldest = min(self._kinds, key=lambda each: self._kinds[each].last_claim)
                    threads.run(self._kinds.pop(oldest).close)
        return found

    def drop_kinds(self, template: int) -> None:
        """Those of a template that is not there any more."""
        with self._lock:
            dropped = [key for key, spares in self._kinds.items() if spares.options.get("template") == template]
            kinds = [self._kinds.pop(key) for key in dropped]
        for spares in kinds:
            spares.close()

    def close(self) -> None:
        """End them all, and keep none from now on."""
        with self._lock:
            self._closed = True
            kinds, self._kinds = self._kinds, {}
        for spares in kinds.values():
            spares.close()


def _lives(spare: Spare) -> bool:
    """Whether neither the worker nor its PID 1 has ended."""
    seat, channel = spare
    poll = select.poll()
    poll.register(channel.handle(), select.POLLIN)
    poll.register(seat.answer().seat, select.POLLIN)
    return not poll.poll(0)


def _discard(spare: Spare) -> None:
    seat, channel = spare
    channel.close()
    seat.close()
