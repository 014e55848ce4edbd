"""``cloche clean``: remove what a crash left behind."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from cloche.cli.failure import CODE_FAILED
from cloche.cli.options import json_option
from cloche.cli.ps import as_plain
from cloche.cli.terminal import Terminal, one_line, write_json
from cloche.session.folder import find_sessions

if TYPE_CHECKING:
    from cloche.backends.jail.upkeep import Leftover


@click.command()
@click.option("--dry-run", "-n", is_flag=True, help="Only say what would be removed.")
@json_option
def command(dry_run: bool, as_json: bool) -> int:
    """Remove sessions whose host is gone, and their cgroups, and end a guest that outlived it.

    Sessions of a living process are never touched.
    """
    found = find_sessions()
    stale = [session for session in found if session.stale]
    groups = [left for left in leftovers() if left.is_group]
    stuck = [] if dry_run else [left for left in groups if not left.remove()]
    groups = [left for left in groups if left not in stuck]
    if not dry_run:
        for session in stale:
            session.clean()
    failed = [session for session in stale if not dry_run and session.path.exists()]
    removed = [session for session in stale if session not in failed]
    live = len(found) - len(stale)
    if as_json:
        write_json(
            {
                "dry_run": dry_run,
                "removed": [as_plain(session) for session in removed],
                "failed": [as_plain(session) for session in failed],
                "groups": [left.path for left in groups],
                "failed_groups": [left.path for left in stuck],
                "live": live,
            }
        )
    else:
        terminal = Terminal()
        for path in dict.fromkeys([*(left.path for left in groups), *(str(session.path) for session in removed)]):
            terminal.out_line(f"{'would remove' if dry_run else 'removed'} {one_line(path)}")
        for place in (*(left.path for left in stuck), *(session.path for session in failed)):
            terminal.note(f"error: {one_line(place)} could not be removed")
        if not stale and not groups and not stuck:
            terminal.out_line("nothing to clean")
        if live:
            terminal.out_line(f"{live} live session{'s' if live > 1 else ''} left alone")
    return CODE_FAILED if failed or stuck else 0


def leftovers() -> list[Leftover]:
    """What the jail's dead hosts left; nothing on systems that have no jail."""
    if sys.platform != "linux":
        return []
    from cloche.backends.jail.upkeep import leftovers as find

    return find()
