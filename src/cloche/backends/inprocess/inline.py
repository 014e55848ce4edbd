"""Requests of a session that runs here: the same as those of a guest, answered by a call instead of a reply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from cloche.backends.inprocess.kernel import InlineKernel, raised_by_host
from cloche.errors import CallTimeoutError, UnsupportedError
from cloche.isolation import Isolation
from cloche.session.clock import clock
from cloche.session.machine import Finished
from cloche.session.operations import read_reply
from cloche.session.verdict import build_result
from cloche_guest.codes import INVALID_PARAMS, TOO_LARGE, RequestFailed
from cloche_guest.guarded.restricted import Restriction
from cloche_guest.values import TooLarge
from cloche_guest.variables import Variables
from cloche_guest.versions import describe_versions

if TYPE_CHECKING:
    from collections.abc import Callable

    from cloche.backends.inprocess.backend import InProcessBackend
    from cloche.backends.inprocess.bridging import Serve
    from cloche.backends.inprocess.kernel import Listener
    from cloche.result import SandboxResult
    from cloche.session.live import LiveSession
    from cloche.session.operations import Operation

T = TypeVar("T")


class InlineGuest:
    """What stands in a guest's place. One for a session; its kernel lasts until the session is reset."""

    def __init__(self, session: LiveSession, backend: InProcessBackend) -> None:
        self._session = session
        self._backend = backend

    def kernel(self) -> InlineKernel:
        """The kernel of the moment, with the context of the moment."""
        kernel = self._backend.inline
        if kernel is None:
            session = self._session
            session.refuse_weaker(Isolation.NONE)
            session.folder.workspace.ensure()
            restriction = Restriction(self._backend.modules) if self._backend.guard == "restricted" else None
            kernel = self._backend.inline = InlineKernel(session, restriction)
            session.folder.record(None)
            session.logger.log_session_event("start", session=session.folder.id, backend=self._backend.name)
        kernel.bind_context()
        return kernel

    def execute(
        self, code: str, started: float, limit_ms: int, listener: Listener | None, serve: Serve | None = None
    ) -> SandboxResult:
        """Run a cell in this thread."""
        session, kernel = self._session, self.kernel()
        session.requests.cell_call(code, live=listener is not None)
        said = kernel.run_cell(code, session.requests.cells, started, limit_ms, listener, serve)
        if kernel.trouble is not None:
            raise kernel.trouble
        stop = kernel.stopped
        finished = Finished(result=said, stop=stop, concluded_by=kernel.counter.concluded_by)
        elapsed = (clock() - started) * 1000
        result = build_result(code, kernel, kernel, finished, session.policy, elapsed, limit_ms)
        session.requests.tell_of(result, limit_ms)
        return result

    def operate(self, operation: Operation[T], started: float, limit_ms: int) -> T:
        """Anything else that is asked of a session."""
        call, kernel = operation.call(), self.kernel()
        action = _actions(kernel, call.params).get(call.method)
        if action is None:
            raise UnsupportedError(
                f"a session that runs inline cannot {operation.name}",
                capability=operation.name,
                remedy="use worker='process': a saved state is read by running code, and that would be run here",
            )
        value, raised, struck = kernel.supervised(action, started, limit_ms)
        if raised_by_host(raised):
            raise KeyboardInterrupt
        if struck and raised is not None:
            raise CallTimeoutError(
                f"{operation.name} did not return in time",
                session_state="kept",
                cause=f"{kernel.stopped}; the object's own code ran",
            )
        read: T = read_reply(operation, _finished(value, raised))
        if self._session.witness is not None:
            operation.tell(self._session.witness)
        return read

    def cancel(self) -> None:
        """Stop what runs. From any thread; harmless when there is nothing."""
        kernel = self._backend.inline
        if kernel is not None:
            kernel.counter.cancel()


def _finished(value: Any, raised: BaseException | None) -> Finished:
    if raised is None:
        return Finished(result=value)
    if isinstance(raised, RequestFailed):
        return Finished(error={"code": raised.code, "message": str(raised)})
    if isinstance(raised, TooLarge):
        return Finished(error={"code": TOO_LARGE, "message": str(raised)})
    return Finished(error={"code": INVALID_PARAMS, "message": f"{type(raised).__name__} in the object's own code"})


def _actions(kernel: InlineKernel, params: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    """What a kernel can do, by the names of its methods."""

    def validate() -> dict[str, Any]:
        try:
            kernel.compile(params["code"], "<sandbox>")
        except SyntaxError:
            return {"valid": False}
        return {"valid": True}

    def answer(method: Callable[..., Any]) -> Callable[[], Any]:
        return lambda: method(params, None)[0]

    # Every action is supervised as a whole, so that no part of it has to be.
    variables = Variables(kernel.space, lambda: kernel.bridges.value_limit, lambda action: action())
    return {
        "ping": dict,
        "context": dict,  # bound by now
        "validate": validate,
        "versions": describe_versions,
        **{name: answer(method) for name, method in variables.methods().items()},
    }


def refuse_options(options: dict[str, Any]) -> None:
    """Refuse what needs a standard input of its own: the process has one, and it is the host's."""
    if options:
        raise UnsupportedError(
            "execute(stdin=...) does not work inline", capability="stdin", remedy="leave worker='inline' out"
        )
