"""What both faces of a session, the one that blocks and the one that awaits, say of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from cloche.errors import RequestError
from cloche.session import operations

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cloche.isolation import Isolation
    from cloche.session.channel import Backend
    from cloche.session.live import LiveSession
    from cloche.session.witness import Witness
    from cloche.session.workspace import Workspace


class SessionFace:
    """The part of a sandbox that waits for nothing."""

    _backend: Backend
    _session: LiveSession
    _functions: dict[str, Any]

    def __repr__(self) -> str:
        session = self._session
        state = "destroyed" if session.closed else "not started" if session.guest is None else "live"
        return f"<{type(self).__name__} {session.number}: {self._backend.name}, {state}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a sandbox cannot be pickled or copied: its session belongs to this process; send snapshot() instead, "
            "or branch it with fork()"
        )

    @property
    def id(self) -> int:
        """A number that no other sandbox of this process has; see `calling_sandbox`."""
        return self._session.number

    @property
    def backend(self) -> str:
        """Name of the backend."""
        return self._backend.name

    @property
    def passed_over(self) -> Mapping[str, str]:
        """Backends that ``auto`` tried before this one, and why each was not taken."""
        return self._backend.passed_over

    @passed_over.setter
    def passed_over(self, found: Mapping[str, str]) -> None:
        self._backend.passed_over = found

    @property
    def capabilities(self) -> frozenset[str]:
        """What this backend can do here beyond the common contract."""
        return self._backend.abilities()

    @property
    def guest_pid(self) -> int | None:
        """The live guest's process, as this host numbers it; None where there is none."""
        guest = self._session.guest
        return None if guest is None else guest.channel.pid

    @property
    def isolation(self) -> Isolation:
        """The tier of the live session, or what the backend would give."""
        guest = self._session.guest
        return self._backend.expected_isolation() if guest is None else guest.channel.isolation

    def watch(self, witness: Witness | None) -> None:
        """Tell `witness` of everything that changes this session from now on; None: nobody. Branches have none."""
        self._session.witness = witness

    @property
    def witness(self) -> Witness | None:
        """Who watches."""
        return self._session.witness

    def tool_descriptions(self) -> list[dict[str, Any]]:
        """Name and documentation of each host function that the guest was given."""
        return list(self._session.callbacks.descriptions)

    @property
    def bridges(self) -> frozenset[str]:
        """Host functions that somebody serves, models and tools alike."""
        return self._session.callbacks.names

    @property
    def context(self) -> Any:
        """What `initialize` was given."""
        return self._session.context

    def died(self) -> str | None:
        """How the guest ended while nobody used it; None when it is there, or was never started."""
        guest = self._session.guest
        ended = None if guest is None else guest.channel.reap(0)
        return None if ended is None else ended.describe()

    def add_tools(self, tools: Mapping[str, Any]) -> None:
        """More host functions, for a sandbox that has not been used yet."""
        if self._session.guest is not None:
            raise RequestError(
                "this sandbox has begun, and its namespace has the functions that it was given",
                remedy="give it the tools when you create it, or take one that was not used yet",
            )
        for name, tool in tools.items():
            self._session.callbacks.add_tool(name, tool)
        self._functions["tools"] = {**(self._functions.get("tools") or {}), **tools}

    def files_now(self) -> Workspace:
        """The files of the session as they are, also while a cell runs: a host function may look at them."""
        guest = self._session.guest
        return self._session.folder.workspace if guest is None else guest.channel.workspace

    def _begin_context(self, context: Any) -> operations.Operation[None]:
        """Take a context over, or refuse it before anything is changed: what has to be asked of the guest then."""
        policy = self._session.policy
        operation = operations.SetContext(context, policy.value_max_bytes)
        operation.check()
        self._backend.refuse_context(context, policy)
        alive = self._session.guest is not None
        self._session.check_open()
        self._session.set_context(context)
        return operation if alive else operations.Ping()


def host_functions(
    on_llm_query: Callable[..., Any] | None, on_rlm_query: Callable[..., Any] | None, tools: Mapping[str, Any] | None
) -> dict[str, Any]:
    """As a session takes them, and its branches after it."""
    return {"on_llm_query": on_llm_query, "on_rlm_query": on_rlm_query, "tools": tools}


def given_options(**options: Any) -> dict[str, Any]:
    """The options of a cell that a caller has set."""
    return {name: value for name, value in options.items() if value is not None}
