"""``cloche repl --environment``: a person at the bench where an agent works."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from cloche.cli.inputs import read_context
from cloche.cli.interrupts import cancel_on_interrupt, tidy_ending
from cloche.cli.named import NamedSession
from cloche.cli.repl import Repl, is_terminal, piped_lines
from cloche.cli.terminal import write_json
from cloche.errors import RequestError

if TYPE_CHECKING:
    from cloche.cli.options import Choices
    from cloche.repl.environment import REPLEnvironment

WELCOME = 'peek(), grep("pattern"), FINAL(answer); list_tools() names the rest, help("grep") tells how.'


def work(choices: Choices, session: str | None, roots: tuple[str, ...], guard: str, *, as_json: bool) -> None:
    """Until the person leaves."""
    from cloche.repl.config import REPLConfig
    from cloche.repl.environment import REPLEnvironment

    if session is not None:
        raise RequestError("--environment has its own state", remedy="leave --session out, or --environment")
    placements = choices.placements()
    context = None if choices.context is None else read_context(choices.context)
    config = REPLConfig.from_mapping({"guard": guard, "roots": roots})
    limits = {"max_output_length": 1 << 26, "stdout_max_bytes": 1 << 28} if choices.max_output is None else {}
    with (
        tidy_ending(),
        choices.sandbox(**limits) as sandbox,
        REPLEnvironment(context, config, sandbox=sandbox) as environment,
    ):
        for placement in placements:
            sandbox.put_file(placement.target, placement.read())
        bench = BenchRepl(environment, as_json=as_json)
        if not as_json and is_terminal(sys.stdin) and is_terminal(sys.stdout):
            bench.tell([WELCOME if context is None else f"The context has {len(str(context))} characters. {WELCOME}"])
            bench.talk()
        else:
            bench.follow(piped_lines())


class BenchRepl(Repl):
    """Cells are turns of a workbench."""

    def __init__(self, environment: REPLEnvironment, *, as_json: bool) -> None:
        self._environment = environment
        super().__init__(environment.sandbox, NamedSession(None, None, way_out=""), as_json=as_json)

    def _cell(self, text: str) -> None:
        with cancel_on_interrupt(self._sandbox):
            turn = self._environment.execute(text, timeout_ms=self._commands.timeout_ms)
        if self._as_json:
            write_json(turn.to_dict())
            return
        if turn.output:
            self._terminal.out_line(turn.output)
        if turn.is_final:
            self._terminal.note(f"FINAL: {turn.final_answer}")
        if turn.calls and turn.shown is not None:
            kind = "about " if turn.shown.estimated else ""
            self._terminal.note(
                f"{kind}{turn.shown.number} tokens ({turn.shown.encoding}), {len(turn.calls)} host calls"
            )
        if turn.result is not None and turn.result.session_state == "reset":
            self._terminal.note("the session ended with this turn; its variables are gone")
