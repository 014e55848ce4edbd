"""``cloche demo``: a guided tour. Every step really runs, and the tour checks each promise as it goes."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cloche.cli.demo_steps import STEPS, Step
from cloche.cli.failure import CODE_FAILED
from cloche.cli.interrupts import read_line, tidy_ending
from cloche.cli.options import folder_for_results, json_option
from cloche.cli.outputs import ResultsFolder
from cloche.cli.terminal import neutralise, people_console, write_json
from cloche.cli.thumbnail import thumbnail
from cloche.errors import ClocheError

if TYPE_CHECKING:
    from typing import Self

    from rich.console import Console

    from cloche.repl.environment import REPLEnvironment
    from cloche.repl.turn import TurnResult
    from cloche.result import SandboxResult
    from cloche.sandbox import SessionSandbox

_SHOWN_LINES = 12
_PATIENCE_MS = 30_000
_WIDTH = 90


class Broken(Exception):
    """A promise did not come true."""


@click.command()
@click.option("--backend", "-b", metavar="NAME", help="auto (default), native, ...; cloche doctor lists them.")
@folder_for_results
@json_option
def command(backend: str | None, out: Path | None, as_json: bool) -> int:
    """A tour of what a sandbox does, in about two minutes of reading. Every step really runs and is checked."""
    folder = ResultsFolder(out).path if out is not None else Path(tempfile.mkdtemp(prefix="cloche-demo-"))
    with tidy_ending(), Stage(backend, folder, quiet=as_json) as stage:
        steps = [stage.perform(number, step) for number, step in enumerate(STEPS, 1)]
    success = all(step["ok"] for step in steps)
    if as_json:
        write_json({"success": success, "steps": steps, "out": str(folder)})
    else:
        stage.farewell(sum(step["ok"] for step in steps))
    return 0 if success else CODE_FAILED


class Stage:
    """One session, the reader's screen, and a folder for what is made."""

    def __init__(self, backend: str | None, folder: Path, *, quiet: bool) -> None:
        self._options: dict[str, Any] = {} if backend is None else {"backend": backend}
        self._folder = folder
        self._console: Console = people_console(quiet=quiet, width=_WIDTH)
        self._pauses = not quiet and sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
        self.questions: list[str] = []
        self._session = self.sandbox()
        self._results: list[SandboxResult] = []
        self._checks: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._session.destroy()

    def sandbox(self) -> SessionSandbox:
        """A sandbox as the tour uses them."""
        from cloche.cli.config_note import tell_config_file
        from cloche.factory import create_sandbox

        tell_config_file()
        return create_sandbox(on_llm_query=self._scripted_model, timeout_ms=_PATIENCE_MS, **self._options)

    def _scripted_model(self, prompt: str) -> str:
        """Stands in for a model: counts bells."""
        self.questions.append(prompt)
        return str(prompt.count("glass bell"))

    def perform(self, number: int, step: Step) -> dict[str, Any]:
        """One step, and what became of it."""
        self._checks, self._results, trouble = [], [], None
        self._console.print()
        self._console.rule(f"{number} of {len(STEPS)}  {step.title}", align="left", style="dim")
        self.say(step.promise)
        started = time.perf_counter()
        try:
            step.act(self)
        except (Broken, ClocheError) as exc:
            trouble = str(exc)
            self._line(f"✗ {trouble}", "bold red")
        took = (time.perf_counter() - started) * 1000
        if self._pauses and number < len(STEPS):
            self._console.print("[dim]Enter goes on, Ctrl-C leaves.[/dim] ", end="")
            if not read_line():
                raise EOFError
        return {
            "name": step.name,
            "title": step.title,
            "promise": step.promise,
            "ok": trouble is None,
            "checks": self._checks,
            "trouble": trouble,
            "outcomes": [result.outcome for result in self._results],
            "duration_ms": round(took, 1),
        }

    # -- what steps do -------------------------------------------------------------------------

    def run(
        self, code: str, session: SessionSandbox | None = None, *, timeout_ms: int | None = None, brief: bool = False
    ) -> SandboxResult:
        """Show a cell, run it, show what came of it."""
        self._show_code(code, brief=brief)
        result = (self._session if session is None else session).execute(code, timeout_ms=timeout_ms)
        self._results.append(result)
        self._show_result(result)
        return result

    def quietly(self, code: str) -> SandboxResult:
        """Run a cell that is no part of the story."""
        return self._session.execute(code)

    def check(self, kept: bool, promise: str) -> None:
        """The promise came true, or the step has failed."""
        if not kept:
            raise Broken(f"not so: {promise}")
        self._checks.append(promise)
        self._line(f"✓ {promise}", "green")

    def say(self, text: str) -> None:
        """A sentence of the guide."""
        self._console.print(neutralise(text), style="bold")

    def give_context(self, text: str) -> None:
        """Bind `context`."""
        self._session.initialize(text)

    def can(self, capability: str) -> bool:
        """Whether the wall of this tour can do that."""
        return capability in self._session.capabilities

    def branch(self, count: int) -> list[SessionSandbox]:
        """Branch the session, in view."""
        started = time.perf_counter()
        branches = self._session.fork_many(count)
        took = (time.perf_counter() - started) * 1000
        self._line(f"fork_many({count})  {took:.0f} ms", "dim")
        return branches

    def undoing(self) -> None:
        """Return to the savepoint, in view."""
        self._line("undo()", "dim")
        self._session.undo()

    def savepoint(self) -> None:
        """Mark the state, in view."""
        self._line("savepoint()", "dim")
        self._session.savepoint()

    def save(self) -> bytes:
        """Save the variables, in view."""
        data = self._session.snapshot().to_bytes()
        self._line(f"snapshot()  {len(data)} bytes", "dim")
        return data

    def turn(self, environment: REPLEnvironment, code: str) -> TurnResult:
        """Show a turn of an agent, run it, show what its model would be shown."""
        self._show_code(code, brief=False)
        turn = environment.execute(code)
        if turn.result is not None:
            self._results.append(turn.result)
        if turn.output:
            self._console.print(neutralise(turn.output), highlight=False, markup=False)
        return turn

    def put_file(self, path: str, text: str) -> None:
        """Hand a file in, in view."""
        self._line(f"put_file({path!r})", "dim")
        self._session.put_file(path, text)

    def take_file(self, path: str) -> bytes:
        """Take a file out and keep it."""
        data = self._session.get_file(path)
        target = self._folder / path
        target.write_bytes(data)
        self._line(f"saved {target}", "dim")
        return data

    def show_picture(self, name: str, data: str | bytes) -> None:
        """Keep a picture and show it as far as the terminal can."""
        content = data.encode() if isinstance(data, str) else data
        target = self._folder / name
        target.write_bytes(content)
        small = None if self._console.quiet else thumbnail(content, self._console)
        if small is not None:
            self._console.print(small, end="")
        self._line(f"saved {target} ({len(content)} bytes)", "dim")

    # -- the screen ----------------------------------------------------------------------------

    def farewell(self, kept: int) -> None:
        """The last word."""
        self._console.print()
        self._console.rule(style="dim")
        style = "bold green" if kept == len(STEPS) else "bold red"
        self._line(f"{kept} of {len(STEPS)} steps did what they promised. What was made is in {self._folder}", style)
        self._line(f'next: {this_command()} run -c "print(6*7)", or with repl, doctor, --help', "")

    def _line(self, text: str, style: str) -> None:
        self._console.print(neutralise(text), style=style, soft_wrap=True)

    def _show_code(self, code: str, *, brief: bool) -> None:
        if self._console.quiet:
            return
        lines = code.rstrip().splitlines()
        if brief and len(lines) > _SHOWN_LINES:
            lines = [*lines[:2], f"# ... {len(lines) - 4} lines ...", *lines[-2:]]
        if not self._console.is_terminal:
            self._line("\n".join(f"    {line}" for line in lines), "")
            return
        from rich.padding import Padding
        from rich.syntax import Syntax

        listing = Syntax("\n".join(lines), "python", theme="ansi_dark", background_color="default", word_wrap=True)
        self._console.print(Padding(listing, (0, 0, 0, 4)))

    def _show_result(self, result: SandboxResult) -> None:
        if result.stdout:
            self._line(result.stdout.rstrip("\n"), "")
        if result.stderr:
            self._line(result.stderr.rstrip("\n"), "yellow")
        if result.value is not None:
            self._line(f"→ {result.value}", "cyan")
        if result.error is not None and result.exception is None:
            self._line(result.error, "yellow")


def this_command() -> str:
    """What a shell starts us with from here: the name, where that finds us, else the path of this one."""
    here = os.path.abspath(sys.argv[0])
    if os.path.basename(here) != "cloche" or shutil.which("cloche") == here:
        return "cloche"
    near = os.path.relpath(here)
    return shlex.quote(here if near.startswith("..") else near)
