"""Every turn passes here, before it runs and after it, whichever face of the workbench it came through."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from cloche.errors import PolicyError, RequestError
from cloche.guardrails.unicode import sanitize_code_unicode
from cloche.guardrails.visitor import check
from cloche.guardrails.wording import explain
from cloche.isolation import Isolation
from cloche.repl import spill as spilling
from cloche.repl.accounting import measure
from cloche.repl.bench import Bench, Benches
from cloche.repl.checkpoint import Kept, digest, unpack
from cloche.repl.config import PromptConfig, REPLConfig
from cloche.repl.manual import DOCS, STUBS
from cloche.repl.models import Models
from cloche.repl.redaction import redact
from cloche.repl.tokens import TokenCounter, Tokens, default_counter
from cloche.repl.turn import TurnResult, compose_ending, compose_output, describe_failure
from cloche_guest.values import RemoteObject

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cloche.aio import AsyncSandbox
    from cloche.repl.turn import OpenTurn
    from cloche.result import SandboxResult
    from cloche.sandbox import SessionSandbox

MOST_OUTPUT = 64 * 1024 * 1024
"""Characters of a turn's output that are kept; the rest is counted."""
MOST_VARIABLES_SHOWN = 20
MOST_NOTES = 20
MOST_CALLS = 10_000
"""Host calls in one turn: code that looks at each of some thousand lines is no attack."""
LONGEST_NAME = 80
PLACED = ("answer", "artifacts")
"""Variables that are there without anybody's doing."""
S = TypeVar("S", "SessionSandbox", "AsyncSandbox")


@dataclass(frozen=True, slots=True)
class Ready:
    """Code that may run."""

    code: str
    notes: tuple[str, ...]


class TurnDesk:
    """Lets code in, makes results of what it did, keeps what lasts between turns; waiting is left to the faces."""

    def __init__(
        self,
        context: Any,
        config: REPLConfig | Mapping[str, Any] | None,
        prompt: PromptConfig | None,
        tools: Mapping[str, Any] | None,
        llm: Callable[..., Any] | None,
        counter: TokenCounter | None,
    ) -> None:
        _check("config", config, REPLConfig | Mapping, "a REPLConfig, or settings by name")
        _check("prompt", prompt, PromptConfig, "a PromptConfig")
        _check("tools", tools, Mapping, "functions by name")
        if llm is not None and not callable(llm):
            raise PolicyError("llm must be a function that takes a prompt", field="llm")
        counts: Any = counter
        if counts is not None and not (callable(counts) and isinstance(counts("a"), Tokens)):
            raise PolicyError("counter must be a function from a text to Tokens", field="counter")
        if not isinstance(config, REPLConfig):
            config = REPLConfig.from_mapping(dict(config or {}))
        self.config = config
        self.prompt = prompt or PromptConfig()
        self.context = context
        self.count = counter or default_counter()
        self.bench = Bench(config, tools, Models(llm, self._clean), self.count, self._clean)
        self.bench.sources.set_context(context)
        self.benches = Benches()
        self._timeout_ms: int | None = self._configured_ms

    def furnish(
        self,
        create: Callable[..., S],
        sandbox: S | None,
        backend: str | None,
        options: dict[str, Any],
        make: Callable[[str], Callable[..., Any]],
    ) -> S:
        """The sandbox that was given, or a new one, with the functions that `make` makes."""
        table = self._descriptions(make)
        if sandbox is None:
            limits = {} if "policy" in options else self._limits()
            # A time that somebody set for the sandbox holds.
            self._timeout_ms = None if options.keys() & {"policy", "timeout_ms"} else limits["timeout_ms"]
            chosen = {} if backend is None else {"backend": backend}
            return create(**chosen, tools=table, **{**limits, **options})
        if backend is not None or options:
            raise PolicyError("give a sandbox, or what one is made of, not both", field="sandbox")
        if not hasattr(sandbox, "add_tools"):
            remedy = f"backend={sandbox!r:.60}" if isinstance(sandbox, str) else "create_sandbox() makes one"
            raise PolicyError(f"{sandbox!r:.60} is no sandbox", field="sandbox", remedy=remedy)
        sandbox.add_tools(table)
        return sandbox

    def take(self, sandbox: Any) -> None:
        """From now on its code calls this bench."""
        self.benches.put(sandbox.id, self.bench)
        self.bench.sources.workspace = sandbox.files_now

    def _limits(self) -> dict[str, Any]:
        """For a sandbox that is made for this."""
        return {
            "timeout_ms": self._configured_ms,
            "max_output_length": MOST_OUTPUT,
            "stdout_max_bytes": 4 * MOST_OUTPUT,
            "max_bridge_calls": MOST_CALLS,
        }

    def time_for(self, asked_ms: int | None) -> int | None:
        """What a turn may take, in milliseconds; None: what the sandbox says."""
        return self._timeout_ms if asked_ms is None else asked_ms

    @property
    def _configured_ms(self) -> int:
        return max(int(self.config.timeout_seconds * 1000), 1)

    def _descriptions(self, make: Callable[[str], Callable[..., Any]]) -> dict[str, Any]:
        """The host functions as a sandbox takes them."""
        table: dict[str, Any] = {}
        for name in self.bench.names:
            tool = self.bench.tools.get(name)
            described = DOCS.get(name) or _described(name, tool)
            table[name] = {"tool": make(name), "description": described, "stub": STUBS.get(name, "plain")}
        table["FINAL"]["ends"] = True
        for name in ("FINAL_VAR", "help", "list_tools"):  # their work is done inside; FINAL_VAR says FINAL
            table[name] = {"tool": _done_inside, "description": DOCS[name], "stub": STUBS[name]}
        return table

    # -- before --------------------------------------------------------------------------------

    def examine(self, code: Any, isolation: Isolation) -> Ready | TurnResult:
        """Code that may run, or a turn that is over before it began."""
        if not isinstance(code, str):
            raise RequestError(f"code must be text, not {type(code).__name__}")
        notes: list[str] = []
        if self.config.sanitize_unicode:
            repaired = sanitize_code_unicode(code)
            if repaired.replacements:
                notes.append(repaired.note)
            code = repaired.code
        if self.config.guard != "off":
            found = check(code, walled=isolation > Isolation.NONE)
            if found and self.config.guard == "enforce":
                return self._refusal(explain(found, code), notes)
            notes += [f"[guard-rails] line {one.line}, column {one.column}: {one.what}" for one in found[:MOST_NOTES]]
            if len(found) > MOST_NOTES:
                notes.append(f"[guard-rails] and {len(found) - MOST_NOTES} more")
        return Ready(code, tuple(map(self._clean, notes)))

    def _refusal(self, text: str, notes: list[str]) -> TurnResult:
        text = self._clean(text)
        if len(text) > self.config.output_cap:
            text = f"{text[: self.config.output_cap]}\n... [{len(text) - self.config.output_cap} more characters]"
        output = "\n".join([*map(self._clean, notes), text])
        return self._result(output, error=text, turn=self.bench.turns, notes=tuple(notes))

    def _result(self, output: str, **fields: Any) -> TurnResult:
        size = measure(output, self.count)
        return TurnResult(output=output, shown=size.tokens, shown_bytes=size.bytes, **fields)

    # -- after ---------------------------------------------------------------------------------

    def output_of(self, turn: OpenTurn, result: SandboxResult) -> str:
        """All that a turn gave, fit to be shown, however long."""
        return self._clean(compose_output(result, self._error(turn, result)))

    def summary_question(self, turn: OpenTurn, output: str) -> str | None:
        """What to ask a model before the turn can be concluded; None: nothing, or there is none.

        Behind the answer comes no other turn that a summary could serve.
        """
        if len(output) <= self.config.output_cap or self.bench.models.llm is None or turn.answer is not None:
            return None
        return spilling.summary_request(self.bench.spill.summary, output, self.prompt)

    def conclude(
        self, turn: OpenTurn, ready: Ready, result: SandboxResult, output: str, summary: str | None
    ) -> TurnResult:
        """The result of a turn. `summary` is what a model answered to `summary_question`."""
        error, answer = self._error(turn, result), turn.answer
        spilled = None
        if len(output) > self.config.output_cap:
            ending = self._clean(compose_ending(result, error))
            output, spilled = self._spill(turn.number, output, summary, ending)
        return self._result(
            "\n".join(part for part in (*ready.notes, output) if part),
            is_final=answer is not None,
            final_answer=None if answer is None else self._clean(answer.text),
            final_value=None if answer is None else self._clean_value(answer.value),
            error=error,
            elapsed_seconds=time.perf_counter() - turn.started,
            turn=turn.number,
            spilled=spilled,
            notes=ready.notes,
            calls=tuple(turn.calls),
            result=result,
        )

    def _error(self, turn: OpenTurn, result: SandboxResult) -> str | None:
        if turn.answer is not None or result.outcome == "ok" or (result.outcome == "exited" and result.exit_code == 0):
            return None
        return describe_failure(result, self._clean)

    def _spill(self, number: int, output: str, summary: str | None, ending: str) -> tuple[str, str | None]:
        """(what is shown in place of an output, its handle). `ending` is how the output ends, and is always shown."""
        path: Path | OSError
        try:
            path = self.bench.spill.store(number, output)
        except OSError as exc:  # a full disk must not cost the turn
            path = exc
        if summary is not None:
            shown = self.bench.spill.summary = spilling.bounded_summary(self._clean(summary), self.prompt)
        else:
            shown = spilling.head_and_tail(output.removesuffix(ending))
        cut = self.bench.spill.cut.get(number)
        composed = spilling.compose(number, output, path, shown, self.prompt, cut=cut, ending=ending)
        return composed, None if isinstance(path, OSError) else f"out:{number}"

    def _clean(self, text: str) -> str:
        return redact(text) if self.config.redact else text

    def _clean_value(self, value: Any) -> Any:
        """Plain data with every text in it masked."""
        if not self.config.redact:
            return value
        if isinstance(value, str):
            return redact(value)
        if isinstance(value, bytes):
            return redact(value.decode("latin-1")).encode("latin-1")
        if isinstance(value, RemoteObject):
            return RemoteObject(value.type, redact(value.repr))
        if isinstance(value, dict):
            return {self._clean_value(key): self._clean_value(item) for key, item in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return type(value)(self._clean_value(item) for item in value)
        return value

    # -- state ---------------------------------------------------------------------------------

    def describe_state(self, variables: Mapping[str, str]) -> str:
        """What a model should know of the session before its next turn."""
        lines = ["context: none"]
        if self.context is not None:
            lines = [f"context: {type(self.context).__name__} ({len(self.bench.sources.context.text)} characters)"]
        # Names and types are the code's own: they may be as long as it likes, and say what it likes on many lines.
        shown = [
            f"  {name:.{LONGEST_NAME}} ({' '.join(str(kind).split()):.{LONGEST_NAME}})"
            for name, kind in variables.items()
            if name not in PLACED and name.isidentifier()
        ]
        lines.append("variables:" if shown else "variables: none")
        lines.extend(shown[:MOST_VARIABLES_SHOWN])
        if len(shown) > MOST_VARIABLES_SHOWN:
            lines.append(f"  ... and {len(shown) - MOST_VARIABLES_SHOWN} more")
        if self.bench.spill.handles:
            lines.append(f"stored outputs: {', '.join(self.bench.spill.handles[-MOST_VARIABLES_SHOWN:])}")
        if self.bench.findings.all:
            last = " ".join(self._clean(self.bench.findings.all[-1].content)[:100].split())
            lines.append(f"findings: {len(self.bench.findings.all)}, the last: {last}")
        lines.append(f"turns: {self.bench.turns}, looks: {self.bench.looks}")
        return self._clean("\n".join(lines))

    def reset(self) -> None:
        """As at the beginning."""
        bench = self.bench
        bench.spill.clear()
        bench.findings.all.clear()
        bench.looks = bench.turns = 0

    def branch(self) -> TurnDesk:
        """For a branch of the session: the same so far, its own from here on."""
        bench = self.bench
        desk = TurnDesk(self.context, self.config, self.prompt, bench.tools, bench.models.llm, self.count)
        desk.benches, desk._timeout_ms = self.benches, self._timeout_ms
        desk.take_over(self.keep())
        return desk

    def keep(self) -> Kept:
        """What is not in the sandbox."""
        bench = self.bench
        outputs = {turn: bench.spill.read(turn) for turn in bench.spill.turns}
        return Kept(
            turns=bench.turns,
            looks=bench.looks,
            findings=list(bench.findings.all),
            outputs={turn: output for turn, output in outputs.items() if output is not None},
            summary=bench.spill.summary,
            context=self._context_digest(),
        )

    def read_checkpoint(self, data: bytes) -> tuple[Kept, bytes]:
        """(what is not in the sandbox, the snapshot); nothing is changed yet."""
        return unpack(data, self._context_digest())

    def take_over(self, kept: Kept) -> None:
        """Go on from there."""
        bench = self.bench
        bench.turns, bench.looks = kept.turns, kept.looks
        bench.findings.all[:] = kept.findings
        bench.spill.clear()
        for turn, output in kept.outputs.items():
            with suppress(OSError):  # as when it was made: one that cannot be stored is not there
                bench.spill.store(turn, output)
        bench.spill.summary = kept.summary

    def _context_digest(self) -> str | None:
        return digest(None if self.context is None else self.bench.sources.context.text)


def _done_inside(*_: Any) -> None:
    raise RequestError("there is nothing to be done by the host")


def _check(name: str, value: Any, kind: Any, wanted: str) -> None:
    if value is not None and not isinstance(value, kind):
        raise PolicyError(f"{name} must be {wanted}, not {value!r:.60}", field=name)


def _described(name: str, tool: Any) -> str:
    """How a tool is called and, on the same line, in short what it is for; then all that is said of it."""
    import inspect

    try:
        head = f"{name}{inspect.signature(tool.function)}"
    except (TypeError, ValueError, AttributeError):
        head = f"{name}(...)"
    about = ((tool.description if tool else "") or (inspect.getdoc(tool.function) if tool else "") or "").strip()
    first, _, rest = about.partition("\n")
    return f"{head}: {first}\n{rest}".rstrip() if about else head
