"""What the pages say to type into a shell."""

from __future__ import annotations

import doctest
import re
import subprocess

import pytest
from tests.docs.markdown import ROOT, Block, blocks, name_of, pages
from tests.docs.test_snippets import clean_environment

WITH_CONSOLE = [page for page in pages() if blocks(page, "console")]
TARGETS = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
COMMANDS = {"run", "repl", "doctor", "escapes", "demo", "ps", "clean", "config", "daemon", "setup", "session", "replay"}


def commands_of(block: Block) -> list[tuple[str, str]]:
    """(command, what it prints) of a block in which commands begin with ``$``."""
    found: list[tuple[str, str]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], ""))
        else:
            command, shown = found[-1]
            found[-1] = (command, f"{shown}{line}\n")
    return found


@pytest.mark.parametrize("page", WITH_CONSOLE, ids=name_of)
def test_commands_on_the_page_print_what_is_shown(page, tmp_path):
    for block in blocks(page, "console"):
        for command, shown in commands_of(block):
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=tmp_path,
                env={**clean_environment(), "XDG_STATE_HOME": str(tmp_path / ".state")},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=50,
            )
            fits = doctest.OutputChecker().check_output(shown, done.stdout, doctest.ELLIPSIS)
            assert fits, f"{command}\nshows\n{shown}\nand prints\n{done.stdout}"


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_make_targets_that_a_page_names_exist(page):
    named = set(re.findall(r"(?:^|`)make ([a-z]+)\b", page.read_text("utf-8"), re.MULTILINE))
    assert named <= TARGETS


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_subcommands_that_a_page_names_exist(page):
    named = set(re.findall(r"`cloche ([a-z]+)\b", page.read_text("utf-8")))
    assert named <= COMMANDS


def test_subcommands_are_those_of_the_command():
    done = subprocess.run(["cloche", "--help"], env=clean_environment(), capture_output=True, text=True, check=True)
    listed = done.stdout.partition("Commands:")[2]
    assert set(re.findall(r"^  ([a-z]+)  ", listed, re.MULTILINE)) == COMMANDS
