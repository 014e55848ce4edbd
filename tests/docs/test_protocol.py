"""docs/protocol.md is complete, and good enough to write a host from."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from tests.docs.markdown import ROOT
from tests.docs.test_snippets import clean_environment

from cloche.session import bridge_desk
from cloche_guest import codes, values
from cloche_guest.namespace import Namespace
from cloche_guest.variables import Variables

PAGE = (ROOT / "docs/protocol.md").read_text("utf-8")
EXAMPLE = ROOT / "examples/foreign_host.py"


def section(title: str) -> str:
    """The text under a heading of the second level."""
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def kernel_methods() -> set[str]:
    """Those of its table, and those that others put into it."""
    source = (ROOT / "src/cloche_guest/kernel.py").read_text("utf-8")
    table = source.partition("self._methods")[2].partition("}")[0]
    variables = Variables(Namespace.__new__(Namespace), lambda: 0, lambda action: action())
    return {*re.findall(r'"([a-z_]+)":', table), *variables.methods(), "shutdown"}


def test_every_method_of_the_guest_has_its_heading():
    assert set(re.findall(r"^### (\w+)$", section("Requests of the host"), re.MULTILINE)) == kernel_methods()


def test_every_message_of_the_guest_has_its_heading():
    headings = re.findall(r"^### (\w+)$", section("Messages of the guest"), re.MULTILINE)
    assert headings == ["bridge", "output", "display", "file"]


@pytest.mark.parametrize("name", [name for name in vars(codes) if name.isupper() and name != "PROTOCOL"])
def test_every_error_code_is_explained(name):
    assert f"| {getattr(codes, name)} |" in section("Errors")


@pytest.mark.parametrize("name", ["BRIDGE_FAILED", "UNKNOWN_BRIDGE", "BAD_ARGUMENTS"])
def test_every_error_code_of_the_host_is_explained(name):
    assert f"| {getattr(bridge_desk, name)} |" in section("Errors")


@pytest.mark.parametrize("tag", ["dict", "object", *values._BOXES, *values._LEAVES])
def test_every_value_tag_is_shown(tag):
    assert f'"{tag}"' in section("Values")


def test_version_on_the_page_is_the_guests():
    assert f"Version of the protocol: **{codes.PROTOCOL}**" in PAGE


def test_example_needs_only_what_the_page_says():
    imported = set(re.findall(r"^(?:import|from) (\w+)", EXAMPLE.read_text("utf-8"), re.MULTILINE))
    assert imported <= {"__future__", "collections", "typing", "sys", "json", "subprocess"}


def test_host_written_from_the_page_runs_a_session(tmp_path):
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)],
        cwd=tmp_path,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=50,
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert "'value': '42'" in lines[0]
    assert lines[0].endswith("32 characters")
    assert lines[2] == "{'found': True, 'value': 42}"
    assert "missing 1 required positional argument" in lines[3]
    assert lines[4] == "status 0"
