"""An event loop for walls without sockets and threads: nothing ever comes from outside, so it only runs and sleeps."""

from __future__ import annotations

import asyncio
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DAY = 86_400.0


class _Nothing:
    """In place of a selector: there are no descriptors to wait for."""

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None or timeout > 0:
            time.sleep(DAY if timeout is None else timeout)
        return []

    def close(self) -> None:
        """Nothing to release."""


class IdleLoop(asyncio.BaseEventLoop):
    """Runs tasks and timers."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = _Nothing()

    def _process_events(self, event_list: list[Any]) -> None:
        """None come."""

    def _write_to_self(self) -> None:
        """There is no other thread that could wake us."""


def use_idle_loop() -> None:
    """Make it what `asyncio.run`, `asyncio.new_event_loop` and the kernel use."""

    class Policy(asyncio.events._BaseDefaultEventLoopPolicy):  # type: ignore[misc,name-defined]  # since 3.14
        _loop_factory = IdleLoop

    asyncio.events._set_event_loop_policy(Policy())  # type: ignore[attr-defined]  # since 3.14
    asyncio._set_running_loop(None)  # one of a browser's is always running
