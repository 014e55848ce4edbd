"""Whoever watches a session is told of everything that changes it, in order; and what it runs on can be asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloche.session.witness import Witness

if TYPE_CHECKING:
    from cloche.conformance.fixtures import OpenSandbox
    from cloche.result import SandboxResult
    from cloche.sandbox import SessionSandbox
    from cloche.snapshot import Snapshot


class Notes(Witness):
    """One line for each thing."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def context_set(self, context: Any) -> None:
        self.lines.append(f"context {context}")

    def variable_set(self, name: str, value: Any) -> None:
        self.lines.append(f"variable {name} {value}")

    def file_put(self, path: str, data: bytes) -> None:
        self.lines.append(f"file {path} {data!r}")

    def restored(self, snapshot: Snapshot) -> None:
        self.lines.append(f"restored {', '.join(snapshot.variables)}")

    def was_reset(self) -> None:
        self.lines.append("reset")

    def bridge_answered(
        self, name: str, args: list[Any], kwargs: dict[str, Any], value: Any, error: BaseException | None
    ) -> None:
        self.lines.append(f"bridge {name} {args} {kwargs} {value} {error}")

    def cell_ended(self, result: SandboxResult, timeout_ms: int) -> None:
        self.lines.append(f"cell {result.outcome} {result.value} {timeout_ms}")


def fail() -> None:
    """A tool that does not work."""
    raise ValueError("it never works")


def test_a_witness_is_told_of_everything_in_order(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(on_llm_query=str.upper, tools={"fail": fail})
    notes = Notes()
    sandbox.watch(notes)
    sandbox.initialize("text")
    sandbox.execute("x = llm_query('a')\nx", timeout_ms=20_000)
    sandbox.execute("fail()", timeout_ms=20_000)
    saved = sandbox.snapshot()
    sandbox.set_variable("y", [1])
    sandbox.put_file("f", b"1")
    sandbox.reset()
    sandbox.restore(saved)
    sandbox.watch(None)
    sandbox.execute("x")
    assert notes.lines == [
        "context text",
        "bridge llm_query ['a'] {} A None",
        "cell ok 'A' 20000",
        "bridge fail [] {} None it never works",
        "cell error None 20000",
        "variable y [1]",
        "file f b'1'",
        "reset",
        "restored x",
    ]


def test_a_cell_that_ended_the_session_is_told_of_too(sandbox: SessionSandbox) -> None:
    notes = Notes()
    sandbox.watch(notes)
    result = sandbox.execute("while True: pass", timeout_ms=200)
    assert notes.lines == [f"cell {result.outcome} None 200"]


def test_versions_are_those_of_the_guest(sandbox: SessionSandbox) -> None:
    said = sandbox.execute("import sys; '.'.join(map(str, sys.version_info[:3])), sys.platform").value
    versions = sandbox.versions()
    assert said == repr((versions.python, versions.platform))
    assert "json" not in versions.packages
