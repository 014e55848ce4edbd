"""A host whose garbage is collected at every allocation, and inside every lock that Cloche takes.

Run as a program, with the name of a backend, `sync` or `async`, and how many locks to go on by. It drops sandboxes in
reference cycles and goes through the life of another one, once for each lock that such a life takes: in that lock the
collector finds what was dropped. Then again with a collection at every allocation. It prints how many locks there were.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Any

_make_lock = threading.Lock
MAX_LOCKS = 300


class Countdown:
    """Collects garbage in the lock whose turn it is."""

    def __init__(self) -> None:
        self.left = -1
        self.taken = 0

    def has_been_taken(self) -> None:
        self.taken += 1
        self.left -= 1
        if self.left == 0:
            gc.collect()


countdown = Countdown()


class CollectingLock:
    """A lock that tells when Cloche has taken it."""

    def __init__(self) -> None:
        self._lock = _make_lock()
        self._is_ours = str(sys._getframe(1).f_globals.get("__name__", "")).startswith("cloche")

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        taken = self._lock.acquire(blocking, timeout)
        if taken and self._is_ours:
            countdown.has_been_taken()
        return taken

    def release(self) -> None:
        self._lock.release()

    def locked(self) -> bool:
        return self._lock.locked()

    def _at_fork_reinit(self) -> None:
        self._lock = _make_lock()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


threading.Lock = CollectingLock  # type: ignore[assignment]  # before Cloche makes its own

import cloche  # noqa: E402 - see above


async def given(value: Any) -> Any:
    """What a call gives: the async API's is still to be awaited."""
    return await value if isinstance(value, Awaitable) else value


async def forget(make: Callable[[], Any]) -> None:
    forgotten = make()
    forgotten.itself = forgotten
    await given(forgotten.execute("x = 1"))


async def live(make: Callable[[], Any], can_fork: bool) -> None:
    sandbox = make()
    assert (await given(sandbox.execute("x = 2; x"))).value == "2"
    if can_fork:
        branch = await given(sandbox.fork())
        assert (await given(branch.execute("x"))).value == "2"
        await given(branch.destroy())
    sandbox.cancel()
    assert await given(sandbox.get_variable("x")) == 2
    await given(sandbox.destroy())


async def every_moment(make: Callable[[], Any], can_fork: bool, step: int) -> None:
    gc.disable()
    await live(make, can_fork)
    for turn in range(1, MAX_LOCKS, step):
        await forget(make)
        countdown.taken, countdown.left = 0, turn
        await live(make, can_fork)
        if countdown.left > 0:
            break
    print(turn, "locks", flush=True)
    gc.enable()
    gc.set_threshold(1, 1, 1)
    for _ in range(3):
        await forget(make)
        await live(make, can_fork)
    gc.set_threshold(700, 10, 10)


def main(backend: str, api: str, step: str) -> None:
    can_fork = "fork" in cloche.create_sandbox(backend=backend).capabilities
    if api == "sync":
        with contextlib.suppress(StopIteration):
            every_moment(lambda: cloche.create_sandbox(backend=backend), can_fork, int(step)).send(None)
    else:
        import anyio

        anyio.run(every_moment, lambda: cloche.create_async_sandbox(backend=backend), can_fork, int(step))
    print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
