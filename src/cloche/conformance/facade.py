"""An `AsyncSandbox` that looks like a synchronous one: each behaviour is written down once."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Self

    from anyio.from_thread import BlockingPortal

    from cloche.aio import AsyncSandbox


class AsyncAsSync:
    """Every method runs in the event loop of `portal`, and the calling thread waits for it."""

    def __init__(self, portal: BlockingPortal, sandbox: AsyncSandbox) -> None:
        self._portal = portal
        self._sandbox = sandbox

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._sandbox, name)
        if not callable(value):
            return value
        return lambda *args, **kwargs: self._portal.call(partial(value, *args, **kwargs))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *trouble: object) -> None:
        self.destroy()
