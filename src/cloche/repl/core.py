"""What both faces of a workbench share: before a turn, after it, and what is kept of it."""

from __future__ import annotations

import hashlib
import json
import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cloche.errors import PolicyError, SnapshotError
from cloche.guardrails.unicode import sanitize_code_unicode
from cloche.guardrails.visitor import check
from cloche.guardrails.wording import explain
from cloche.isolation import Isolation
from cloche.repl import spill as spilling
from cloche.repl.bench import DOCS, STUBS, Bench, Benches
from cloche.repl.config import PromptConfig, REPLConfig
from cloche.repl.findings import Findings
from cloche.repl.redaction import redact
from cloche.repl.tokens import TokenCounter, default_counter
from cloche.repl.turn import TurnResult, compose_output, describe_failure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cloche.repl.bench import OpenTurn
    from cloche.result import SandboxResult

MOST_OUTPUT = 64 * 1024 * 1024
"""Characters of a turn's output that are kept; the rest is counted."""
MOST_VARIABLES_SHOWN = 20
_CHECKPOINT = struct.Struct(">4sBQ")
_MAGIC, _VERSION = b"CLWB", 1


@dataclass(frozen=True, slots=True)
class Ready:
    """Code that may run."""

    code: str
    notes: tuple[str, ...]


class EnvironmentCore:
    """One workbench without its sandbox."""

    def __init__(
        self,
        context: Any,
        config: REPLConfig | Mapping[str, Any] | None,
        prompt: PromptConfig | None,
        tools: Mapping[str, Any] | None,
        llm: Callable[..., Any] | None,
        counter: TokenCounter | None,
    ) -> None:
        if not isinstance(config, REPLConfig):
            config = REPLConfig.from_mapping(dict(config or {}))
        if llm is not None and not callable(llm):
            raise PolicyError("llm must be a function that takes a prompt", field="llm")
        self.config = config
        self.prompt = prompt or PromptConfig()
        self.context = context
        self.count = counter or default_counter()
        self.bench = Bench(config, tools, llm)
        self.bench.sources.set_context(context)
        self.benches = Benches()

    def policy_options(self) -> dict[str, Any]:
        """For a sandbox that is made for this."""
        return {
            "timeout_ms": int(self.config.timeout_seconds * 1000),
            "max_output_length": MOST_OUTPUT,
            "stdout_max_bytes": 4 * MOST_OUTPUT,
        }

    def descriptions(self, make: Callable[[str], Callable[..., Any]]) -> dict[str, Any]:
        """The host functions as a sandbox takes them."""
        table: dict[str, Any] = {}
        for name in self.bench.names:
            tool = self.bench.tools.get(name)
            described = DOCS.get(name) or (tool.description if tool else "") or _signature(name, tool)
            table[name] = {"tool": make(name), "description": described, "stub": STUBS.get(name, "plain")}
        table["FINAL"]["ends"] = True
        for name in ("FINAL_VAR", "help", "list_tools"):  # their work is done inside; FINAL_VAR says FINAL
            table[name] = {"tool": make("FINAL"), "description": DOCS[name], "stub": STUBS[name]}
        return table

    # -- before --------------------------------------------------------------------------------

    def examine(self, code: str, isolation: Isolation) -> Ready | TurnResult:
        """Code that may run, or a turn that is over before it began."""
        notes: list[str] = []
        if self.config.sanitize_unicode:
            repaired = sanitize_code_unicode(code)
            if repaired.replacements:
                notes.append(repaired.note)
            code = repaired.code
        if self.config.guard != "off":
            found = check(code, walled=isolation > Isolation.NONE)
            if found and self.config.guard == "enforce":
                return self._refusal(explain(found, code), tuple(notes))
            notes.extend(f"[guard-rails] line {one.line}, column {one.column}: {one.what}" for one in found)
        return Ready(code, tuple(notes))

    def _refusal(self, text: str, notes: tuple[str, ...]) -> TurnResult:
        output = self._clean("\n".join([*notes, text]))
        return TurnResult(
            output=output, error=self._clean(text), turn=self.bench.turns, notes=notes, shown=self.count(output)
        )

    # -- after ---------------------------------------------------------------------------------

    def needs_summary(self, turn: OpenTurn, result: SandboxResult) -> str | None:
        """What to ask a model before the turn can be concluded; None: nothing, or there is none."""
        output = self._clean(compose_output(result, self._error(turn, result)))
        if len(output) <= self.config.output_cap or self.bench.llm is None:
            return None
        return spilling.summary_request(self.bench.spill.summary, output, self.prompt)

    def conclude(
        self, turn: OpenTurn, ready: Ready, result: SandboxResult, started: float, summary: str | None
    ) -> TurnResult:
        """The result of a turn. `summary` is what a model answered to `needs_summary`."""
        self.bench.end_turn()
        error = self._error(turn, result)
        output = self._clean(compose_output(result, error))
        spilled = None
        if len(output) > self.config.output_cap:
            spilled = f"out:{turn.number}"
            output = self._spill(turn.number, output, summary)
        if ready.notes:
            output = "\n".join([*ready.notes, output])
        answer = turn.answer
        return TurnResult(
            output=output,
            is_final=answer is not None,
            final_answer=None if answer is None else self._clean(answer.text),
            final_value=None if answer is None else self._clean_value(answer.value),
            error=None if error is None else self._clean(error),
            elapsed_seconds=time.perf_counter() - started,
            turn=turn.number,
            spilled=spilled,
            notes=ready.notes,
            calls=tuple(turn.calls),
            shown=self.count(output),
            result=result,
        )

    def _error(self, turn: OpenTurn, result: SandboxResult) -> str | None:
        if turn.answer is not None or result.outcome == "ok" or (result.outcome == "exited" and result.exit_code == 0):
            return None
        return describe_failure(result)

    def _spill(self, number: int, output: str, summary: str | None) -> str:
        path = self.bench.spill.store(number, output)
        if summary is not None:
            shown = self.bench.spill.summary = spilling.bounded_summary(self._clean(summary), self.prompt)
        else:
            shown = spilling.head_and_tail(output)
        return spilling.compose(number, output, path, shown, self.prompt)

    def _clean(self, text: str) -> str:
        return redact(text) if self.config.redact else text

    def _clean_value(self, value: Any) -> Any:
        """Plain data with every text in it masked."""
        if not self.config.redact:
            return value
        if isinstance(value, str):
            return redact(value)
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
        shown = [f"  {name} ({kind})" for name, kind in variables.items() if name != "answer"]
        lines.append("variables:" if shown else "variables: none")
        lines.extend(shown[:MOST_VARIABLES_SHOWN])
        if len(shown) > MOST_VARIABLES_SHOWN:
            lines.append(f"  ... and {len(shown) - MOST_VARIABLES_SHOWN} more")
        if self.bench.spill.handles:
            lines.append(f"stored outputs: {', '.join(self.bench.spill.handles[-MOST_VARIABLES_SHOWN:])}")
        if self.bench.findings.all:
            lines.append(
                f"findings: {len(self.bench.findings.all)}, the last: {self.bench.findings.all[-1].content[:100]}"
            )
        lines.append(f"turns: {self.bench.turns}, looks: {self.bench.looks}")
        return self._clean("\n".join(lines))

    def reset(self) -> None:
        """As at the beginning."""
        bench = self.bench
        bench.spill.clear()
        bench.findings.all.clear()
        bench.looks = bench.turns = 0

    def branch(self) -> EnvironmentCore:
        """For a branch of the session: the same so far, its own from here on."""
        bench = self.bench
        core = EnvironmentCore(self.context, self.config, self.prompt, bench.tools, bench.llm, self.count)
        core.benches = self.benches
        core.take_over(self.to_data())
        return core

    def to_data(self) -> dict[str, Any]:
        """What is not in the sandbox."""
        bench, text = self.bench, None if self.context is None else self.bench.sources.context.text
        outputs = {handle[4:]: bench.spill.read(int(handle[4:])) for handle in bench.spill.handles}
        return {
            "turns": bench.turns,
            "looks": bench.looks,
            "findings": bench.findings.to_data(),
            "outputs": {number: output for number, output in outputs.items() if output is not None},
            "summary": bench.spill.summary,
            "context": None if text is None else _digest(text),
        }

    def to_checkpoint(self, snapshot: bytes) -> bytes:
        """All of it."""
        head = json.dumps(self.to_data()).encode()
        return _CHECKPOINT.pack(_MAGIC, _VERSION, len(head)) + head + snapshot

    def read_checkpoint(self, data: bytes) -> tuple[dict[str, Any], bytes]:
        """(what is not in the sandbox, the snapshot); nothing is changed yet."""
        try:
            magic, version, size = _CHECKPOINT.unpack_from(data)
            if (magic, version) != (_MAGIC, _VERSION) or _CHECKPOINT.size + size > len(data):
                raise ValueError("not a checkpoint of this version")
            head = json.loads(data[_CHECKPOINT.size : _CHECKPOINT.size + size])
            Findings.from_data(head["findings"])
            _ = int(head["turns"]), int(head["looks"]), str(head["summary"]), head["outputs"].items()
        except (struct.error, ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
            raise SnapshotError("these bytes are not a checkpoint", cause=str(exc)[:200]) from None
        text = None if self.context is None else self.bench.sources.context.text
        if head["context"] != (None if text is None else _digest(text)):
            raise SnapshotError(
                "the checkpoint was made with another context", remedy="make the environment with the same context"
            )
        return head, data[_CHECKPOINT.size + size :]

    def take_over(self, data: dict[str, Any]) -> None:
        bench = self.bench
        bench.turns, bench.looks = int(data["turns"]), int(data["looks"])
        bench.findings.all[:] = Findings.from_data(data["findings"]).all
        bench.spill.clear()
        for number, output in data["outputs"].items():
            bench.spill.store(int(number), str(output))
        bench.spill.summary = str(data["summary"])


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _signature(name: str, tool: Any) -> str:
    import inspect

    try:
        head = f"{name}{inspect.signature(tool.function)}"
    except (TypeError, ValueError, AttributeError):
        head = f"{name}(...)"
    doc = inspect.getdoc(tool.function) if tool is not None else None
    return f"{head}\n\n{doc}" if doc else head
