"""``cloche config``: the settings in effect, and where each comes from."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cloche.cli.options import json_option
from cloche.cli.terminal import neutralise, people_console, write_json
from cloche.config import find_config_file, load_config, read_config_file
from cloche.isolation import Isolation
from cloche.policy import ExecutionPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

_OWN = ("backend", "python", "workspace")
_ALIASES = {"timeout_ms": "timeout", "memory_bytes": "memory"}


@click.command()
@click.argument("what", type=click.Choice(["show"]), default="show", metavar="[show]", expose_value=False)
@json_option
def command(as_json: bool) -> None:
    """Show every setting, its value, and its origin: default, file, or environment.

    Rising precedence: defaults, cloche.toml or [tool.cloche] in pyproject.toml (nearest upwards, or $CLOCHE_CONFIG),
    CLOCHE_* variables, arguments.
    """
    path = find_config_file()
    settings = effective_settings(path)
    if as_json:
        write_json({"file": str(path) if path else None, "settings": settings})
        return
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("setting", "value", "origin"):
        table.add_column(heading, overflow="fold")
    for name, setting in settings.items():
        style = "dim" if setting["origin"] == "default" else "bold"
        table.add_row(name, neutralise(str(setting["value"])), setting["origin"], style=style)
    console = people_console()
    console.print(table)
    console.print(f"file: {path or 'none found (cloche.toml, or [tool.cloche] in pyproject.toml)'}", soft_wrap=True)


def effective_settings(path: Path | None) -> dict[str, dict[str, Any]]:
    """Name, value and origin of each setting."""
    config = load_config()
    in_file = _names_in(read_config_file(path)) if path else set()
    found = {}
    for name in (*_OWN, *ExecutionPolicy.field_names()):
        value = getattr(config if name in _OWN else config.policy, name)
        if isinstance(value, Isolation):
            value = value.name
        elif name == "environment":
            value = dict(value)
        elif name == "mounts":
            value = [f"{mount.source}:{mount.target}{':rw' if mount.writable else ''}" for mount in value]
        found[name] = {
            "value": "auto" if name == "backend" and value is None else value,
            "origin": _origin(name, in_file),
        }
    return found


def _origin(name: str, in_file: set[str]) -> str:
    spellings = [name, _ALIASES.get(name, name)]
    if name not in ("environment", "mounts"):  # which no variable sets
        for spelling in spellings:
            variable = f"CLOCHE_{spelling.upper()}"
            if variable in os.environ:
                return variable
    return "file" if in_file & set(spellings) else "default"


def _names_in(data: Mapping[str, Any]) -> set[str]:
    nested = data.get("policy")
    names = {*data, *(nested if isinstance(nested, dict) else ())}
    return {re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower() for name in names}
