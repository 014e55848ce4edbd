"""Whatever a user types: a message with a remedy, exit code 1, and never a traceback of ours."""

from __future__ import annotations

import re

import pytest
from tests.cli.command import Cloche, Finished


def assert_refused(done: Finished, *words: str) -> None:
    assert done.code == 1
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("run",), "cloche run FILE"),
        (("run", "missing.py"), "cloche run -c CODE"),
        (("run", "."), "is a folder"),
        (("run", "-c", "1", "job.py"), "both"),
        (("run", "a.py", "b.py"), "b.py"),
        (("run", "-c"), "requires an argument"),
        (("run", "-c", "1", "--backend", "nope"), "native"),
        (("run", "-c", "1", "--python", "no-such-python"), "--python"),
        (("run", "-c", "1", "--timeout", "0"), "--timeout"),
        (("run", "-c", "1", "--timeout", "-1s"), "--timeout"),
        (("run", "-c", "1", "--timeout", "soon"), "500ms"),
        (("run", "-c", "1", "--memory", "lots"), "256M"),
        (("run", "-c", "1", "--memory", "1M"), "memory_bytes"),
        (("run", "-c", "1", "--min-isolation", "perfect"), "sealed"),
        (("run", "-c", "1", "--workspace", "nowhere"), "nowhere"),
        (("run", "-c", "1", "--context", "missing.txt"), "missing.txt"),
        (("run", "-c", "1", "--context", "."), "is a folder"),
        (("run", "-", "--context", "-"), "standard input"),
        (("run", "-c", "1", "--file", "missing"), "missing"),
        (("run", "-c", "1", "--file", "a:b:c"), "a:b"),
        (("run", "-c", "1", "--file", "."), "no files"),
        (("run", "-c", "1", "--get", "../up"), "workspace"),
        (("run", "-c", "1", "--get", "x:/no/such/folder/x"), "mkdir -p"),
        (("run", "-c", "1", "--get", ""), "workspace"),
        (("run", "-c", "1", "--env", "=x"), "NAME=VALUE"),
        (("run", "-c", "1", "--env", "NOT_SET_ANYWHERE"), "NOT_SET_ANYWHERE"),
        (("run", "--no-such-option"), "cloche run --help"),
        (("rnu",), "cloche run"),
        (("--no-such-option",), "cloche --help"),
        (("repl", "surplus"), "surplus"),
        (("repl", "--context", "-"), "standard input"),
        (("repl", "--root", "."), "cloche repl --environment --root"),
        (("repl", "--guard", "off"), "cloche repl --environment --guard"),
        (("repl", "--environment", "--store", "sqlite:///x"), "--store"),
        (("doctor", "surplus"), "surplus"),
        (("config", "edit"), "show"),
        (("daemon", "start", "--idle-exit", "-1"), "--idle-exit"),
        (("demo", "--backend", "nope"), "native"),
    ],
    ids=" ".join,
)
def test_a_wrong_request_is_refused(cloche: Cloche, arguments: tuple[str, ...], word: str) -> None:
    assert_refused(cloche(*arguments), word)


def test_a_file_typed_as_a_command_is_understood(cloche: Cloche) -> None:
    (cloche.cwd / "job.py").touch()
    assert_refused(cloche("job.py"), "cloche run job.py")


def test_a_file_outside_of_the_workspace_is_refused(cloche: Cloche) -> None:
    (cloche.cwd / "data").touch()
    assert_refused(cloche("run", "-c", "1", "--file", "data:../data"), "workspace")


@pytest.mark.parametrize("data", [b"\xff\xfe\x00", bytes(range(256)), b"# coding: no-such-codec\n1"])
def test_input_that_is_no_text_is_refused(cloche: Cloche, data: bytes) -> None:
    assert_refused(cloche("run", "-", stdin=data), "is not Python text")


def test_a_context_that_is_no_text_says_where_and_what_to_do(cloche: Cloche) -> None:
    (cloche.cwd / "blob").write_bytes(b"abc\xff")
    assert_refused(cloche("run", "-c", "1", "--context", "blob"), "0xff at position 3", "--file blob")


def test_a_file_that_cannot_be_read_is_refused(cloche: Cloche) -> None:
    assert_refused(cloche("run", "/proc/self/mem"), "cannot be read", "Input/output error")


def test_null_bytes_in_code_are_the_codes_own_failure(cloche: Cloche) -> None:
    done = cloche("run", "-", stdin=b"1\0")
    assert done.code == 2
    assert "SyntaxError" in done.stderr


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ("backendd = 1", "did you mean 'backend'"),
        ("[[[", "cannot read"),
        ("a = " + "[" * 100_000, "cannot read"),
        ("[options]\nfrobnicate = 1", "frobnicate"),
        ("timeout_ms = 'soon'", "timeout_ms"),
    ],
)
def test_a_broken_configuration_file_is_named(cloche: Cloche, content: str, word: str) -> None:
    (cloche.cwd / "cloche.toml").write_text(content)
    assert_refused(cloche("run", "-c", "1", CLOCHE_CONFIG="cloche.toml"), word)


def test_a_broken_variable_is_named(cloche: Cloche) -> None:
    assert_refused(cloche("run", "-c", "1", CLOCHE_TIMEOUT_MS="soon"), "CLOCHE_TIMEOUT_MS")


def test_a_place_for_sessions_that_cannot_be_made_exits_2_with_a_remedy(cloche: Cloche) -> None:
    done = cloche("run", "-b", "native", "-c", "1", CLOCHE_SESSIONS_DIR="/proc/nowhere")
    assert done.code == 2
    assert re.search(r"remedy: .*CLOCHE_SESSIONS_DIR", done.stderr)


def test_standard_input_that_is_closed_is_refused(cloche: Cloche) -> None:
    assert_refused(cloche("run", "-", redirect="<&-"), "standard input is closed")


def test_an_output_that_is_closed_is_no_failure(cloche: Cloche) -> None:
    done = cloche("run", "-c", "print(1); 2", redirect=">&-")
    assert (done.code, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "arguments", [("run", "-c", "print(1)"), ("run", "-c", "1", "--json"), ("doctor",)], ids=" ".join
)
def test_an_output_that_cannot_be_written_exits_2(cloche: Cloche, arguments: tuple[str, ...]) -> None:
    done = cloche(*arguments, redirect=">/dev/full")
    assert done.code == 2
    assert done.stderr.startswith("error: ")
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_fault_of_ours_is_a_message_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from cloche.cli import doctor
    from cloche.cli.group import invoke

    def broken(**_: object) -> None:
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr(doctor, "probe_backends", broken)
    monkeypatch.delenv("CLOCHE_DEBUG", raising=False)
    assert invoke(["doctor"]) == 2
    assert "ZeroDivisionError: a fault" in capsys.readouterr().err
