"""Host functions: which serves which bridge, under which name, and not from within itself."""

from __future__ import annotations

import contextvars
import functools
from typing import Any

import pytest

from cloche import PolicyError, ReentrantCallError
from cloche.session.callbacks import RESERVED, Callbacks, refuse_reentry


def call(callbacks: Callbacks, *args: Any) -> Any:
    """As drivers call: in a context of its own."""
    return contextvars.copy_context().run(callbacks.call, *args)


def make(on_llm_query: Any = None, on_rlm_query: Any = None, **tools: Any) -> Callbacks:
    return Callbacks(1, on_llm_query, on_rlm_query, tools)


def test_only_what_somebody_serves_has_a_name():
    assert make().names == frozenset()
    assert make(on_llm_query=print, search=print).names == {"llm_query", "search"}


def test_arguments_arrive_as_they_were_given():
    callbacks = make(add=lambda a, b=0, *, c=0: (a, b, c))
    assert call(callbacks, "add", [1, 2], {"c": 3}) == (1, 2, 3)


def test_rlm_query_without_a_context_gets_the_current_one():
    seen: list[Any] = []
    callbacks = make(on_rlm_query=lambda task, ctx: seen.append((task, ctx)))
    callbacks.context = "the context"
    call(callbacks, "rlm_query", ["a"], {})
    call(callbacks, "rlm_query", ["b", "own"], {})
    call(callbacks, "rlm_query", ["c", None], {})
    assert seen == [("a", "the context"), ("b", "own"), ("c", None)]


@pytest.mark.parametrize("name", ["", "a b", "1a", "a-b", "llm_query", "context", "display", "search_context"])
def test_a_tool_cannot_have_a_name_that_is_none_or_ours(name):
    with pytest.raises(PolicyError) as caught:
        Callbacks(1, None, None, {name: print})
    assert caught.value.field == "tools"


def test_every_name_that_the_guest_reserves_is_reserved_here_too():
    from cloche_guest.kernel import Kernel

    class Link:
        def call(self, *args: Any) -> None: ...
        def notify(self, *args: Any) -> None: ...

    import builtins
    import sys

    kept = {name: vars(builtins).get(name) for name in ("exit", "quit", "help", "input")}
    main, finders = sys.modules["__main__"], list(sys.meta_path)
    try:
        names = set(Kernel(Link(), None).space.reserved)
    finally:
        sys.modules["__main__"] = main
        sys.meta_path[:] = finders
        vars(builtins).update({name: value for name, value in kept.items() if value is not None})
    assert names | {"context"} == RESERVED


@pytest.mark.parametrize("tool", [5, "text", None, {"tool": 5}, {"description": "x"}, {}])
def test_a_tool_must_be_callable(tool):
    with pytest.raises(PolicyError, match="not callable"):
        make(f=tool)


def test_a_tool_is_described_by_its_signature_and_its_docstring():
    def lookup(key: str, *, strict: bool = False) -> str:
        """Look something up.

        In a table.
        """
        return key

    (description,) = make(lookup=lookup).descriptions
    assert description["name"] == "lookup"
    assert description["doc"].startswith("lookup(key")
    assert "strict" in description["doc"]
    assert "Look something up.\n\nIn a table." in description["doc"]


def test_a_description_that_was_given_stands():
    (description,) = make(f={"tool": lambda: 5, "description": "five"}).descriptions
    assert description["doc"] == "five"


@pytest.mark.parametrize("tool", [len, dict, functools.partial(print, 1), type("Callable", (), {"__call__": print})()])
def test_anything_callable_can_be_described(tool):
    (description,) = make(f=tool).descriptions
    assert description["doc"].startswith("f(")


def test_which_functions_are_async_is_known_before_they_are_called():
    async def coroutine() -> None: ...

    class AsyncCallable:
        async def __call__(self) -> None: ...

    callbacks = make(a=coroutine, b=AsyncCallable(), c=print, d=functools.partial(coroutine))
    assert [callbacks.is_async(name) for name in "abcd"] == [True, True, False, True]


def test_a_function_may_not_call_into_the_session_that_waits_for_it():
    callbacks = make(f=lambda: refuse_reentry(1))
    with pytest.raises(ReentrantCallError, match="another sandbox"):
        call(callbacks, "f", [], {})


def test_a_function_may_call_into_another_session():
    callbacks = make(f=lambda: refuse_reentry(2))
    call(callbacks, "f", [], {})


def test_after_the_function_the_session_may_be_used_again():
    call(make(f=lambda: None), "f", [], {})
    refuse_reentry(1)
