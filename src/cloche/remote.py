"""`DaemonClientSandbox`: a session in the daemon's warm house, behind the common contract."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from cloche.backends.daemon.backend import DaemonBackend, DaemonChannel, attach
from cloche.errors import BusyError, UnsupportedError
from cloche.sandbox import SessionSandbox
from cloche.session.copying import Work
from cloche.session.operations import Ping
from cloche_guest.values import decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Self

    from cloche.logger import SandboxLogger
    from cloche.session.copying import Steps


@dataclass(frozen=True, slots=True)
class DetachedSession:
    """A session that waits in the daemon. Whoever has both may take it up."""

    id: str
    key: str = field(repr=False)


class DaemonClientSandbox(SessionSandbox):
    """Runs code in a session of the user's daemon (``cloche daemon start``). Isolation: the daemon's."""

    backend_type: ClassVar[type[DaemonBackend]] = DaemonBackend

    def detach(self, *, timeout_ms: int | None = None) -> DetachedSession:
        """Leave the session with the daemon: variables, files, context. This sandbox is over then.

        Another process takes it up with `attach`; when nobody does for as long as a session may be idle, it is ended.
        A savepoint does not go along.
        """
        found = self._driver.perform(self._leave(), timeout_ms)
        self._driver.dispose()
        return found

    @classmethod
    def attach(
        cls,
        session: str,
        key: str,
        *,
        logger: SandboxLogger | None = None,
        on_llm_query: Callable[..., Any] | None = None,
        on_rlm_query: Callable[..., Any] | None = None,
        tools: Mapping[str, Any] | None = None,
    ) -> Self:
        """Take up a session that was detached, with its own policy. Its host functions are yours: of those that it
        was started with, the ones that you do not give cannot be called any more."""
        found = attach(session, key)
        taken = cls(found.policy, logger=logger, on_llm_query=on_llm_query, on_rlm_query=on_rlm_query, tools=tools)
        told = decode(found.note.get("context"))
        taken._session.set_context(told if found.context is None else found.context.decode("utf-8", "surrogatepass"))
        taken._session.requests.cells = int(found.note.get("cells", 0))
        taken._session.adopt(found.channel)
        return taken

    def _leave(self) -> Steps[DetachedSession]:
        yield Ping()  # it is there, and every signal that was on its way to it has come
        found: DetachedSession = yield Work(self._part)
        return found

    def _part(self) -> DetachedSession:
        session = self._session
        guest = session.live_guest()
        if not isinstance(guest.channel, DaemonChannel):
            raise UnsupportedError(
                "this session cannot be detached: it is this process's own",
                capability="detach",
                cause=f"the daemon was passed over: {self.passed_over.get('daemon', 'it had no place')}",
                remedy="backend='daemon' waits for a place, or says that there is none",
            )
        if not guest.machine.at_rest:
            raise BusyError(
                "a thread of the session waits for a host function", remedy="end the session's threads, then detach"
            )
        context = session.context
        note: dict[str, Any] = {"cells": session.requests.cells}
        text = context.encode("utf-8", "surrogatepass") if type(context) is str else None
        if text is None and context is not None:
            note["context"] = encode(context, self.policy.value_max_bytes)
        detached = DetachedSession(*guest.channel.detach(note, text))
        backend = self._backend
        assert isinstance(backend, DaemonBackend)
        backend.forget()
        session.part()
        return detached
