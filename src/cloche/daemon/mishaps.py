"""Faults of our own: into the log, and no further."""

from __future__ import annotations

import sys
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable


def report(exc: BaseException) -> None:
    """Into the log; where that cannot be written, nowhere."""
    with suppress(OSError):
        sys.stderr.write("".join(traceback.format_exception(exc)))
        sys.stderr.flush()


async def do_all(actions: Iterable[Callable[[], Awaitable[Any]]]) -> None:
    """All at once; one that fails keeps none of the others from being done."""

    async def carry_out(action: Callable[[], Awaitable[Any]]) -> None:
        try:
            await action()
        except Exception as exc:  # noqa: BLE001 - whatever it is, the others must be done
            report(exc)

    async with anyio.create_task_group() as group:
        for action in actions:
            group.start_soon(carry_out, action)
