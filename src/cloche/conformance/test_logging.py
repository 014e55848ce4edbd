"""What is written down about a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cloche.logger import SandboxLogger

if TYPE_CHECKING:
    from cloche.conformance.fixtures import OpenSandbox


class Notes:
    """A sink that keeps events."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []

    def info(self, event: str, **fields: Any) -> None:
        self.events.append((event, fields))

    warning = info

    def named(self, event: str) -> list[dict[str, Any]]:
        return [fields for name, fields in self.events if name == event]


def logged(open_sandbox: OpenSandbox, **options: Any) -> tuple[Any, Notes]:
    """A sandbox, and what its logger writes."""
    notes = Notes()
    return open_sandbox(logger=SandboxLogger(notes), **options), notes


def test_each_cell_is_logged_when_it_starts(open_sandbox: OpenSandbox) -> None:
    sandbox, notes = logged(open_sandbox, timeout_ms=5000)
    sandbox.execute("1")
    (fields,) = notes.named("execution.start")
    assert (fields["runtime"], fields["timeout_ms"]) == ("python", 5000)


def test_each_cell_is_logged_when_it_has_a_result(open_sandbox: OpenSandbox) -> None:
    sandbox, notes = logged(open_sandbox)
    sandbox.execute("1")
    sandbox.execute("1 / 0")
    assert [fields["outcome"] for fields in notes.named("execution.complete")] == ["ok", "error"]


def test_a_time_out_is_a_security_event(open_sandbox: OpenSandbox) -> None:
    sandbox, notes = logged(open_sandbox)
    sandbox.execute("while True: pass", timeout_ms=100)
    assert len(notes.named("security.timeout")) == 1


def test_running_out_of_memory_is_a_security_event(open_sandbox: OpenSandbox) -> None:
    sandbox, notes = logged(open_sandbox)
    sandbox.execute("import sys; bytearray(sys.maxsize - 100)")
    assert len(notes.named("security.memory_limit")) == 1


def test_the_life_of_a_session_is_logged(open_sandbox: OpenSandbox) -> None:
    sandbox, notes = logged(open_sandbox)
    sandbox.execute("1")
    sandbox.reset()
    sandbox.execute("1")
    sandbox.destroy()
    events = [name for name, _ in notes.events if name.startswith("session.")]
    assert events == ["session.start", "session.reset", "session.start", "session.destroy"]


def test_files_that_come_and_go_are_logged(open_sandbox: OpenSandbox) -> None:
    sandbox, notes = logged(open_sandbox)
    sandbox.put_file("a", b"123")
    sandbox.get_file("a")
    assert notes.named("file.put") == [{"path": "a", "size": 3}]
    assert notes.named("file.get") == [{"path": "a", "size": 3}]


def test_the_code_and_its_output_are_not_logged(open_sandbox: OpenSandbox) -> None:
    sandbox, notes = logged(open_sandbox)
    sandbox.execute("secret = 'hunter2'; print(secret)")
    assert "hunter2" not in str(notes.events)
