"""``cloche session``: sessions that last. Look at them, carry them elsewhere, remove them."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cloche.cli.named import open_shelf
from cloche.cli.options import json_option, store_option
from cloche.cli.ps import age
from cloche.cli.terminal import Terminal, one_line, people_console, write_json
from cloche.errors import ConflictError, RequestError, SessionFileError, UnknownSessionError

if TYPE_CHECKING:
    from cloche.journal.session_file import SessionFile, SessionSummary
    from cloche.journal.shelf import SessionShelf
    from cloche.stores.interface import Entry

SUFFIX = ".cloche"
_CELLS_SHOWN = 20
_CODE_WIDTH = 60
_LOOKED_INTO = 4 << 20
"""Bytes up to which `list` reads a session to count what is in it."""


@click.group(
    invoke_without_command=True,
    epilog="Begin a session with: cloche run --session NAME -c CODE, or: cloche repl --session NAME",
)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Sessions that last.

    A session is begun and gone on with by `cloche run --session NAME` and `cloche repl --session NAME`: its variables
    and files come back, and every cell is written down.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@command.command("list")
@store_option
@json_option
def list_sessions(store: str | None, as_json: bool) -> None:
    """List your sessions."""
    shelf = open_shelf(store)
    rows = [_row(shelf, entry) for entry in shelf.entries()]
    if as_json:
        write_json(rows)
        return
    if not rows:
        click.echo("no sessions yet; begin one with: cloche run --session NAME -c CODE")
        return
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("name", "cells", "variables", "files", "size", "saved"):
        table.add_column(heading, overflow="fold", justify="left" if heading in ("name", "saved") else "right")
    now = time.time()
    for row in rows:
        counts = ("-" if row[name] is None else str(row[name]) for name in ("cells", "variables", "files"))
        table.add_row(one_line(row["name"]), *counts, _size(row["size"]), f"{age(now - row['saved'])} ago")
    people_console().print(table)


def _row(shelf: SessionShelf, entry: Entry) -> dict[str, Any]:
    name = entry.key.partition("/")[2]
    row: dict[str, Any] = {
        "name": name, "cells": None, "variables": None, "files": None, "size": entry.size, "saved": entry.written,
    }  # fmt: skip
    if entry.size <= _LOOKED_INTO:
        try:
            summary = shelf.summary(name)
        except RequestError as exc:  # damaged, or removed meanwhile: the others are listed all the same
            return {**row, "trouble": exc.message}
        row |= {
            "cells": len(summary.cells),
            "variables": len(summary.variables),
            "files": len(summary.artifacts),
        }
    return row


@command.command()
@click.argument("target", metavar="NAME|FILE")
@click.option("--all", "-a", "everything", is_flag=True, help="All cells, with all of their code and output.")
@store_option
@json_option
def show(target: str, everything: bool, store: str | None, as_json: bool) -> None:
    """Say what is in a session or a session file, without loading it."""
    from cloche.journal.session_file import read_summary

    path = session_file(target, store)
    summary = read_summary(path) if path is not None else open_shelf(store).summary(target)
    if as_json:
        write_json(as_data(summary))
        return
    terminal = Terminal()
    for line in _lines(summary, everything=everything):
        terminal.out_line(one_line(line))


@command.command()
@click.argument("name")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--force", "-f", is_flag=True, help="Replace the file if it is there.")
@store_option
@json_option
def save(name: str, file: Path | None, force: bool, store: str | None, as_json: bool) -> None:
    """Save a session as one file, to be carried elsewhere. Default: NAME.cloche."""
    from cloche.journal.container import write_whole

    data = open_shelf(store).export(name)
    target = file or Path(f"{name}{SUFFIX}")
    if os.path.isdir(target):
        target = target / f"{name}{SUFFIX}"
    if os.path.lexists(target) and not force:
        raise RequestError(
            f"{target} is there already", remedy=f"cloche session save {name} {target} --force, or name another file"
        )
    write_whole(target, data)
    if as_json:
        write_json({"name": name, "file": str(target), "size": len(data)})
    else:
        click.echo(f"saved {name} as {target} ({_size(len(data))}); elsewhere: cloche session load {target.name}")


@command.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("name", required=False)
@click.option("--force", "-f", is_flag=True, help="Replace a session of that name.")
@store_option
@json_option
def load(file: Path, name: str | None, force: bool, store: str | None, as_json: bool) -> None:
    """Take a session file among your sessions. Nothing in it is run; that happens behind a wall, when you go on."""
    from cloche.journal.session_file import SessionFile

    session = SessionFile.read(file)
    chosen = name or session.summary.name
    try:
        open_shelf(store).put(chosen, session, seen=None, replace=force)
    except ConflictError as exc:
        raise ConflictError(
            exc.message, remedy=f"cloche session load {file} ANOTHER-NAME, or --force to replace it"
        ) from None
    except SessionFileError:
        raise
    except RequestError as exc:
        if name is None and "name of a session" in exc.message:
            exc.remedy = f"cloche session load {file} NAME"
        raise
    if as_json:
        write_json({"name": chosen, "cells": len(session.summary.cells)})
    else:
        click.echo(f"loaded {chosen} ({_counts(session)}); go on with: cloche repl --session {chosen}")


@command.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@store_option
@json_option
def rm(names: tuple[str, ...], store: str | None, as_json: bool) -> None:
    """Remove sessions."""
    shelf = open_shelf(store)
    known = shelf.names()
    for name in names:
        if name not in known:
            shelf.export(name)  # which says what is wrong, before anything is removed
    for name in names:
        shelf.remove(name)
    shelf.store.collect()
    if as_json:
        write_json({"removed": list(names)})
    else:
        click.echo(f"removed {', '.join(names)}")


def session_file(target: str, store: str | None) -> Path | None:
    """The file that `target` names, or None when it is the name of a session, which comes first; ``./x`` is a file."""
    path = Path(target)
    if os.sep in target or target.endswith(SUFFIX):
        if not path.exists():
            raise RequestError(f"there is no file {target}", remedy="cloche session list shows sessions by name")
        return path
    if path.is_file() and target not in open_shelf(store).names():
        return path
    return None


def read_target(target: str, store: str | None) -> SessionFile:
    """The session that a name or a file stands for, with its data."""
    from cloche.journal.session_file import SessionFile

    path = session_file(target, store)
    if path is not None:
        return SessionFile.read(path)
    try:
        return open_shelf(store).get(target).session
    except UnknownSessionError as exc:
        exc.remedy = "cloche session list shows them all; or name a session file"
        raise


# -- what is in it ---------------------------------------------------------------------------------


def as_data(summary: SessionSummary) -> dict[str, Any]:
    """For programs: everything but the data itself."""
    versions = summary.versions
    return {
        "name": summary.name,
        "created": summary.created,
        "saved": summary.saved,
        "cloche": summary.cloche,
        "backend": summary.backend,
        "isolation": summary.isolation,
        "python": versions.python,
        "implementation": versions.implementation,
        "platform": versions.platform,
        "packages": dict(versions.packages),
        "bridges": list(summary.bridges),
        "journal": [event.to_data() for event in summary.journal],
        "variables": [
            {"name": it.name, "type": it.type, "size": it.size, "shares_with": it.shares_with}
            for it in summary.variables
        ],
        "skipped": [{"name": it.name, "reason": it.reason} for it in summary.skipped],
        "files": dict(summary.artifacts),
        "left_out": [{"path": it.name, "reason": it.reason} for it in summary.left_out],
    }


def _lines(summary: SessionSummary, *, everything: bool) -> list[str]:
    now = time.time()
    versions = summary.versions
    cells, saved, begun = _plural(len(summary.cells), "cell"), age(now - summary.saved), age(now - summary.created)
    python = f"{versions.implementation} {versions.python} on {versions.platform}"
    wall = f"backend {summary.backend} ({summary.isolation})"
    lines = [
        f"{summary.name}: {cells}, saved {saved} ago, begun {begun} ago",
        f"  {python}, {wall}, Cloche {summary.cloche}",
    ]
    if versions.packages:
        lines.append(f"  with {', '.join(f'{name} {version}' for name, version in versions.packages.items())}")
    lines += _section("cells", _cell_lines(summary, everything=everything))
    lines += _section("variables", _table([_variable(it) for it in summary.variables]))
    lines += _section("not saved", _table([(it.name, it.reason) for it in summary.skipped]))
    lines += _section("files", _table([(path, _size(size)) for path, size in summary.artifacts.items()]))
    lines += _section("files left out", _table([(it.name, it.reason) for it in summary.left_out]))
    return lines


def _cell_lines(summary: SessionSummary, *, everything: bool) -> list[str]:
    cells = list(enumerate(summary.cells, 1))
    hidden = 0 if everything else max(0, len(cells) - _CELLS_SHOWN)
    lines = [f"... {_plural(hidden, 'earlier cell')} (--all shows them)"] if hidden else []
    for number, cell in cells[hidden:]:
        first, *rest = cell.code.splitlines() or [""]
        told = cell.error if cell.outcome == "error" and cell.error else cell.outcome
        calls = f", {_plural(len(cell.calls), 'bridge call')}" if cell.calls else ""
        lines.append(f"{number:>4}  {_cut(first, rest)}  # {told.splitlines()[0] if told else ''}{calls}")
        if everything:
            lines += [f"      {line}" for line in rest]
            lines += [f"      > {line}" for line in (cell.stdout + (cell.value or "")).splitlines()]
    return lines


def _cut(first: str, rest: list[str]) -> str:
    if len(first) > _CODE_WIDTH or rest:
        return f"{first[: _CODE_WIDTH - 4].rstrip()} ..."
    return first


def _variable(variable: Any) -> tuple[str, str, str]:
    size = "" if variable.size is None else _size(variable.size)
    shared = f", shared with {', '.join(variable.shares_with)}" if variable.shares_with else ""
    return variable.name, variable.type or "?", f"{size}{shared}"


def _section(title: str, lines: list[str]) -> list[str]:
    return [title, *(f"  {line}" for line in lines)] if lines else []


def _table(rows: list[Any]) -> list[str]:
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))] if rows else []
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _counts(session: SessionFile) -> str:
    summary = session.summary
    return f"{_plural(len(summary.cells), 'cell')}, {_plural(len(summary.variables), 'variable')}"


def _plural(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _size(size: int) -> str:
    for unit, factor in (("GB", 2**30), ("MB", 2**20), ("kB", 2**10)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return _plural(size, "byte")
