"""``cloche setup``: fetch and build what a backend needs, ahead of its first session."""

from __future__ import annotations

import time

import click

from cloche.cli.options import json_option
from cloche.cli.terminal import Terminal, write_json
from cloche.factory import find_backend


@click.command()
@click.argument("backend")
@json_option
def command(backend: str, as_json: bool) -> None:
    """Set up BACKEND on this machine, for this user. Its first session would do it too, and take that much longer.

    Says on standard error what it is doing. Does nothing where everything is there.
    """
    found = find_backend(backend)
    terminal = Terminal()
    began = time.monotonic()
    steps: list[str] = []

    def tell(step: str) -> None:
        steps.append(step)
        terminal.note(f"{backend}: {step} ...")

    details = found.set_up(tell)
    seconds = round(time.monotonic() - began, 1)
    if as_json:
        write_json({"backend": backend, "steps": steps, "seconds": seconds, "details": dict(details or {})})
        return
    if details is None:
        terminal.out_line(f"{backend} needs no set-up")
        return
    terminal.out_line(f"{backend} is ready" + (f" ({seconds} s)" if steps else ""))
    for name, value in details.items():
        terminal.out_line(f"  {name}: {value}")
