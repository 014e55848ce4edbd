"""A server as the executor sees it, whatever it runs in; and the one that is a pooled sandbox."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio

from cloche.errors import (
    CallTimeoutError,
    ClocheError,
    ExecutionTimeoutError,
    PolicyError,
    SessionLostError,
    StartError,
)
from cloche.executor.response import REPLRequest, REPLResponse, failed, response_of
from cloche.result import EXIT_CODES, SandboxResult
from cloche.session.operations import Ping
from cloche.session.text_operations import LoadText, Preload, SaveText

if TYPE_CHECKING:
    from cloche.aio import AsyncSandbox
    from cloche.executor.settings import REPLSettings
    from cloche.pool import Pool, PooledSession

FILE = "<string>"


class NotAccepted(Exception):
    """The server has not begun with the request, and never will: another one may be asked."""


class Server(ABC):
    """Serves one request and is destroyed."""

    @abstractmethod
    async def start(self) -> None:
        """Until it is ready. Raises `ClocheError`."""

    @abstractmethod
    async def check(self) -> None:
        """Whether it is there; raises `NotAccepted`."""

    @abstractmethod
    async def serve(self, request: REPLRequest, seconds: float) -> REPLResponse:
        """Carry a request out. Raises `NotAccepted` or `ExecutionTimeoutError`."""

    @abstractmethod
    async def destroy(self) -> None:
        """End it and remove what it left. Idempotent."""

    @property
    @abstractmethod
    def ended(self) -> str | None:
        """How it ended while it waited, if so."""


def timed_out(request: REPLRequest, seconds: float, result: SandboxResult | None = None) -> ExecutionTimeoutError:
    """The error of a request that took too long."""
    if result is None:
        result = SandboxResult(
            outcome="timeout", exit_code=EXIT_CODES["timeout"], session_state="reset", code=request.code,
            error="Execution timed out",
        )  # fmt: skip
    return ExecutionTimeoutError(
        f"Execution timed out after {seconds:g} s",
        result=result,
        remedy="raise the timeout, or give the code less to do",
    )


class WallServer(Server):
    """A sandbox of a pool, with the names of the REPL server in it."""

    def __init__(self, pool: Pool, owner: str, settings: REPLSettings, options: dict[str, Any], *, warm: bool) -> None:
        self._pool = pool
        self._owner = owner
        self._settings = settings
        self._options = options
        self._warm = warm
        self._session: PooledSession | None = None

    async def start(self) -> None:
        settings = self._settings
        limit = settings.warmup_timeout_seconds
        # Until a place is free is not its own time: how long to wait for that, the pool knows.
        try:
            self._session = session = await self._pool.open(self._owner, **self._options)
        except TypeError as exc:  # an option that no sandbox has
            raise PolicyError(str(exc), field="options") from None
        try:
            with anyio.fail_after(limit):
                sandbox = _sandbox_of(session)
                if self._warm:
                    await sandbox._warm()
                await sandbox._carry_out(Preload(settings.preload), round(limit * 1000))
                await sandbox._carry_out(SaveText(settings.state_max_bytes))  # so that this is imported as well
        except (TimeoutError, CallTimeoutError):
            with anyio.CancelScope(shield=True):
                await self.destroy()
            raise StartError(
                f"the server was not ready within {limit:g} s",
                remedy="raise REPL_WARMUP_TIMEOUT_SECONDS, or preload less",
            ) from None
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.destroy()
            raise
        session.unkeepable = True  # it waits to be used, and is not to be set aside meanwhile

    @property
    def ended(self) -> str | None:
        session = self._session
        if session is None or session.state in ("closed", "lost"):
            return "it was not started" if session is None else session.why
        return None if session.sandbox is None else session.sandbox.died()

    async def check(self) -> None:
        if self.ended is not None:
            raise NotAccepted(self.ended)
        limit = round(self._settings.health_check_timeout_seconds * 1000)
        try:
            await _sandbox_of(self._session)._carry_out(Ping(), max(limit, 1))
        except ClocheError as exc:
            raise NotAccepted(exc.message) from exc

    async def serve(self, request: REPLRequest, seconds: float) -> REPLResponse:
        session = self._session
        if session is None:
            raise NotAccepted("it was not started")
        async with session.turn() as sandbox:
            deadline = time.monotonic() + seconds  # waiting for a processor is not the code's doing
            for path, data in request.files.items():
                await sandbox.put_file(path, data)
            if request.state:
                refused = await self._restore(sandbox, request, deadline, seconds)
                if refused is not None:
                    return failed(refused)
            try:
                result = await sandbox._execute_as(FILE, request.code, _left(deadline))
            except SessionLostError as exc:  # the cell did not run; but what a state brought along may have
                if request.state:
                    return failed(exc.message, EXIT_CODES["killed"])
                raise NotAccepted(exc.message) from exc
            session.charge(result)
            if result.outcome == "timeout":
                raise timed_out(request, seconds, result)
            response = response_of(result)
            if request.collect_files:
                response = replace(response, contents={path: await sandbox.get_file(path) for path in response.files})
            if request.capture_state and result.session_state == "kept":
                response = await self._capture(sandbox, request, response, deadline, seconds)
        return response

    async def _restore(
        self, sandbox: AsyncSandbox, request: REPLRequest, deadline: float, seconds: float
    ) -> str | None:
        """Why the state could not be restored, if so."""
        try:
            refused = await sandbox._carry_out(LoadText(request.state or ""), _left(deadline))
        except CallTimeoutError:
            raise timed_out(request, seconds) from None
        except ClocheError as exc:
            refused = exc.message
        return None if refused is None else f"State restoration failed: {refused}"

    async def _capture(
        self, sandbox: AsyncSandbox, request: REPLRequest, response: REPLResponse, deadline: float, seconds: float
    ) -> REPLResponse:
        try:
            saved = await sandbox._carry_out(SaveText(self._settings.state_max_bytes), _left(deadline))
        except CallTimeoutError:
            raise timed_out(request, seconds) from None
        except ClocheError as exc:
            error = response.error or f"State serialization failed: {exc.message}"
            return replace(response, error=error, state_errors={"": exc.message})
        if saved.text is None and response.error is None:
            reasons = "; ".join(saved.errors.values()) or "no reason was given"
            response = replace(response, error=f"State serialization failed: {reasons}")
        return replace(response, state=saved.text, state_errors=saved.errors)

    async def destroy(self) -> None:
        if self._session is not None:
            await self._session.close("its request was served")


def _sandbox_of(session: PooledSession | None) -> AsyncSandbox:
    if session is None or session.sandbox is None:
        raise NotAccepted("its sandbox is gone")
    return session.sandbox


def _left(deadline: float) -> int:
    """Milliseconds, at least one."""
    return max(1, round((deadline - time.monotonic()) * 1000))
