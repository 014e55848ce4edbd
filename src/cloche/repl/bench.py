"""The host's side of a workbench: every call of the code inside is served, counted and recorded here."""

from __future__ import annotations

import contextvars
import inspect
import threading
import time
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio

from cloche.errors import PolicyError, PrematureFinalError, RequestError
from cloche.repl import looking
from cloche.repl.ahead import SIDE_BY_SIDE, Ahead
from cloche.repl.findings import Findings
from cloche.repl.planning import PlannedCall, plan
from cloche.repl.sources import Sources
from cloche.repl.spill import Spill
from cloche.repl.turn import HostCall
from cloche.session.callbacks import RESERVED, calling_sandbox, mark_inside

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cloche.repl.ahead import Slot
    from cloche.repl.config import REPLConfig

LOOKS = frozenset({"peek", "grep", "list_dir", "file_info", "chunk_context"})
"""What counts as having looked before answering."""
READ_ONLY = frozenset({"peek", "grep", "list_dir", "file_info", "context_len"})
LONGEST_ARGUMENTS = 200

DOCS = {
    "peek": "peek(n=500) or peek(source, n=500, start=0, lines=None) -> str\n\nA piece of the context, of a stored "
    "output ('out:3') or of a file under a root. lines=(first, last) gives whole lines, from 1.",
    "grep": "grep(pattern, source=None, before=0, after=0, ignore_case=True, max_results=100) -> hits\n\nLines that "
    "match a regular expression (RE2: no lookaround, no backreference). Each hit is the line as text with .line, "
    ".column and .start; print(hits) shows them with their numbers; hits.total counts all.",
    "FINAL": "FINAL(answer)\n\nGive the final answer and end. Nothing after it runs.",
    "FINAL_VAR": "FINAL_VAR(name)\n\nGive the value of a variable as the final answer and end.",
    "STUCK": "STUCK(reason) -> str\n\nSay what holds you up; gives advice. Does not end the turn.",
    "context_len": "context_len() -> int\n\nCharacters of the context.",
    "chunk_context": "chunk_context(n_chunks=4, overlap=200) -> list of dicts\n\nThe context in pieces: index, start, "
    "end, text, char_count. Nothing is left out.",
    "list_dir": "list_dir(path='.') -> entries\n\nWhat is in a folder of the workspace or under a root; each entry is "
    "its name as text with .is_dir, .size and .path.",
    "file_info": "file_info(path) -> dict\n\nType, size and time of a file under a root.",
    "mark_finding": "mark_finding(content, tags=(), source=None) -> dict\n\nNote something down for later turns.",
    "list_findings": "list_findings() -> list of dicts\n\nWhat was noted down.",
    "llm_call": "llm_call(prompt, context_slice=None) -> str\n\nAsk a language model; it sees only what you give it.",
    "llm_batch": "llm_batch(prompts) -> list of str\n\nAsk many prompts side by side; answers in order.",
    "list_tools": "list_tools()\n\nEverything that can be called here.",
    "help": "help(name)\n\nHow something is called.",
}
STUBS = {
    "grep": "hits", "FINAL": "final", "FINAL_VAR": "final_var", "chunk_context": "chunks", "list_dir": "listing",
    "help": "help", "list_tools": "list_tools",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tool:
    """A host function for the code inside. `read_only`: it changes nothing, so it may be called ahead and beside
    others."""

    function: Callable[..., Any]
    description: str = ""
    read_only: bool = False


@dataclass(slots=True)
class Answer:
    """The last word of a turn."""

    text: str
    value: Any = None


@dataclass(slots=True)
class OpenTurn:
    """What happens in one turn."""

    number: int
    calls: list[HostCall] = field(default_factory=list)
    answer: Answer | None = None
    ahead: Ahead | None = None


class Bench:
    """State of one workbench. Its functions are called from any thread."""

    def __init__(
        self,
        config: REPLConfig,
        tools: Mapping[str, Any] | None,
        llm: Callable[..., Any] | None,
    ) -> None:
        self.config = config
        self.lock = threading.Lock()  # for counters only
        self.spill = Spill(config.spill_dir, config.spill_quota_bytes)
        self.sources = Sources(config.roots, self.spill.read)
        self.findings = Findings()
        self.looks = 0
        self.turns = 0
        self.turn = OpenTurn(0)
        self.sandbox_id = 0
        self.llm = llm
        self.tools = {name: _as_tool(name, tool) for name, tool in (tools or {}).items()}
        self._functions: dict[str, Callable[..., Any]] = {
            "peek": lambda *a, **k: looking.peek(self.sources, *a, **k),
            "grep": self._grep,
            "list_dir": lambda *a, **k: looking.list_dir(self.sources, *a, **k),
            "file_info": lambda *a, **k: looking.file_info(self.sources, *a, **k),
            "context_len": lambda: len(self.sources.context.text),
            "chunk_context": self._chunks,
            "FINAL": self._final,
            "STUCK": self._stuck,
            "mark_finding": lambda *a, **k: self.findings.mark(self.turn.number, *a, **k),
            "list_findings": self.findings.listed,
            "llm_call": self._llm_call,
            "llm_batch": self._llm_batch,
            **{name: tool.function for name, tool in self.tools.items()},
        }
        self.read_only = READ_ONLY | {name for name, tool in self.tools.items() if tool.read_only}

    # -- turns ---------------------------------------------------------------------------------

    def begin_turn(self, code: str, start: Callable[[PlannedCall, Slot], bool] | None = None) -> OpenTurn:
        """A new turn; what it can call ahead is under way from now on."""
        self.turns += 1
        turn = self.turn = OpenTurn(self.turns)
        if self.config.parallel_tools:
            calls = [call for call in plan(code, self.read_only, self._functions) if self._is_steady(call)]
            if len(calls) > 1:
                context = contextvars.copy_context()
                turn.ahead = Ahead(calls, lambda call: context.copy().run(self._run_ahead, call), start)
        return turn

    def _run_ahead(self, call: PlannedCall) -> Any:
        """On behalf of the code inside, as if it had called."""
        mark_inside(self.sandbox_id)
        return self.run(call.name, list(call.args), call.kwargs)

    def end_turn(self) -> None:
        """Nothing of it counts from here on."""
        if self.turn.ahead is not None:
            self.turn.ahead.forget()

    def _is_steady(self, call: PlannedCall) -> bool:
        """Whether the code of the turn cannot change what the call will find: it writes in the workspace only."""
        if call.name in self.tools or call.name == "context_len":
            return True
        if call.name not in ("peek", "grep"):
            return False
        named = [value for value in (*call.args, *call.kwargs.values()) if isinstance(value, str)]
        return not any(self.sources.is_file(name) for name in named)

    # -- serving -------------------------------------------------------------------------------

    def serve(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A call of the code inside."""
        started = time.perf_counter()
        slot = self.slot_for(name, args, kwargs)
        try:
            value = self.run(name, args, kwargs) if slot is None else slot.result()
        except BaseException as exc:
            self.record(name, args, kwargs, started, slot, failed=f"{type(exc).__name__}: {exc}")
            raise
        self.record(name, args, kwargs, started, slot, value)
        return value

    def slot_for(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Slot | None:
        """The call that was made ahead for this one. After one that may change something there are none."""
        ahead = self.turn.ahead
        if ahead is None:
            return None
        if name not in self.read_only:
            ahead.forget()
            return None
        return ahead.take(name, args, kwargs)

    def run(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Do what a function does, and count nothing."""
        return self._functions[name](*args, **kwargs)

    def record(
        self,
        name: str,
        args: list[Any],
        kwargs: dict[str, Any],
        started: float,
        slot: Slot | None,
        value: Any = None,
        failed: str | None = None,
    ) -> None:
        """What came of a call."""
        shown = ", ".join([*(f"{arg!r:.80}" for arg in args), *(f"{key}={arg!r:.80}" for key, arg in kwargs.items())])
        size = 0 if failed is not None else _characters(name, value)
        call = HostCall(name, shown[:LONGEST_ARGUMENTS], size, failed, time.perf_counter() - started, slot is not None)
        with self.lock:
            self.turn.calls.append(call)
            if failed is None and name in LOOKS:
                self.looks += 1

    def is_async(self, name: str) -> bool:
        """Whether somebody has to await it."""
        function = self._functions[name]
        if name in ("llm_call", "llm_batch"):
            return inspect.iscoroutinefunction(self.llm)
        return inspect.iscoroutinefunction(function)

    @property
    def names(self) -> list[str]:
        """Functions that the host serves."""
        return [name for name in self._functions if self.llm is not None or not name.startswith("llm_")]

    # -- the functions themselves ----------------------------------------------------------------

    def _grep(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        most = self.config.max_grep_results
        if len(args) < 7:
            asked = kwargs.get("max_results", most)
            kwargs["max_results"] = min(asked, most) if isinstance(asked, int) else asked
        return looking.grep(self.sources, *args, **kwargs)

    def _chunks(self, n_chunks: int = 4, overlap: int = 200) -> list[tuple[int, int]]:
        text = self.sources.context.text
        return looking.cuts(len(text), text, n_chunks, overlap)

    def _final(self, text: str, value: Any = None) -> None:
        config = self.config
        if config.require_exploration_before_final and self.looks < config.min_exploration_calls:
            raise PrematureFinalError(
                f"look before you answer: {self.looks} of {config.min_exploration_calls} looks so far",
                remedy="call peek() or grep() first, then FINAL again",
            )
        if not isinstance(text, str):
            raise RequestError("an answer is text")
        self.turn.answer = Answer(text, value)

    def _stuck(self, reason: Any = "") -> str:
        done = ", ".join(sorted({call.name for call in self.turn.calls})) or "nothing yet"
        advice = [f"Noted: {str(reason)[:300]}" if reason else "Noted.", f"Used in this turn: {done}."]
        if not self.looks:
            advice.append(
                "Nothing was looked at so far: peek() shows the beginning of the context, grep(pattern) finds."
            )
        if self.findings.all:
            advice.append(f"Findings so far: {len(self.findings.all)}, see list_findings().")
        advice.append("list_tools() names what can be called. FINAL(answer) ends with the best answer that you have.")
        return "\n".join(advice)

    def _llm_call(self, prompt: Any, context_slice: Any = None, **options: Any) -> Any:
        if self.llm is None:
            raise RequestError("there is no model here", remedy="REPLEnvironment(..., llm=...) gives one")
        text = str(prompt) if context_slice is None else f"{prompt}\n\n{context_slice}"
        return self.llm(text, **options)

    def _llm_batch(self, prompts: Any, **options: Any) -> Any:
        if isinstance(prompts, str) or not isinstance(prompts, list | tuple):
            raise RequestError(f"prompts must be a list, not {type(prompts).__name__}")
        if inspect.iscoroutinefunction(self.llm):
            return self._await_batch(prompts, options)
        calls = [PlannedCall("llm_call", (str(prompt), number)) for number, prompt in enumerate(prompts)]
        batch = Ahead(calls, lambda call: self._llm_call(call.args[0], **options))
        slots = [batch.take(call.name, list(call.args), {}) for call in calls]
        return [slot.result() for slot in slots if slot is not None]

    async def _await_batch(self, prompts: list[Any] | tuple[Any, ...], options: dict[str, Any]) -> list[Any]:
        answers: list[Any] = [None] * len(prompts)
        room = anyio.Semaphore(SIDE_BY_SIDE)

        async def ask(number: int, prompt: str) -> None:
            async with room:
                answers[number] = await self._llm_call(prompt, **options)

        async with anyio.create_task_group() as group:
            for number, prompt in enumerate(prompts):
                group.start_soon(ask, number, str(prompt))
        return answers


class Benches:
    """Which sandbox belongs to which workbench: branches share the functions of the one that they come from."""

    def __init__(self) -> None:
        self._all: weakref.WeakValueDictionary[int, Bench] = weakref.WeakValueDictionary()

    def put(self, sandbox_id: int, bench: Bench) -> None:
        self._all[sandbox_id] = bench
        bench.sandbox_id = sandbox_id

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


def _characters(name: str, value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if name == "grep":
        return sum(len(hit["text"]) + sum(map(len, (*hit["before"], *hit["after"]))) for hit in value["hits"])
    return len(repr(value)) if value is not None else 0
