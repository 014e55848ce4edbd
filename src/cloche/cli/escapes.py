"""``cloche escapes``: try every known way out of a sandbox, and show what happened to the host."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from cloche.cli.failure import CODE_FAILED
from cloche.cli.options import json_option
from cloche.cli.terminal import neutralise, people_console, write_json
from cloche.errors import RequestError

if TYPE_CHECKING:
    from cloche.escapes import Outcome, Technique


@click.command()
@click.option("--backend", "-b", default="auto", metavar="NAME", help="The wall to try; auto (default), jail, native.")
@click.option("--only", "-o", multiple=True, metavar="ID", help="Only this technique, by id or name (repeatable).")
@click.option("--verbose", "-v", is_flag=True, help="Show what each technique saw.")
@json_option
def command(backend: str, only: tuple[str, ...], verbose: bool, as_json: bool) -> int:
    """Try every known way out of a sandbox, and show what happened to the host.

    Each technique is a cell that aims at a canary: a file, a secret, a service, a process of this machine, or the
    session beside it, which must keep its variables, files, deadline and speed. What counts is whether it got there.
    Nothing else is touched. Ends with 2 if anything got out.
    """
    from cloche.escapes import all_techniques, run_techniques

    chosen = _choose(only) if only else all_techniques()
    outcomes = run_techniques(backend, techniques=chosen)
    if as_json:
        write_json(scoreboard(outcomes))
    else:
        _show(outcomes, verbose=verbose)
    return 0 if all(outcome.contained for outcome in outcomes) else CODE_FAILED


def _choose(only: tuple[str, ...]) -> list[Technique]:
    from cloche.escapes import all_techniques

    unknown = [word for word in only if not any(word in (found.id, found.name) for found in all_techniques())]
    if unknown:
        raise RequestError(f"there is no technique {unknown[0]!r}", remedy="cloche escapes --json lists them")
    return [technique for technique in all_techniques() if technique.id in only or technique.name in only]


def scoreboard(outcomes: list[Outcome]) -> dict[str, Any]:
    """All outcomes and their sum, as plain data."""
    first = outcomes[0]
    effects = Counter(effect.value for outcome in outcomes for effect in outcome.effects)
    return {
        "backend": first.backend,
        "isolation": first.isolation.name if first.isolation is not None else None,
        "layers": list(first.layers),
        "tried": len(outcomes),
        "contained": sum(outcome.contained for outcome in outcomes),
        "effects": dict(sorted(effects.items())),
        "probes": sum(outcome.technique.is_probe for outcome in outcomes),
        "probes_answered_by_the_kernel": sum(outcome.reached is True for outcome in outcomes),
        "unexpected": [outcome.technique.name for outcome in outcomes if not outcome.as_expected],
        "ok": all(outcome.contained for outcome in outcomes),
        "outcomes": [outcome.to_dict() for outcome in outcomes],
    }


def _show(outcomes: list[Outcome], *, verbose: bool) -> None:
    from rich.text import Text

    console = people_console()
    for outcome in outcomes:
        line = Text("✓ " if outcome.contained else "✗ ", style="green" if outcome.contained else "bold red")
        line.append(f"{outcome.technique.id} ", style="dim")
        line.append(outcome.technique.title)
        if outcome.effects:
            line.append(f"  {', '.join(sorted(effect.value for effect in outcome.effects))}", style="bold red")
        elif outcome.reached:
            line.append("  the kernel answered", style="yellow")
        console.print(line, soft_wrap=True)
        if verbose and outcome.saw:
            console.print(Text("    " + neutralise(outcome.saw.splitlines()[-1]), style="dim"), soft_wrap=True)
        for change in outcome.neighbour:
            console.print(Text("    the session beside: " + neutralise(change), style="red"), soft_wrap=True)
    board = scoreboard(outcomes)
    console.print()
    console.print(Text(f"{board['backend']}, isolation {board['isolation']}: {', '.join(board['layers'])}"))
    style = "bold green" if board["ok"] else "bold red"
    held = f"{board['contained']} of {board['tried']} had no effect on this machine or the session beside"
    console.print(Text(held, style=style))
    if board["probes"]:
        answered = board["probes_answered_by_the_kernel"]
        console.print(Text(f"{answered} of {board['probes']} forbidden system calls were answered by the kernel"))
