"""Sessions made ahead: jailed, warm, never used, so that the next caller need not wait for one."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from cloche.backends.jail.cgroups import Limits
from cloche.backends.jail.channel import JailChannel
from cloche.backends.jail.seat import Seat
from cloche.errors import ClocheError
from cloche.session.callback_threads import threads

if TYPE_CHECKING:
    from cloche.backends.jail.broker import Broker

MOST = 8
BREATH = 0.02
"""Whoever has just claimed is about to use it: the making of another must not get in the way."""
QUIET = 30.0
"""Seconds without a claim after which one spare is enough."""


class Spares:
    """The spares of one broker. How many are kept follows how often they are wanted. None ever serves twice."""

    def __init__(self, broker: Broker, options: dict[str, Any]) -> None:
        self._broker = broker
        self._options = options
        self._limits = Limits()  # of the last claim: most are alike, and then nothing is left to set
        self._lock = threading.Lock()
        self._ready: list[tuple[Seat, JailChannel]] = []
        self._wanted = 1
        self._last_claim = time.monotonic()
        self._refilling = False
        self._closed = False

    def claim(self, limits: Limits) -> tuple[Seat, JailChannel] | None:
        """A spare, or None when there is none; either way more are made in the background."""
        now = time.monotonic()
        with self._lock:
            self._limits = limits
            if now - self._last_claim > QUIET:
                self._wanted = 1
            self._last_claim = now
            spare = self._ready.pop() if self._ready else None
            if spare is None:
                self._wanted = min(self._wanted * 2, MOST)
            start = not self._refilling and not self._closed
            self._refilling = self._refilling or start
        if start:
            threads.run(self._refill)
        if spare is not None:
            spare[0].limit(limits)
        return spare

    def _refill(self) -> None:
        time.sleep(BREATH)
        while True:
            with self._lock:
                if len(self._ready) >= self._wanted or self._closed or not self._broker.alive:
                    self._refilling = False
                    return
            spare = self._make()
            if spare is None:
                with self._lock:
                    self._refilling = False
                return
            if not self._keep(spare):
                _discard(spare)

    def _make(self) -> tuple[Seat, JailChannel] | None:
        try:
            seat = Seat(self._broker, None, self._limits)
        except ClocheError:
            return None
        try:
            channel = JailChannel.start(seat, self._options)
        except (OSError, ClocheError):
            seat.close()
            return None
        try:
            seat.answer()
            channel.pid  # noqa: B018 - looked up now, so that whoever claims it need not
        except ClocheError:  # the jail ended meanwhile
            _discard((seat, channel))
            return None
        return seat, channel

    def _keep(self, spare: tuple[Seat, JailChannel]) -> bool:
        with self._lock:
            if not self._closed:
                self._ready.append(spare)
            return not self._closed

    def close(self) -> None:
        """End those that were never claimed."""
        with self._lock:
            self._closed = True
            spares, self._ready = self._ready, []
        for spare in spares:
            _discard(spare)


def _discard(spare: tuple[Seat, JailChannel]) -> None:
    seat, channel = spare
    channel.close()
    seat.close()
