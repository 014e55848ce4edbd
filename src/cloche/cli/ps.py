"""``cloche ps``: the sessions of this machine."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from cloche.cli.options import json_option
from cloche.cli.terminal import one_line, people_console, write_json
from cloche.session.folder import find_sessions

if TYPE_CHECKING:
    from cloche.session.folder import FoundSession


@click.command()
@json_option
def command(as_json: bool) -> None:
    """List sessions: those at work, and those whose host is gone."""
    sessions = find_sessions()
    if as_json:
        write_json([as_plain(session) for session in sessions])
        return
    if not sessions:
        click.echo("no sessions")
        return
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("id", "backend", "state", "host", "guest", "age", "workspace"):
        table.add_column(heading, overflow="fold")
    now = time.time()
    for session in sessions:
        guest = "-" if session.guest_pid is None else f"{session.guest_pid}{'' if session.guest_alive else ' (gone)'}"
        host = f"{session.host_pid or '?'}{'' if session.host_alive else ' (gone)'}"
        private = not session.workspace or session.workspace.startswith(str(session.path))
        workspace = "private" if private else session.workspace
        row = (session.id, session.backend, state_of(session), host, guest, age(now - session.created), workspace)
        table.add_row(*(one_line(cell) for cell in row))
    people_console().print(table)
    if any(session.stale for session in sessions):
        click.echo("left over sessions are removed by: cloche clean")


def state_of(session: FoundSession) -> str:
    """One word for people and programs."""
    return "left over" if session.stale else "live"


def as_plain(session: FoundSession) -> dict[str, Any]:
    """A session as JSON."""
    return {
        "id": session.id,
        "state": state_of(session),
        "backend": session.backend,
        "host_pid": session.host_pid or None,
        "host_alive": session.host_alive,
        "guest_pid": session.guest_pid,
        "guest_alive": session.guest_alive,
        "created": session.created,
        "workspace": session.workspace,
        "path": str(session.path),
    }


def age(seconds: float) -> str:
    """``12 s``, ``3 min``, ``2 h``, ``4 d``."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} s"
