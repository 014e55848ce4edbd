"""Seed 004, Configuration."""

from __future__ import annotations

import re
from typing import Any

import anyio
import pytest

from cloche import PolicyError, REPLExecutor, REPLSettings, RequestError
from cloche_guest.preloads import PRELOAD_MODULES


def test_the_defaults_are_those_of_the_document() -> None:
    settings = REPLSettings.from_environment({})
    assert settings == REPLSettings()
    assert settings.enabled is True
    assert settings.warmup_timeout_seconds == 15
    assert settings.health_check_timeout_seconds == 5
    assert settings.preload == tuple(PRELOAD_MODULES)


def test_every_variable_is_read() -> None:
    variables = {
        "REPL_ENABLED": "false",
        "REPL_WARMUP_TIMEOUT_SECONDS": "30",
        "REPL_HEALTH_CHECK_TIMEOUT_SECONDS": "2.5",
        "STATE_MAX_SIZE_MB": "7",
        "PRELOAD_MODULES": "math, os.path",
    }
    assert REPLSettings.from_environment(variables) == REPLSettings(
        enabled=False,
        warmup_timeout_seconds=30.0,
        health_check_timeout_seconds=2.5,
        state_max_size_mb=7,
        preload=("math", "os.path"),
    )


def test_without_settings_an_executor_reads_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPL_ENABLED", "0")
    monkeypatch.setenv("STATE_MAX_SIZE_MB", "3")
    settings = REPLExecutor().settings
    assert (settings.enabled, settings.state_max_bytes) == (False, 3 << 20)


def test_modules_can_be_added_to_the_usual_ones() -> None:
    assert REPLSettings.from_environment({"PRELOAD_MODULES": "+mine"}).preload == (*PRELOAD_MODULES, "mine")


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("REPL_ENABLED", "maybe", "true or false, not 'maybe'"),
        ("REPL_ENABLED", "", "true or false, not ''"),
        ("REPL_WARMUP_TIMEOUT_SECONDS", "soon", "a number of seconds above 0, not 'soon'"),
        ("REPL_WARMUP_TIMEOUT_SECONDS", "-1", "a number of seconds above 0, not '-1'"),
        ("REPL_WARMUP_TIMEOUT_SECONDS", "nan", "a number of seconds above 0, not 'nan'"),
        ("REPL_HEALTH_CHECK_TIMEOUT_SECONDS", "0", "a number of seconds above 0, not '0'"),
        ("REPL_HEALTH_CHECK_TIMEOUT_SECONDS", "inf", "a number of seconds above 0, not 'inf'"),
        ("STATE_MAX_SIZE_MB", "1.5", "a whole number of megabytes from 1 to 1048576, not '1.5'"),
        ("STATE_MAX_SIZE_MB", "0", "a whole number of megabytes from 1 to 1048576, not '0'"),
        ("PRELOAD_MODULES", "a b", "names of modules with commas between, not 'a b'"),
    ],
)
def test_a_bad_value_is_named(name: str, value: str, text: str) -> None:
    with pytest.raises(PolicyError, match=re.escape(f"{name} must be {text}")) as caught:
        REPLSettings.from_environment({name: value})
    assert caught.value.field == name


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("warmup_timeout_seconds", 0),
        ("warmup_timeout_seconds", True),
        ("health_check_timeout_seconds", float("nan")),
        ("state_max_size_mb", 1.5),
        ("state_max_size_mb", 0),
        ("preload", ("rm -rf",)),
        ("preload", "numpy"),
    ],
)
def test_a_bad_argument_is_named(field: str, value: Any) -> None:
    with pytest.raises(PolicyError) as caught:
        REPLSettings(**{field: value})
    assert caught.value.field == field


@pytest.mark.parametrize(
    "options", [{"servers": 0}, {"command": "python"}, {"command": []}, {"command": ["x"], "backend": "jail"}]
)
def test_a_bad_executor_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(PolicyError):
        REPLExecutor(REPLSettings(), **options)


def test_an_option_that_no_sandbox_has_is_told_to_whoever_asks() -> None:
    async def ask() -> None:
        async with REPLExecutor(REPLSettings(preload=()), backend="native", timout_ms=3) as executor:
            with pytest.raises(PolicyError, match="did you mean 'timeout_ms'"):
                await executor.execute("1")
            with pytest.raises(RequestError, match="files must map"):
                await executor.execute("1", files=["a"])  # type: ignore[arg-type]  # the mistake

    anyio.run(ask)
