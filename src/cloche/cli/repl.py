"""``cloche repl``: a live session, line by line; also without a terminal, reading cells from a pipe."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from cloche import __version__
from cloche.cli.failure import as_data, report
from cloche.cli.inputs import STDIN
from cloche.cli.interrupts import cancel_on_interrupt, tidy_ending
from cloche.cli.named import NamedSession
from cloche.cli.options import Choices, json_option, sandbox_options, session_option, store_option
from cloche.cli.outputs import save_displays
from cloche.cli.repl_commands import ReplCommands
from cloche.cli.repl_input import COMMAND_SIGN, cells
from cloche.cli.showing import LiveOutput, show_trouble, show_value
from cloche.cli.terminal import Terminal, one_line, write_json
from cloche.errors import ClocheError, RequestError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cloche.cli.repl_prompt import Prompt
    from cloche.result import SandboxResult
    from cloche.sandbox import SessionSandbox

GUARDS = ("enforce", "warn", "off")
_FAREWELLS = ("exit", "exit()", "quit", "quit()")
"""What people type to leave; inside, they would only end the cell."""


@click.command()
@session_option
@store_option
@click.option("--environment", is_flag=True, help="At an agent's workbench: peek, grep, FINAL and the rest.")
@click.option("--root", multiple=True, metavar="DIR", help="With --environment: a folder to look at (repeatable).")
@click.option("--guard", type=click.Choice(GUARDS), help="With --environment: the guard-rails. Default: warn.")
@sandbox_options
@json_option
def command(
    choices: Choices,
    session: str | None,
    store: str | None,
    environment: bool,
    root: tuple[str, ...],
    guard: str | None,
    as_json: bool,
) -> None:
    """Work with a live session: variables stay from cell to cell.

    Enter runs a complete cell, an empty line ends a block, Tab completes, Ctrl-C cancels the running cell and keeps
    the session, Ctrl-D leaves, :help lists the commands. Without a terminal, cells are read from standard input;
    with --json each gives one line. With --session the variables and files of the last time are there, and each cell is
    saved; :save NAME makes a session of one that was begun without. With --environment --context FILE you sit where an
    agent sits: peek(), grep(), FINAL() and everything else that list_tools() names.
    """
    if choices.context == STDIN and not is_terminal(sys.stdin):
        raise RequestError("standard input cannot be both the context and the cells", remedy="--context FILE")
    if environment:
        from cloche.cli.workbench import work

        work(choices, session or store, root, guard or "warn", as_json=as_json)
        return
    for option, given in (("--root", root), ("--guard", guard)):
        if given:
            raise RequestError(f"{option} belongs to the workbench", remedy=f"cloche repl --environment {option} ...")
    placements = choices.placements()
    named = NamedSession(store, session, way_out=":save NAME keeps this one under another name")
    with tidy_ending(), choices.sandbox() as sandbox:
        notes = named.begin(sandbox)
        choices.furnish(sandbox, placements)
        repl = Repl(sandbox, named, as_json=as_json)
        repl.tell(notes)
        if not as_json and is_terminal(sys.stdin) and is_terminal(sys.stdout):
            repl.talk()
        else:
            repl.follow(piped_lines())


class Repl:
    """One session and what is done in it."""

    def __init__(self, sandbox: SessionSandbox, session: NamedSession, *, as_json: bool) -> None:
        self._sandbox = sandbox
        self._session = session
        self._as_json = as_json
        self._terminal = Terminal()
        self._commands = self._make_commands()

    def _make_commands(self) -> ReplCommands:
        return ReplCommands(self._sandbox, self._session)

    def talk(self) -> None:
        """With a person."""
        from cloche.cli.repl_prompt import Prompt

        prompt = Prompt(self._sandbox, self._commands.table)
        self._terminal.note(
            f"Cloche {__version__}, {self._sandbox.backend} backend, isolation {self._sandbox.isolation}. "
            ":help for commands, Ctrl-D to leave."
        )
        if self._session.name is not None:
            begun = "a new session" if self._session.is_new else "back in the session"
            self._terminal.note(f"This is {begun} {self._session.name!r}; each cell is saved.")
        while True:
            try:
                text = prompt.read()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            self._tell_trouble(prompt)
            if text.strip() and not self.handle(text):
                return

    def follow(self, lines: Iterator[str]) -> None:
        """With a pipe."""
        for text in cells(lines):
            if not self.handle(text):
                return

    def handle(self, text: str) -> bool:
        """Carry out a cell or a command; False to leave."""
        if text.strip() in _FAREWELLS:
            return False
        try:
            if text.lstrip().startswith(COMMAND_SIGN):
                return self._command(text)
            self._cell(text)
        except ClocheError as exc:
            self._trouble(exc)
        except KeyboardInterrupt:
            self._terminal.note("interrupted")
        self._terminal.finish_line()
        return True

    def _command(self, text: str) -> bool:
        answer = self._commands.run(text)
        if answer.changed:
            self._keep()
        if self._as_json and not answer.leave:
            write_json(answer.data)
        else:
            for line in answer.lines:
                self._terminal.out_line(line)
        return not answer.leave

    def _cell(self, text: str) -> None:
        live = None if self._as_json else LiveOutput(self._terminal)
        self.tell(self._session.recover())
        with cancel_on_interrupt(self._sandbox):
            result = self._sandbox.execute(text, timeout_ms=self._commands.timeout_ms, on_output=live)
        if live is None:
            kept = self._session.keep(result)
            write_json({**result.to_dict(), "session": kept.data} if kept.data else result.to_dict())
            return
        live.finish(result)
        show_value(self._terminal, result)
        for path in save_displays(result, None):
            self._terminal.note(f"saved {one_line(path)}")
        show_trouble(self._terminal, result)
        self._keep(result)
        if result.session_state == "reset" and self._session.name is None:
            self._terminal.note("the session ended with this cell; its variables are gone, the next cell starts afresh")

    def tell(self, notes: list[str]) -> None:
        """Say what a person should know."""
        for note in notes:
            self._terminal.note(note)

    def _keep(self, result: SandboxResult | None = None) -> None:
        kept = self._session.keep(result)
        self.tell(kept.notes)
        if kept.error is not None:
            self._trouble(kept.error)

    def _tell_trouble(self, prompt: Prompt) -> None:
        """A session that was lost while a name was completed must not be a surprise later."""
        trouble, prompt.completer.trouble = prompt.completer.trouble, None
        if trouble is not None:
            self._trouble(trouble)

    def _trouble(self, exc: ClocheError) -> None:
        if self._as_json:
            write_json(as_data(exc))
        else:
            report(exc, as_json=False, terminal=self._terminal)


def is_terminal(stream: Any) -> bool:
    """Whether a person is there."""
    return stream is not None and stream.isatty()


def piped_lines() -> Iterator[str]:
    """Standard input, line by line."""
    if sys.stdin is None:
        raise RequestError("standard input is closed", remedy="feed it: cloche repl < FILE")
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError as exc:
            raise RequestError(f"line {number} of standard input is not UTF-8 text", cause=str(exc)) from None
