"""Waiting, where only the host can wait, and be woken: `time.sleep`, and locks."""

from __future__ import annotations

from cloche_guest.signals import safe_point

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

LONGEST = 3600.0


def make_sleep(pause: Callable[[float], float]) -> Callable[[Any], None]:
    """A `time.sleep` that the host can cut short."""

    def sleep(seconds: Any, /) -> None:
        """Delay execution for a given number of seconds, which may be a fraction."""
        left = _number_of_seconds(seconds)
        while True:
            left = pause(left)
            safe_point()
            if left <= 0.0:
                return

    sleep.__qualname__ = "sleep"
    sleep.__module__ = "time"
    return sleep


def _number_of_seconds(seconds: Any) -> float:
    if isinstance(seconds, str):
        raise TypeError("'str' object cannot be interpreted as an integer")
    amount = float(seconds)
    if amount != amount:
        raise ValueError("Invalid value NaN (not a number)")
    if amount < 0.0:
        raise ValueError("sleep length must be non-negative")
    if amount > 9e9:
        raise OverflowError("timestamp too large to convert to C PyTime_t")
    return amount


def use_patient_locks() -> None:
    """Locks that wait as `time.sleep` does; the interpreter's own would end the whole session.

    Nobody is there to release one: a wait ends by its time-out or from outside.
    """
    import _thread
    import threading
    import time

    allocate = _thread.allocate_lock

    class lock:  # noqa: N801 - the name that users see
        """A lock object is a synchronization primitive."""

        __slots__ = ("__weakref__", "_lock", "locked", "release")

        def __init__(self) -> None:
            self._lock = allocate()
            self.locked, self.release = self._lock.locked, self._lock.release

        def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
            """Lock the lock; whether that was possible in time."""
            if self._lock.acquire(False):
                return True
            if not blocking:
                if timeout != -1:
                    raise ValueError("can't specify a timeout for a non-blocking call")
                return False
            if timeout < 0 and timeout != -1:
                raise ValueError("timeout value must be a non-negative number")
            until = time.monotonic() + (LONGEST * 1e6 if timeout == -1 else timeout)
            while (left := until - time.monotonic()) > 0:
                time.sleep(min(left, LONGEST))
                if self._lock.acquire(False):  # by a handler of a signal
                    return True
            return False

        def __enter__(self) -> bool:
            return self.acquire()

        def __exit__(self, *trouble: object) -> None:
            self.release()

        def __repr__(self) -> str:
            return "<%s _thread.lock object at %#x>" % ("locked" if self.locked() else "unlocked", id(self))

    lock.__module__, lock.__qualname__ = "_thread", "lock"
    modules: tuple[Any, ...] = (_thread, threading)
    for module, names in zip(modules, (("allocate_lock", "allocate", "lock"), ("Lock", "_allocate_lock"))):
        for name in names:
            setattr(module, name, lock)
