"""Writes docs/reference.md from the code: every public name and every option of the command.

Used by mkdocs as a hook (`on_pre_build`). A test proves that the page in the repository is current.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import click

import cloche
from cloche.cli.group import COMMANDS

PAGE = Path(__file__).parent / "reference.md"
MODULES = ("cloche.journal", "cloche.stores", "cloche.pool", "cloche.testing")

_HEAD = """# Reference

Every public name and every option of the command, generated from the code (`docs/generate_reference.py`). `help()` in
Python and `--help` in the shell tell more; [The contract](contract.md) says what holds.
"""


def render() -> str:
    """The page."""
    return "\n".join([_HEAD, *_names(), *_commands()]) + "\n"


def _names() -> Iterator[str]:
    public = {name: getattr(cloche, name) for name in cloche.__all__ if not name.startswith("_")}
    errors = {name: it for name, it in public.items() if inspect.isclass(it) and issubclass(it, cloche.ClocheError)}
    types = {name: it for name, it in public.items() if inspect.isclass(it) and name not in errors}
    functions = {name: it for name, it in public.items() if inspect.isfunction(it)}
    yield from _table("Functions of `cloche`", functions)
    yield from _table("Types of `cloche`", types)
    yield "## Errors\n"
    yield "What each means for you is told in [Result or exception](contract.md#result-or-exception).\n"
    yield "| error | `code` | |\n|---|---|---|"
    for name, error in errors.items():
        yield f"| `{name}` | `{error.code}` | {_sentence(error)} |"
    yield ""
    for name in MODULES:
        module = importlib.import_module(name)
        yield from _table(f"`{name}`", _exported(module))


def _exported(module: ModuleType) -> dict[str, Any]:
    """What is to be used from outside: what it says itself, or what it defines under a name of its own."""
    named = getattr(module, "__all__", None) or [
        name for name, it in vars(module).items() if getattr(it, "__module__", "") == module.__name__ and name[0] != "_"
    ]
    return {name: getattr(module, name) for name in named if inspect.isclass(getattr(module, name))
            or inspect.isfunction(getattr(module, name))}  # fmt: skip


def _table(title: str, members: dict[str, Any]) -> Iterator[str]:
    yield f"## {title}\n\n| name | |\n|---|---|"
    for name, member in members.items():
        yield f"| `{name}` | {_sentence(member)} |"
    yield ""


def _sentence(member: Any) -> str:
    """The first paragraph of what the code says of it."""
    if inspect.isclass(member) and "__doc__" not in vars(member):
        return ""
    paragraph = (inspect.getdoc(member) or "").split("\n\n")[0]
    return " ".join(paragraph.split()).replace("``", "`").replace("|", "\\|")


def _commands() -> Iterator[str]:
    yield "## The command\n"
    for name in COMMANDS:
        command: click.Command = importlib.import_module(f"cloche.cli.{name}").command
        yield from _command(f"cloche {name}", command)


def _command(path: str, command: click.Command) -> Iterator[str]:
    arguments = [_argument(it) for it in command.params if isinstance(it, click.Argument)]
    group = isinstance(command, click.Group)
    yield f"### `{' '.join([path, *(['COMMAND'] if group else arguments)])}`\n"
    paragraph = inspect.cleandoc(command.help or "").split("\n\n")[0]
    yield f"{' '.join(paragraph.split())}\n"
    if isinstance(command, click.Group):
        for name, part in command.commands.items():
            yield from _command(f"{path} {name}", part)
        return
    yield "| option | |\n|---|---|"
    for option in command.params:
        if isinstance(option, click.Option):
            names = ", ".join(sorted(option.opts, key=len))
            default = f" Default: {option.default}." if option.show_default else ""
            yield f"| `{names}{_value(option)}` | {option.help}{default} |"
    yield ""


def _argument(argument: click.Argument) -> str:
    name = argument.metavar or str(argument.name).upper()
    return name if argument.required or argument.metavar else f"[{name}]"


def _value(option: click.Option) -> str:
    if option.is_flag:
        return ""
    return " " + (option.metavar or "\\|".join(option.type.choices if isinstance(option.type, click.Choice) else ()))


def on_pre_build(config: Any) -> None:  # noqa: ARG001 - the signature that mkdocs calls
    """Refresh the page before the site is built."""
    write()


def write() -> bool:
    """Write the page when it is not current; whether it was written."""
    page = render()
    if PAGE.is_file() and PAGE.read_text("utf-8") == page:
        return False
    PAGE.write_text(page, "utf-8")
    return True


if __name__ == "__main__":
    write()
    sys.exit(0)
