"""Running host functions for the guest: which callback serves which bridge, and how it is called."""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from cloche.errors import PolicyError, ReentrantCallError
from cloche_guest.context_tools import bind as bind_context_tools

if TYPE_CHECKING:
    from collections.abc import Callable

RESERVED = frozenset(
    {
        "context", "llm_query", "rlm_query", "llm_query_batched", "batch_llm_query", "rlm_query_batched",
        "batch_rlm_query", "display", "BridgeError", *bind_context_tools(lambda: None),
    }
)  # fmt: skip

_inside: ContextVar[frozenset[int]] = ContextVar("cloche_inside", default=frozenset())
_caller: ContextVar[int | None] = ContextVar("cloche_caller", default=None)


def calling_sandbox() -> int | None:
    """In a bridge callback or a tool: the `id` of the sandbox whose code called it. One function may serve many, and
    a sandbox and its branches share theirs."""
    return _caller.get()


def refuse_reentry(session: int) -> None:
    """A callback that calls into the session that waits for it would wait for ever."""
    if session in _inside.get():
        raise ReentrantCallError(
            "a bridge callback called into its own sandbox",
            cause="the cell that made the call is still running and waits for the callback",
            remedy="create another sandbox for nested work",
        )


def mark_inside(session: int) -> None:
    """From here on, in this thread's or task's context, code runs on behalf of that session's guest."""
    _inside.set(_inside.get() | {session})
    _caller.set(session)


class Callbacks:
    """The host functions of one session."""

    def __init__(
        self,
        session: int,
        on_llm_query: Callable[..., Any] | None,
        on_rlm_query: Callable[..., Any] | None,
        tools: Mapping[str, Any] | None,
    ) -> None:
        self._session = session
        self.context: Any = None
        """What `rlm_query` without a context gets; kept here so that it need not cross the wall again."""
        self._functions: dict[str, Callable[..., Any]] = {}
        self.descriptions: list[dict[str, Any]] = []
        for name, function in (("llm_query", on_llm_query), ("rlm_query", on_rlm_query)):
            if function is not None:
                if not callable(function):
                    raise PolicyError(f"on_{name} must be a function, not {function!r:.60}", field=f"on_{name}")
                self._functions[name] = function
        if tools is not None and not isinstance(tools, Mapping):
            raise PolicyError(
                f"tools must map names to functions, not {type(tools).__name__}",
                field="tools",
                remedy='tools={"name": function}',
            )
        for name, tool in (tools or {}).items():
            self.add_tool(name, tool)

    @property
    def names(self) -> frozenset[str]:
        """Bridges that somebody serves."""
        return frozenset(self._functions)

    @property
    def ending(self) -> frozenset[str]:
        """Those with whose answer a cell is over."""
        return frozenset(tool["name"] for tool in self.descriptions if tool.get("ends"))

    def add_tool(self, name: str, tool: Any) -> None:
        """One more."""
        description, extra = "", {}
        if isinstance(tool, dict):
            extra = {key: tool[key] for key in ("ends", "stub") if tool.get(key)}
            description, tool = str(tool.get("description", "")), tool.get("tool")
        if not str(name).isidentifier() or keyword.iskeyword(name) or name in RESERVED:
            raise PolicyError(
                f"{name!r} cannot be the name of a tool", cause="reserved, or not an identifier", field="tools"
            )
        if not callable(tool):
            raise PolicyError(
                f"tool {name!r} is not callable", field="tools", remedy="use set_variable() for plain values"
            )
        self._functions[name] = tool
        self.descriptions.append({"name": name, "doc": description or _signature(name, tool), **extra})

    def is_async(self, name: str) -> bool:
        """Whether calling it gives a coroutine at once."""
        return is_coroutine_function(self._functions[name])

    def call(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Call the host function (which may return an awaitable). Runs inside a context of its own."""
        mark_inside(self._session)
        if name == "rlm_query" and len(args) == 1:
            args = [args[0], self.context]
        return self._functions[name](*args, **kwargs)


def is_coroutine_function(function: Any) -> bool:
    """Whether calling it gives a coroutine at once; an object with an async ``__call__`` counts."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004 - not whether it can be called


def _signature(name: str, tool: Callable[..., Any]) -> str:
    try:
        head = f"{name}{inspect.signature(tool)}"
    except (TypeError, ValueError):
        head = f"{name}(...)"
    doc = inspect.getdoc(tool) if not isinstance(tool, type(len)) else None
    return f"{head}\n\n{doc}" if doc else head
