"""The host's side of a workbench: every call of the code inside is served, counted and recorded here."""

from __future__ import annotations

import re
import threading
import time
import weakref
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cloche.errors import PolicyError, PrematureFinalError, RequestError
from cloche.repl import looking
from cloche.repl.accounting import as_printed, measure, measure_pieces
from cloche.repl.ahead import Ahead, AwaitedSlot
from cloche.repl.findings import Findings
from cloche.repl.manual import DOCS, LOOKS, READ_ONLY, usage
from cloche.repl.planning import plan
from cloche.repl.sources import Sources
from cloche.repl.spill import Spill
from cloche.repl.turn import LONGEST_ERROR, Answer, HostCall, OpenTurn
from cloche.session.callbacks import RESERVED, calling_sandbox, is_coroutine_function, mark_inside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from anyio.abc import TaskGroup

    from cloche.repl.ahead import Slot
    from cloche.repl.config import REPLConfig
    from cloche.repl.models import Models
    from cloche.repl.planning import PlannedCall
    from cloche.repl.tokens import TokenCounter

LONGEST_ARGUMENTS, LONGEST_ARGUMENT = 200, 80
LOOKED_AT = 2000
"""Characters of one argument in which secrets are looked for."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A host function for the code inside.

    `read_only`: it changes nothing, and nothing that the code does without a host call (a file that it writes) changes
    what it gives; so it may be called ahead and beside others.
    """

    function: Callable[..., Any]
    description: str = ""
    read_only: bool = False


@dataclass(slots=True)
class _Serving:
    """One call while it is served."""

    slot: Slot | None
    value: Any = None


class Bench:
    """State of one workbench. Its functions are called from any thread."""

    def __init__(
        self,
        config: REPLConfig,
        tools: Mapping[str, Any] | None,
        models: Models,
        count: TokenCounter,
        clean: Callable[[str], str],
    ) -> None:
        self.config = config
        self.sandbox_id = 0
        self.lock = threading.Lock()  # for counters only
        self.spill = Spill(config.spill_dir, config.spill_quota_bytes)
        self.sources = Sources(config.roots, self.spill.read, self.spill.number_of, masked=config.redact)
        self.findings = Findings()
        self.looks = 0
        self.turns = 0
        self.turn = OpenTurn(0)
        self.models = models
        self.tools = {name: _as_tool(name, tool) for name, tool in (tools or {}).items()}
        self._count = count
        self._clean = clean
        sources = self.sources
        self._functions: dict[str, Callable[..., Any]] = {
            "peek": lambda *a, **k: looking.peek(sources, *a, **k),
            "grep": lambda *a, **k: looking.grep(sources, config.max_grep_results, self.turn.check, *a, **k),
            "list_dir": lambda *a, **k: looking.list_dir(sources, *a, **k),
            "file_info": lambda *a, **k: looking.file_info(sources, *a, **k),
            "context_len": lambda: len(sources.context.text),
            "chunk_context": lambda *a, **k: looking.chunk_context(sources, *a, **k),
            "FINAL": self._final,
            "STUCK": self._stuck,
            "mark_finding": lambda *a, **k: self.findings.mark(self.turn.number, clean, *a, **k),
            "list_findings": self.findings.listed,
            **({"llm_call": models.call, "llm_batch": self._batch} if models.llm is not None else {}),
            **{name: tool.function for name, tool in self.tools.items()},
        }
        self.read_only = READ_ONLY | {name for name, tool in self.tools.items() if tool.read_only}

    # -- turns ---------------------------------------------------------------------------------

    def begin_turn(self, code: str, group: TaskGroup | None = None) -> OpenTurn:
        """A new turn; what it can call ahead is under way from now on, in threads or in tasks of `group`."""
        self.turns += 1
        turn = self.turn = OpenTurn(self.turns)
        if self.config.parallel_tools:
            calls = [call for call in plan(code, self.read_only, self._functions) if self._is_steady(call)]
            if len(calls) > 1:
                turn.ahead = Ahead(calls, self._run_ahead, group, self.is_async)
        return turn

    def _run_ahead(self, call: PlannedCall) -> Any:
        """As the code inside will ask for it: a function that calls into the session then is refused, too."""
        mark_inside(self.sandbox_id)
        return self.run(call.name, list(call.args), call.kwargs)

    def _is_steady(self, call: PlannedCall) -> bool:
        """Whether the code of the turn cannot change what the call will find: it writes in the workspace only."""
        if call.name in self.tools or call.name == "context_len":
            return True
        if call.name not in ("peek", "grep"):
            return False
        # Both take the source first or second; for grep alone a text in front is the pattern.
        placed = call.args[:2] if call.name == "peek" else call.args[1:2]
        named = [*placed, call.kwargs.get("source"), call.kwargs.get("n")]
        return all(self.sources.is_handle(name) for name in named if isinstance(name, str))

    # -- serving -------------------------------------------------------------------------------

    def serve(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A call of the code inside."""
        with self.recording(name, args, kwargs) as call:
            call.value = self.run(name, args, kwargs) if call.slot is None else call.slot.result()
        return call.value

    async def serve_async(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """The same for a function that has to be awaited."""
        with self.recording(name, args, kwargs) as call:
            slot = call.slot
            call.value = await (slot.result_async() if isinstance(slot, AwaitedSlot) else self.run(name, args, kwargs))
        return call.value

    @contextmanager
    def recording(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Iterator[_Serving]:
        """What comes of a call belongs to the turn in which it was made, however late it comes."""
        turn, started = self.turn, time.perf_counter()
        turn.check()
        call = _Serving(self._slot_for(turn, name, args, kwargs))
        failed = None
        try:
            yield call
        except BaseException as exc:
            failed = self._clean(f"{type(exc).__name__}: {exc}")[:LONGEST_ERROR]
            raise
        finally:
            if name == "chunk_context" and failed is None:  # the code has the text; where to cut it is all that is sent
                size = measure_pieces(self.sources.context.text, call.value, self._count)
            else:
                size = measure(as_printed(name, call.value), self._count)
            # With its text the answer itself comes along.
            shown = _arguments(args[:1] if name == "FINAL" else args, kwargs, self._clean)
            seconds, ahead = time.perf_counter() - started, call.slot is not None
            with self.lock:
                turn.calls.append(
                    HostCall(name, shown, size.characters, size.bytes, size.tokens, failed, seconds, ahead)
                )
                if failed is None and name in LOOKS and (call.value != "" or not self.sources.has_text):
                    self.looks += 1  # who asked to be shown nothing has not looked

    def _slot_for(self, turn: OpenTurn, name: str, args: list[Any], kwargs: dict[str, Any]) -> Slot | None:
        """The call that was made ahead for this one. After one that may change something there are none."""
        if turn.ahead is None:
            return None
        if name not in self.read_only:
            turn.ahead.forget()
            return None
        return turn.ahead.take(name, args, kwargs)

    def run(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Do what a function does, and count nothing."""
        try:
            return self._functions[name](*args, **kwargs)
        except TypeError as exc:
            if not _is_about_the_call(exc, name in DOCS):
                raise
            cause = re.sub(r"^[\w.<>]*\(\) ", "", str(exc))
            remedy = usage(name) if name in DOCS else f"help({name!r}) tells how"
            raise RequestError(f"{name} cannot be called like this", cause=cause, remedy=remedy) from None

    def is_async(self, name: str) -> bool:
        """Whether somebody has to await it."""
        if name in ("llm_call", "llm_batch"):
            return self.models.is_async
        return is_coroutine_function(self._functions[name])

    @property
    def names(self) -> list[str]:
        """Functions that the host serves."""
        return list(self._functions)

    # -- the functions themselves ----------------------------------------------------------------

    def _final(self, text: str, value: Any = None) -> None:
        config = self.config
        if config.require_exploration_before_final and self.looks < config.min_exploration_calls:
            raise PrematureFinalError(
                f"look before you answer: {self.looks} of {config.min_exploration_calls} looks so far",
                remedy="call peek() or grep() first, then FINAL again",
            )
        if not isinstance(text, str):
            raise RequestError("an answer is text")
        self.turn.conclude_with(Answer(text, value))

    def _stuck(self, reason: Any = "") -> str:
        done = ", ".join(sorted({call.name for call in self.turn.calls})) or "nothing yet"
        advice = [
            f"Noted: {self._clean(str(reason)[:LOOKED_AT])[:300]}" if reason else "Noted.",
            f"Used in this turn: {done}.",
        ]
        if not self.looks:
            advice.append(
                "Nothing was looked at so far: peek() shows the beginning of the context, grep(pattern) finds."
            )
        if self.findings.all:
            advice.append(f"Findings so far: {len(self.findings.all)}, see list_findings().")
        advice.append("list_tools() names what can be called. FINAL(answer) ends with the best answer that you have.")
        return "\n".join(advice)

    def _batch(self, prompts: Any, **options: Any) -> Any:
        return self.models.batch(self.turn, prompts, **options)


class Benches:
    """Which sandbox belongs to which workbench: branches share the functions of the one that they come from."""

    def __init__(self) -> None:
        self._all: weakref.WeakValueDictionary[int, Bench] = weakref.WeakValueDictionary()

    def put(self, sandbox_id: int, bench: Bench) -> None:
        bench.sandbox_id = sandbox_id
        self._all[sandbox_id] = bench

    def current(self) -> Bench:
        """The workbench whose code called."""
        found = self._all.get(calling_sandbox() or 0)
        if found is None:
            raise RequestError("this sandbox has no workbench any more")
        return found


def _as_tool(name: str, given: Any) -> Tool:
    if name in DOCS or name in RESERVED or not name.isidentifier():
        raise PolicyError(f"{name!r:.60} cannot be the name of a tool", field="tools", cause="it is taken, or no name")
    tool = given if isinstance(given, Tool) else Tool(given)
    if not callable(tool.function):
        raise PolicyError(f"tool {name!r} is not callable", field="tools")
    return tool


def _arguments(args: list[Any], kwargs: dict[str, Any], clean: Callable[[str], str]) -> str:
    """Shortened, and masked before that; a text of a hundred megabytes is cut before anything is made of it."""

    def short(value: Any) -> str:
        text = repr(value[:LOOKED_AT] if isinstance(value, str) else value)
        return clean(text[:LOOKED_AT])[:LONGEST_ARGUMENT]

    shown = [*map(short, args), *(f"{key}={short(value)}" for key, value in kwargs.items())]
    return ", ".join(shown)[:LONGEST_ARGUMENTS]


def _is_about_the_call(exc: TypeError, ours: bool) -> bool:
    """Whether the arguments did not fit, and nothing was done yet: the error comes from the call itself."""
    trace, depth = exc.__traceback__, 0
    while trace is not None:
        trace, depth = trace.tb_next, depth + 1
    return depth <= (2 if ours else 1)  # ours may have a wrapper around them
