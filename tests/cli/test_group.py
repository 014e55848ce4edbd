"""The root command: quick to import, complete in its help."""

from __future__ import annotations

import errno
import importlib
import subprocess
import sys

import click
import pytest
from tests.cli.command import Cloche

from cloche import IsolationError, __version__
from cloche.cli.failure import as_data
from cloche.cli.group import COMMANDS, invoke, root


def test_the_version_is_shown(cloche: Cloche) -> None:
    assert cloche("--version").stdout.startswith(f"cloche {__version__} ")


def test_help_lists_every_command(cloche: Cloche) -> None:
    done = cloche("--help")
    assert done.code == 0
    for name, sentence in COMMANDS.items():
        assert name in done.stdout
        assert sentence in done.stdout


def test_no_arguments_show_the_help(cloche: Cloche) -> None:
    assert cloche().stdout == cloche("--help").stdout


@pytest.mark.parametrize("group", ["daemon", "session"])
def test_a_group_without_a_command_shows_its_help(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke([group]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: cloche {group} ")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_and_json(cloche: Cloche, name: str) -> None:
    command: click.Command = importlib.import_module(f"cloche.cli.{name}").command
    assert command.help
    parts = list(command.commands.values()) if isinstance(command, click.Group) else [command]
    for part in parts:
        options = {option for parameter in part.params for option in parameter.opts}
        assert part.help
        assert "--json" in options
    assert cloche(name, "--help").code == 0


def modules_after(code: str) -> set[str]:
    shown = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"], capture_output=True, text=True
    )
    return set(shown.stdout.split())


def test_the_entry_point_imports_nothing_heavy() -> None:
    loaded = modules_after("from cloche.cli import main")
    assert "cloche.cli" in loaded
    assert not loaded & {"click", "rich", "prompt_toolkit", "cloche.factory", "anyio"}


def test_a_run_needs_neither_rich_nor_the_prompt() -> None:
    loaded = modules_after("from cloche.cli.group import invoke; invoke(['run', '-c', '1'])")
    assert "cloche.cli.run" in loaded
    assert not {name.partition(".")[0] for name in loaded} & {"rich", "prompt_toolkit", "pygments", "anyio"}


def test_the_package_itself_can_be_run() -> None:
    done = subprocess.run([sys.executable, "-m", "cloche", "--version"], capture_output=True, text=True)
    assert done.stdout.startswith("cloche ")


def test_a_shell_can_complete_commands(cloche: Cloche) -> None:
    done = cloche(COMP_WORDS="cloche d", COMP_CWORD="1", _CLOCHE_COMPLETE="bash_complete")
    assert {line.split(",")[1] for line in done.stdout.splitlines()} == {"daemon", "doctor", "demo"}


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (PermissionError(errno.EACCES, "Permission denied", "/there/x"), "ls -ld /there/x"),
        (OSError(errno.ENOSPC, "No space left on device", "/there/x"), "df -h /there"),
        (OSError(errno.ENOSPC, "No space left on device"), "df -h"),
    ],
)
def test_what_the_machine_refuses_is_told_with_what_to_look_at(
    error: OSError, remedy: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_: object) -> None:
        raise error

    monkeypatch.setattr(root, "invoke", refuse)
    assert invoke(["config"]) == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith(remedy)


def test_arguments_of_python_in_a_remedy_are_shown_as_the_options_that_they_are_here() -> None:
    remedy = "say so: minimum_isolation='process', or backend='native'; or pass python=/path/to/python3 (3.8 or later)"
    said = as_data(IsolationError("no backend reaches it", remedy=remedy))["remedy"]
    assert (
        said == "say so: --min-isolation process, or --backend native; or pass --python /path/to/python3 (3.8 or later)"
    )
