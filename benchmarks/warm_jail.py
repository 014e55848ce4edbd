"""Jails for the rows that measure them: warm, without leftovers of another row, with spares or without."""

from __future__ import annotations

import importlib.util
import os
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from benchmarks.row import NotHere
from cloche import SessionSandbox, create_sandbox
from cloche.backends.interpreter import examine
from cloche.backends.jail import spares as keeping
from cloche.backends.jail.backend import JailBackend
from cloche.backends.jail.channel import JailChannel
from cloche.backends.jail.houses import SCIENTIFIC, houses

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloche.backends.jail.broker import Broker

PRELOAD = SCIENTIFIC
"""What the sessions find imported. Tests measure with less."""
CELL = "print('hi')"
PATIENCE = 60.0
_open = False


def jail_sandbox(**options: Any) -> SessionSandbox:
    """A sandbox whose first use takes a session from the warm jail."""
    if PRELOAD != SCIENTIFIC:
        options["preload"] = PRELOAD
    return create_sandbox(backend="jail", **options)


@contextmanager
def warm_jail(*, spares: bool = False) -> Iterator[None]:
    """A jail that has imported everything and has served nobody.

    Inside another one's block it is that one's jail, so that two contenders can be measured side by side.
    """
    global _open
    if _open:
        yield
        return
    with _keeping(spares=spares):
        require_jail()
        houses.close()
        _open = True
        try:
            serving()
            yield
        finally:
            _open = False
            houses.close()


def require_jail() -> None:
    """Raises `NotHere` where there can be no jail."""
    found = JailBackend.probe()
    if not found.available:
        raise NotHere(found.reason or "the jail does not start")


def fresh_jail_seconds() -> float:
    """From nothing to a jail that has imported everything; it is ended again."""
    houses.close()
    try:
        started = time.perf_counter()
        serving()
        return time.perf_counter() - started
    finally:
        houses.close()


def importable() -> list[str]:
    """The modules of the set that are installed, for peers that import the same."""
    return [name for name in PRELOAD if importlib.util.find_spec(name.partition(".")[0]) is not None]


def wait_for_spares() -> int:
    """Wait until as many are ready as the jail wants to have; how many that are."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        stock = serving().stock
        for kept in () if stock is None else list(stock._kinds.values()):
            ready = len(kept._ready)
            if ready >= kept.demand.wanted(time.monotonic()) > 0:
                return ready
        time.sleep(0.005)
    raise RuntimeError("the jail made no spares")


def processes_of(sandbox: SessionSandbox) -> tuple[int, int]:
    """(its worker, the PID 1 of its seat)."""
    guest = sandbox._session.guest
    channel = None if guest is None else guest.channel
    if not isinstance(channel, JailChannel) or channel.pid is None:
        raise RuntimeError("the session has ended")
    return channel.pid, _pid_behind(channel.seat.answer().seat)


def all_processes() -> list[int]:
    """Of the warm jail: its init, its zygote, templates, and those of all sessions."""
    with jail_sandbox() as any_session:
        worker, _ = processes_of(first_answer(any_session))
        parents = _parents()
        top = worker
        while parents[top] != os.getpid():
            top = parents[top]
    parents = _parents()
    found = {top}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found)


def _parents() -> dict[int, int]:
    """Who is whose child, of all processes."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError), open(f"/proc/{name}/stat", "rb") as stat:
                found[int(name)] = int(stat.read().rpartition(b")")[2].split()[1])
    return found


def first_answer(sandbox: SessionSandbox) -> SessionSandbox:
    """The same, when it has answered."""
    sandbox.execute(CELL).check()
    return sandbox


def serving() -> Broker:
    """The jail that new sessions come from."""
    house = houses.warm(examine(None, "jail"), PRELOAD)
    if house.serving is None:
        raise RuntimeError("the warm jail did not come up")
    return house.serving


def _pid_behind(handle: int) -> int:
    with open(f"/proc/self/fdinfo/{handle}") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("Pid:"))


@contextmanager
def _keeping(*, spares: bool) -> Iterator[None]:
    most = keeping.MOST_OF_ALL
    keeping.MOST_OF_ALL = most if spares else 0
    try:
        yield
    finally:
        keeping.MOST_OF_ALL = most
