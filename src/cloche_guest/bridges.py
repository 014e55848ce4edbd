"""Functions in the namespace whose work is done by the host."""

from __future__ import annotations

from _thread import get_ident

from cloche_guest.signals import MAIN_THREAD, Stop, conclude, runs_user_code, safe_point, state
from cloche_guest.tracebacks import strip_thread_tracebacks
from cloche_guest.values import decode, encode_call
from cloche_guest.wire import RemoteError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    Call = Callable[[str, dict[str, Any]], Any]


class BridgeError(RuntimeError):
    """A host function failed. `type` is the name of the host's exception; no frame of the host is here."""

    __module__ = "cloche"  # what tracebacks show

    def __init__(self, message: str, type: str = "") -> None:  # noqa: A002 - the name users look for
        RuntimeError.__init__(self, message)
        self.type = type


class Bridges:
    """Makes the stubs. `flush` is called first, so that what was printed before a call is seen before it."""

    def __init__(self, call: Call, flush: Callable[[], None], current_context: Callable[[], tuple[bool, Any]]) -> None:
        self._call = call
        self._flush = flush
        self._current_context = current_context
        self.value_limit = 1 << 26

    def invoke(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the host. The user's frame must be the next one up: see the end."""
        renewed: type[KeyboardInterrupt] | None = None
        failure: BridgeError | None = None
        try:
            self._flush()
            params = {"name": name, **encode_call(args, kwargs, self.value_limit)}
            reply = decode(self._call("bridge", params))
            safe_point()
            return reply
        except RemoteError as exc:
            data = exc.data if isinstance(exc.data, dict) else {}
            kind = str(data.get("type", ""))
            failure = BridgeError("%s failed: %s" % (name, exc), kind)
            if kind == "Abandoned" and runs_user_code():
                # The host has stopped this cell; its signal is only a moment behind, and may not be needed at all.
                state.delivered += 1
                failure, renewed = None, state.sticky or KeyboardInterrupt
        except Stop as exc:
            renewed = type(exc)
        if failure is not None:
            if get_ident() != MAIN_THREAD:
                strip_thread_tracebacks()
            raise failure  # outside of the handler: no context, no frames of ours
        # Made as the last act: checks inside kernel frames would use the renewed signal up.
        raise renewed or Stop

    def standard(self) -> dict[str, Callable[..., Any]]:
        """The bridges that every session has."""
        invoke = self.invoke

        def llm_query(prompt: str, model: str | None = None) -> Any:
            """Ask a language model outside; returns its answer."""
            return invoke("llm_query", (prompt,), {} if model is None else {"model": model})

        def rlm_query(task: str, ctx: Any = None, model: str | None = None) -> Any:
            """Give a task to a fresh agent outside, with `ctx` (the current context when not given)."""
            return invoke("rlm_query", (task, *self._context_argument(ctx)), {} if model is None else {"model": model})

        def llm_query_batched(prompts: list[str], model: str | None = None) -> Any:
            """Ask many prompts at once; answers in order. A failed item is a string that reads [Error: ...]."""
            items = [[prompt] for prompt in _listed(prompts, "prompts")]
            return invoke("llm_query_batched", (items,), {} if model is None else {"model": model})

        def rlm_query_batched(tasks: list[Any], model: str | None = None) -> Any:
            """Run many tasks: strings, (task, ctx) pairs or {"task":, "context":} dicts; answers in order."""
            items = [self._task(task) for task in _listed(tasks, "tasks")]
            return invoke("rlm_query_batched", (items,), {} if model is None else {"model": model})

        stubs: dict[str, Callable[..., Any]] = {
            "llm_query": llm_query,
            "rlm_query": rlm_query,
            "llm_query_batched": llm_query_batched,
            "batch_llm_query": llm_query_batched,
            "rlm_query_batched": rlm_query_batched,
            "batch_rlm_query": rlm_query_batched,
        }
        for stub in stubs.values():
            stub.__qualname__ = stub.__name__
            stub.__module__ = "cloche"
        return stubs

    def end_cell(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Call a host function that ends the cell. Does not return, unless the function failed."""
        call = state.calls
        self.invoke(name, args, kwargs)
        finish = conclude(call)
        if finish is None:
            raise BridgeError("%s came when its cell was over" % name, "Abandoned")
        # As in `invoke`: the last act here, and in another thread the main one is reached by the signal that it trips.
        raise finish

    def tool(self, name: str, doc: str, *, ends: bool = False) -> Any:
        """A stub for a host function; `ends`: with its answer the cell is over."""
        invoke = self.end_cell if ends else self.invoke

        def stub(*args: Any, **kwargs: Any) -> Any:
            return invoke(name, args, kwargs)

        return name_stub(stub, name, doc)

    def _task(self, task: Any) -> list[Any]:
        if isinstance(task, str):
            return [task, *self._context_argument(None)]
        if isinstance(task, dict):
            return [task["task"], *self._context_argument(task.get("context", task.get("ctx")))]
        name, ctx = task
        return [name, *self._context_argument(ctx)]

    def _context_argument(self, ctx: Any) -> list[Any]:
        """Nothing for the context that the host already has: it may be hundreds of megabytes."""
        if ctx is None:
            unchanged, ctx = self._current_context()
            if unchanged:
                return []
        return [ctx]


def name_stub(stub: Any, name: str, doc: str) -> Any:
    """As tracebacks and `help` show it."""
    stub.__name__ = stub.__qualname__ = name
    stub.__doc__ = doc
    stub.__module__ = "cloche"
    return stub


def _listed(items: Any, what: str) -> list[Any]:
    if isinstance(items, (str, bytes)) or not hasattr(items, "__iter__"):
        raise TypeError("%s must be a list, not %s" % (what, type(items).__name__))
    return list(items)
