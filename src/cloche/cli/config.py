"""``cloche config``: the settings in effect, and where each comes from."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from cloche.cli.options import json_option
from cloche.cli.terminal import neutralise, one_line, people_console, write_json
from cloche.config import find_config_file, load_config
from cloche.config_files import ConfigFile, config_files, passed_over, snake_case
from cloche.isolation import Isolation
from cloche.policy import ExecutionPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

_OWN = ("backend", "python", "workspace")
_ORIGINS = {"own": "yours", "named": "named", "found": "found: it may not set what is run or opened"}
_ALIASES = {"timeout_ms": "timeout", "memory_bytes": "memory"}


@click.command()
@click.argument("what", type=click.Choice(["show"]), default="show", metavar="[show]", expose_value=False)
@json_option
def command(as_json: bool) -> None:
    """Show every setting, its value, and its origin: default, file, or environment.

    Rising precedence: defaults, your own file (~/.config/cloche/cloche.toml), cloche.toml or [tool.cloche] in
    pyproject.toml (nearest upwards, or $CLOCHE_CONFIG), CLOCHE_* variables, arguments. A file that was merely found may
    not set what is run or opened.
    """
    path = find_config_file()
    files = config_files(None, os.environ)
    ignored = passed_over()
    settings = effective_settings(files)
    if as_json:
        write_json(
            {
                "file": str(path) if path else None,
                "files": [{"path": str(file.path), "origin": file.origin} for file in files],
                "passed_over": [{"path": str(file), "reason": why} for file, why in ignored],
                "settings": settings,
            }
        )
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
    for file in files:
        console.print(f"file: {one_line(file.path)} ({_ORIGINS[file.origin]})", soft_wrap=True)
    if path is None:
        console.print("file: none found (cloche.toml, or [tool.cloche] in pyproject.toml)", soft_wrap=True)
    for file_name, why in ignored:
        console.print(f"not used: {one_line(file_name)}: {why}", soft_wrap=True)


def effective_settings(files: list[ConfigFile]) -> dict[str, dict[str, Any]]:
    """Name, value and origin of each setting."""
    config = load_config()
    in_file = {name for file in files for name in _names_in(file.read())}
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
    return {snake_case(name) for name in names}
