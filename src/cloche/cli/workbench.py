"""``cloche repl --environment``: a person at the bench where an agent works."""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cloche.cli.inputs import read_context
from cloche.cli.interrupts import cancel_on_interrupt, tidy_ending
from cloche.cli.named import NamedSession
from cloche.cli.repl import Repl, is_terminal, piped_lines
from cloche.cli.repl_commands import COMMANDS, Answer, ReplCommands
from cloche.cli.terminal import write_json
from cloche.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cloche.cli.options import Choices
    from cloche.repl.environment import REPLEnvironment

REMIND_AFTER, REMIND_AGAIN = 2.0, 10.0
"""Seconds of a turn after which a person is told that it still runs."""
WELCOME = 'peek(), grep("pattern"), FINAL(answer); list_tools() names the rest, help("grep") tells how.'


def work(choices: Choices, session: str | None, roots: tuple[str, ...], guard: str, *, as_json: bool) -> None:
    """Until the person leaves."""
    from cloche.repl.config import REPLConfig
    from cloche.repl.environment import REPLEnvironment
    from cloche.repl.sources import as_text
    from cloche.repl.turn_desk import MOST_CALLS, MOST_OUTPUT

    if session is not None:
        raise RequestError(
            "--environment has its own state", remedy="leave --session and --store out, or --environment"
        )
    placements = choices.placements()
    context = None if choices.context is None else read_context(choices.context)
    for root in roots:
        if not os.path.isdir(root):
            raise RequestError(f"there is no folder {root}", remedy="--root DIR names a folder to look at")
    limit = {} if choices.timeout is None else {"timeout_seconds": choices.timeout / 1000}
    config = REPLConfig.from_mapping({"guard": guard, "roots": roots, **limit})
    limits = {"max_bridge_calls": MOST_CALLS}
    if choices.max_output is None:
        limits |= {"max_output_length": MOST_OUTPUT, "stdout_max_bytes": 4 * MOST_OUTPUT}
    with (
        tidy_ending(),
        choices.sandbox(**limits) as sandbox,
        REPLEnvironment(context, config, sandbox=sandbox) as environment,
    ):
        for placement in placements:
            sandbox.put_file(placement.target, placement.read())
        bench = BenchRepl(environment, as_json=as_json)
        if not as_json and is_terminal(sys.stdin) and is_terminal(sys.stdout):
            size = "" if context is None else f"The context has {len(as_text(context)):,} characters. "
            bench.tell([f"{size}{WELCOME}"])
            bench.talk()
        else:
            bench.follow(piped_lines())


class BenchCommands(ReplCommands):
    """Commands at a workbench: it is begun anew as a whole, and says what an agent is told of it."""

    table: Mapping[str, tuple[str, str]] = {
        ":state": ("", "what an agent is told of the session"),
        **{name: command for name, command in COMMANDS.items() if name != ":save"},
    }

    def __init__(self, environment: REPLEnvironment, session: NamedSession) -> None:
        super().__init__(environment.sandbox, session)
        self._environment = environment

    def _state(self) -> Answer:
        state = self._environment.get_state()
        return Answer(state.splitlines(), {"state": state})

    def _reset(self) -> Answer:
        self._environment.reset()
        return Answer(["the session starts afresh: no variables, findings and stored outputs"], {"reset": True})


class BenchRepl(Repl):
    """Cells are turns of a workbench."""

    def __init__(self, environment: REPLEnvironment, *, as_json: bool) -> None:
        self._environment = environment
        self._person = False
        super().__init__(environment.sandbox, NamedSession(None, None, way_out=""), as_json=as_json)

    def _make_commands(self) -> ReplCommands:
        return BenchCommands(self._environment, self._session)

    def talk(self) -> None:
        """With a person."""
        self._person = True
        super().talk()

    def _cell(self, text: str) -> None:
        with self._reminding(), cancel_on_interrupt(self._sandbox):
            turn = self._environment.execute(text, timeout_ms=self._commands.timeout_ms)
        if self._as_json:
            write_json(turn.to_dict())
            return
        if turn.output:
            self._terminal.out_line(turn.output)
        if turn.is_final:
            self._terminal.out_line(f"FINAL: {turn.final_answer}")
        if turn.calls:
            calls = "1 host call" if len(turn.calls) == 1 else f"{len(turn.calls)} host calls"
            self._terminal.note(f"{turn.shown} in {turn.shown_bytes:,} bytes shown, {calls}")

    @contextmanager
    def _reminding(self) -> Iterator[None]:
        """Output comes at the end of a turn: who waits for it is to know that something goes on."""
        if not self._person:
            yield
            return
        done, begun = threading.Event(), time.monotonic()

        def remind() -> None:
            wait = REMIND_AFTER
            while not done.wait(wait):
                self._terminal.note(f"still running after {time.monotonic() - begun:.0f} s; Ctrl-C stops it")
                wait = REMIND_AGAIN

        helper = threading.Thread(target=remind, daemon=True)
        helper.start()
        try:
            yield
        finally:
            done.set()
            helper.join()
