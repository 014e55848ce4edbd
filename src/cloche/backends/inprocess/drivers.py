"""The blocking driver of sessions that run inline: whoever calls runs the cell himself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from cloche.backends.inprocess.inline import InlineGuest, refuse_options
from cloche.session.sync import SyncDriver

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloche.backends.inprocess.backend import InProcessBackend
    from cloche.result import SandboxResult
    from cloche.session.live import LiveSession
    from cloche.session.operations import Operation

T = TypeVar("T")


class InlineDriver(SyncDriver):
    """Runs cells in the caller's thread."""

    def __init__(self, session: LiveSession, backend: InProcessBackend) -> None:
        super().__init__(session)
        self._guest = InlineGuest(session, backend)

    def execute(
        self, code: str, timeout_ms: int | None, on_output: Callable[[str, str], object] | None, **options: Any
    ) -> SandboxResult:
        refuse_options(options)
        limit = self._session.limit_ms(timeout_ms)
        started = self._enter(limit)
        try:
            return self._guest.execute(code, started, limit, on_output)
        finally:
            self._turn.release()

    def run(self, operation: Operation[T], timeout_ms: int | None = None) -> T:
        limit = self._session.limit_ms(timeout_ms)
        started = self._enter(limit)
        try:
            return self._guest.operate(operation, started, limit)
        finally:
            self._turn.release()

    def cancel(self) -> None:
        self._guest.cancel()
