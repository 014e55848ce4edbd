"""``cloche config``: what counts, and where it comes from."""

from __future__ import annotations

import pytest
from tests.cli.command import Cloche

from cloche.policy import ExecutionPolicy


def test_every_setting_is_listed_with_its_default(cloche: Cloche) -> None:
    document = cloche("config", "--json").json
    assert document["file"] is None
    assert [*document["settings"]] == ["backend", "python", "workspace", *ExecutionPolicy.field_names()]
    assert document["settings"]["timeout_ms"] == {"value": 30000, "origin": "default"}
    assert {setting["origin"] for setting in document["settings"].values()} == {"default"}


@pytest.mark.parametrize("content", ["timeout = 5", "timeoutMs = 5", "[policy]\ntimeout_ms = 5"])
def test_a_setting_of_the_file_is_known_by_any_spelling(cloche: Cloche, content: str) -> None:
    (cloche.cwd / "cloche.toml").write_text(content)
    document = cloche("config", "show", "--json").json
    assert document["file"] == str(cloche.cwd / "cloche.toml")
    assert document["settings"]["timeout_ms"] == {"value": 5, "origin": "file"}


def test_a_variable_outranks_the_file(cloche: Cloche) -> None:
    (cloche.cwd / "cloche.toml").write_text("timeout = 5\nminimum_isolation = 'sealed'\n")
    settings = cloche("config", "--json", CLOCHE_TIMEOUT="7").json["settings"]
    assert settings["timeout_ms"] == {"value": 7, "origin": "CLOCHE_TIMEOUT"}
    assert settings["minimum_isolation"] == {"value": "SEALED", "origin": "file"}


def test_people_get_a_table(cloche: Cloche) -> None:
    done = cloche("config", CLOCHE_BACKEND="native")
    assert done.code == 0
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["backend", "native", "CLOCHE_BACKEND"] in rows
    assert ["grace_ms", "1000", "default"] in rows
