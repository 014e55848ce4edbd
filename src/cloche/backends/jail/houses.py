"""The jails of this process, by interpreter and set of modules: which serves, which is to come, which goes."""

from __future__ import annotations

import atexit
import os
import threading
import time
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from cloche.backends.jail.broker import IMPORT_PATIENCE, Broker
from cloche.backends.jail.grounds import grounds
from cloche.backends.jail.spares import Spares, Stock
from cloche.backends.jail.templates import Templates
from cloche.backends.jail.tiers import Mode
from cloche.backends.jail.upkeep import LAYER, upkeep
from cloche.errors import StartError
from cloche.isolation import masked_layers
from cloche.logger import SandboxLogger
from cloche.session.callback_threads import threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from cloche.backends.interpreter import Interpreter

SCIENTIFIC = (
    "numpy", "pandas", "scipy", "scipy.stats", "sklearn", "matplotlib", "matplotlib.pyplot", "seaborn",
    "statsmodels.api",
)  # fmt: skip
"""What is imported ahead when a policy does not say; what is not installed is left out."""
NOT_INSTALLED = "not installed"
SESSIONS = 1000
"""From one zygote. Its children share its hash seed and memory layout: what one of them finds out should not be worth
much to the next."""
RETRY = 30.0
"""Seconds after a jail that did not come up before the next one is tried; meanwhile a bare one serves."""


class House:
    """The jails of one interpreter and one set of modules.

    One serves. When it has served long enough, or a package was installed or removed, another one is prepared in the
    background and takes over when it is ready; the old one ends with its last session. Nobody waits for imports.
    """

    def __init__(self, preload: tuple[str, ...], mode: Mode) -> None:
        self.preload = preload
        self._mode = mode
        self.asked = 0
        self.stand_in: Callable[[], Broker | None] = lambda: None
        """Finds the jail that serves while there is none here."""
        self.left_out: dict[str, str] = {}
        """What could not be imported, and why."""
        self._lock = threading.Lock()
        self.serving: Broker | None = None
        self._coming: Broker | None = None
        self._leaving: list[Broker] = []
        self._settled = threading.Event()  # nothing is being prepared
        self._settled.set()
        self._not_before = 0.0
        self._closed = False

    @contextmanager
    def lease(self, interpreter: Interpreter, *, at_once: bool = False) -> Iterator[Broker | None]:
        """The jail to ask, kept while the caller makes a seat in it; an outdated one serves until it is replaced.

        None while the first one is still importing. `at_once`: never, one that is just starting will do.
        """
        with self._lock:
            broker = self.serving
            if broker is not None and not broker.alive:
                threads.run(broker.close)  # its sessions find out by themselves
                self.serving = broker = None
            if broker is None and at_once:
                self.serving = broker = _start(interpreter, self.preload, self._mode)
            outdated = broker is None or broker.interpreter is not interpreter or broker.sessions >= SESSIONS
            if outdated and self._settled.is_set() and not self._closed and time.monotonic() >= self._not_before:
                self._settled.clear()
                threads.run(partial(self._prepare, interpreter))
            if broker is not None:
                broker.hold()
        try:
            yield broker
        finally:
            if broker is not None:
                broker.let_go()

    def warm(self, interpreter: Interpreter) -> bool:
        """Wait until nothing is being prepared any more; whether there is one that serves."""
        with self.lease(interpreter):
            pass  # which starts one where there is none
        self._settled.wait(IMPORT_PATIENCE * (1 + len(self.preload)))
        return self.serving is not None

    def _prepare(self, interpreter: Interpreter) -> None:
        """In a thread of its own: the next jail, from its start until it serves."""
        try:
            broker, left_out = self._raise(interpreter)
        except (StartError, OSError):
            self._not_before = time.monotonic() + RETRY
            self._coming = None
        else:
            served = self.serving or self.stand_in()
            if served is not None and served.stock is not None and broker.stock is not None:
                broker.stock.take_after(served.stock)
            with self._lock:
                self._coming = None
                old = broker if self._closed else self.serving
                if not self._closed:
                    self.serving, self.left_out = broker, left_out
                self._leaving = [each for each in (*self._leaving, old) if each is not None and each.alive]
            if old is not None:
                old.retire()
            self._tell()
        finally:
            self._settled.set()

    def _tell(self) -> None:
        """Say what is not there: a set that was asked for by name is meant to be whole, of the default one only what
        is installed and does not work is worth a word."""
        for name, why in self.left_out.items():
            if self.preload != SCIENTIFIC or why != NOT_INSTALLED:
                SandboxLogger().sink.warning("preload.left_out", module=name, reason=why)

    def _raise(self, interpreter: Interpreter) -> tuple[Broker, dict[str, str]]:
        """A jail that is ready. A module that ends the zygote, hangs it or leaves threads in it is left out."""
        left_out: dict[str, str] = {}
        while True:
            broker = _start(interpreter, [name for name in self.preload if name not in left_out], self._mode)
            with self._lock:
                self._coming = broker
                closed = self._closed
            try:
                if closed:
                    raise StartError("closed")
                broker.wait_ready()
            except StartError as exc:
                broker.close()
                if broker.importing is None or self._closed:
                    raise
                left_out[broker.importing] = exc.cause or "its import does not return"
            else:
                return broker, left_out | broker.left_out

    def _brokers(self) -> list[Broker]:
        return [*filter(None, (self.serving, self._coming)), *self._leaving]

    def leave(self) -> None:
        """In a forked child."""
        for broker in self._brokers():
            broker.leave()

    def close(self) -> None:
        """End all of its jails, and all sessions in them."""
        with self._lock:
            self._closed = True
            brokers = self._brokers()
        for broker in brokers:
            broker.close()


def _start(interpreter: Interpreter, preload: Sequence[str], mode: Mode) -> Broker:
    broker = Broker(interpreter, preload, mode)
    broker.stock = Stock(broker)
    if mode is Mode.SEALED:  # elsewhere processes of one user could be told apart by their rules alone
        broker.templates = Templates(broker)
    return broker


class Houses:
    """All of this process. A forked child has none of its parent's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[tuple[str, int, tuple[str, ...], Mode, bool], House] = {}
        os.register_at_fork(after_in_child=self._forget)

    @contextmanager
    def lease(self, interpreter: Interpreter, preload: tuple[str, ...], mode: Mode = Mode.SEALED) -> Iterator[Broker]:
        """The jail to ask. The first session of a process never waits for imports, nor competes with them."""
        with ExitStack() as leases:
            broker = None
            house = self._house(interpreter, preload, mode)
            house.asked += 1
            if preload and house.asked > 1:
                broker = leases.enter_context(house.lease(interpreter))
            if broker is None:
                bare = self._house(interpreter, (), mode)
                broker = leases.enter_context(bare.lease(interpreter, at_once=True))
            assert broker is not None
            yield broker

    def trial(self, interpreter: Interpreter) -> None:
        """Start a jail and wait for it; it is the one that the first session will use."""
        with self.lease(interpreter, ()) as broker:
            broker.wait_ready()

    def warm(self, interpreter: Interpreter, preload: tuple[str, ...], mode: Mode = Mode.SEALED) -> House:
        """Wait for the imports of a set: for those who want to know how they went, or to start warm."""
        house = self._house(interpreter, preload, mode)
        house.asked += 1
        house.warm(interpreter)
        return house

    def _house(self, interpreter: Interpreter, preload: tuple[str, ...], mode: Mode) -> House:
        key = (interpreter.executable, os.getuid(), preload, mode, LAYER in masked_layers())
        with self._lock:
            house = self._found.get(key)
            if house is None:
                house = self._found[key] = House(preload, mode)
                if preload:
                    bare = self._found.setdefault((*key[:2], (), *key[3:]), House((), mode))
                    house.stand_in = lambda: bare.serving
            return house

    def close(self) -> None:
        """End all jails of this process."""
        with self._lock:
            found, self._found = self._found, {}
        for house in found.values():
            house.close()
        grounds.close()
        upkeep.close()

    def _forget(self) -> None:
        """A forked child must not keep its parent's jails alive, nor use them."""
        self._lock = threading.Lock()
        found, self._found = self._found, {}
        for house in found.values():
            house.leave()
        Spares.forget_all()


houses = Houses()
atexit.register(houses.close)
