"""``cloche run``: one piece of code in a fresh sandbox."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from cloche.cli.failure import CODE_FAILED, as_data, exit_code_for, exit_code_of, report
from cloche.cli.inputs import STDIN, read_code
from cloche.cli.interrupts import cancel_on_interrupt, tidy_ending
from cloche.cli.options import (
    Choices,
    folder_for_results,
    json_option,
    sandbox_options,
    session_option,
    store_option,
)
from cloche.cli.outputs import Fetch, ResultsFolder, fetch, parse_fetch, save_displays, save_files
from cloche.cli.showing import LiveOutput, show_trouble, show_value
from cloche.cli.terminal import Terminal, one_line, write_json
from cloche.errors import ClocheError, RequestError

if TYPE_CHECKING:
    from pathlib import Path

    from cloche.cli.named import Kept, NamedSession
    from cloche.result import SandboxResult
    from cloche.sandbox import SessionSandbox

_NAMED_FILES = 5


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Where results go."""

    as_json: bool
    out: ResultsFolder | None
    fetches: list[Fetch]
    session: NamedSession | None


@click.command()
@click.argument("source", required=False, metavar="[FILE | -]")
@click.option("-c", "code", metavar="CODE", help="Run this text instead of a file.")
@click.option("--get", "-g", multiple=True, metavar="PATH[:DEST]", help="Copy a produced file out (repeatable).")
@folder_for_results
@session_option
@store_option
@sandbox_options
@json_option
def command(
    choices: Choices,
    source: str | None,
    code: str | None,
    get: tuple[str, ...],
    out: Path | None,
    session: str | None,
    store: str | None,
    as_json: bool,
) -> int:
    """Run a file, a line (-c) or standard input (-) in a fresh sandbox.

    Output appears as it is printed, then the value of a last bare expression. Pictures are saved and named. With
    --session the variables and files of earlier runs are there, and those of this one stay.

    \b
    cloche run -c "print(6*7)"
    cloche run report.py --file data.csv --out results
    cloche run - --timeout 5s --memory 512M < script.py
    cloche run --session analysis load.py
    """
    if source == STDIN and choices.context == STDIN:
        raise RequestError(
            "code and context cannot both come from standard input", remedy="cloche run FILE --context -"
        )
    text = read_code(source, code)
    placements = choices.placements()
    named = _named(session, store)
    fetches = [parse_fetch(item) for item in get]
    with tidy_ending(), choices.sandbox() as sandbox:
        results = None if out is None else ResultsFolder(out)
        for fetched in fetches:
            fetched.refuse_guests(sandbox)
        if results is not None:
            results.refuse_guests(sandbox)
        wanted = _Wanted(as_json, results, fetches, named)
        if named is not None:
            for note in named.begin(sandbox):
                Terminal().note(note)
        choices.furnish(sandbox, placements)
        return _run(sandbox, text, wanted)


def _run(sandbox: SessionSandbox, text: str, wanted: _Wanted) -> int:
    terminal = Terminal()
    live = None if wanted.as_json else LiveOutput(terminal)
    with cancel_on_interrupt(sandbox):
        result = sandbox.execute(text, on_output=live)
    if live is not None:
        live.finish(result)
        show_value(terminal, result)
    kept = None if wanted.session is None else wanted.session.keep(result)
    lost = _fetch_all(sandbox, wanted.fetches)
    if live is None:
        _write_document(result, kept, lost)
    else:
        for exc in lost.values():
            report(exc, as_json=False, terminal=terminal)
    files = [] if wanted.out is None else save_files(sandbox, _touched(result), wanted.out)
    displays = [] if wanted.as_json and wanted.out is None else save_displays(result, wanted.out)
    if live is not None:
        for path in (*files, *displays):
            terminal.note(f"saved {one_line(path)}")
        if wanted.out is None and sandbox.workspace is None and kept is None:
            _warn_of_loss(result, wanted.fetches, terminal)
        show_trouble(terminal, result)
        if kept is not None:
            _tell_of_session(kept, terminal)
        terminal.finish_line()
    if kept is not None and kept.error is not None:
        return exit_code_of(result) or exit_code_for(kept.error)
    return exit_code_of(result) or (CODE_FAILED if lost else 0)


def _write_document(result: SandboxResult, kept: Kept | None, lost: dict[str, ClocheError]) -> None:
    document = result.to_dict()
    if kept is not None:
        document["session"] = kept.data
    if lost:
        document["not_fetched"] = {path: as_data(exc) for path, exc in lost.items()}
    write_json(document)


def _tell_of_session(kept: Kept, terminal: Terminal) -> None:
    for note in kept.notes:
        terminal.note(note)
    if kept.error is not None:
        report(kept.error, as_json=False, terminal=terminal)


def _named(name: str | None, store: str | None) -> NamedSession | None:
    """The session that the run belongs to."""
    if name is None:
        if store is not None:
            raise RequestError("--store says where a session is kept, and none was named", remedy="--session NAME")
        return None
    from cloche.cli.named import NamedSession

    return NamedSession(store, name, way_out="run it again: it then works on what the other one left")


def _touched(result: SandboxResult) -> tuple[str, ...]:
    return (*result.files_created, *result.files_modified)


def _fetch_all(sandbox: SessionSandbox, fetches: list[Fetch]) -> dict[str, ClocheError]:
    """Copy out what was asked for; what could not be had, and why."""
    lost = {}
    for wanted in fetches:
        try:
            fetch(sandbox, wanted)
        except ClocheError as exc:
            lost[wanted.path] = exc
    return lost


def _warn_of_loss(result: SandboxResult, fetches: list[Fetch], terminal: Terminal) -> None:
    """Files in a private workspace go with it: say so, and how to keep them."""
    kept = {wanted.path for wanted in fetches}
    lost = [path for path in _touched(result) if path not in kept]
    if lost:
        more = f" and {len(lost) - _NAMED_FILES} more" if len(lost) > _NAMED_FILES else ""
        terminal.note(
            f"not kept: {', '.join(map(one_line, lost[:_NAMED_FILES]))}{more} (--out DIR or --get PATH keeps files)"
        )
