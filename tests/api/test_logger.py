"""Events of a session, through the standard library's logging or structlog."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from typing import Any

import pytest

from cloche import ExecutionPolicy, NativePythonSandbox, SandboxLogger, SandboxResult


class Sink:
    """Takes events as structlog's loggers do."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, dict[str, Any]]] = []

    def info(self, event: str, **fields: Any) -> None:
        self.events.append(("info", event, fields))

    def warning(self, event: str, **fields: Any) -> None:
        self.events.append(("warning", event, fields))


def session(logger: SandboxLogger) -> None:
    with NativePythonSandbox(ExecutionPolicy(grace_ms=500), logger=logger) as sandbox:
        sandbox.put_file("a.txt", b"12345")
        sandbox.execute("1")
        sandbox.get_file("a.txt")
        sandbox.execute("while True: pass", timeout_ms=100)
        sandbox.reset()
        sandbox.execute("import os; os._exit(0)")


def test_the_life_of_a_session_is_told_in_order():
    sink = Sink()
    session(SandboxLogger(sink))
    assert [(level, event) for level, event, _ in sink.events] == [
        ("info", "file.put"),
        ("info", "session.start"),
        ("info", "execution.start"),
        ("info", "execution.complete"),
        ("info", "file.get"),
        ("info", "execution.start"),
        ("warning", "security.timeout"),
        ("info", "execution.complete"),
        ("info", "session.reset"),
        ("info", "session.start"),
        ("info", "execution.start"),
        ("info", "execution.complete"),
    ]
    fields = {event: fields for _, event, fields in sink.events}
    assert fields["file.put"] == {"path": "a.txt", "size": 5}
    assert fields["execution.start"]["runtime"] == "python"
    assert fields["execution.start"]["memory_bytes"] == ExecutionPolicy().memory_bytes
    assert fields["execution.complete"]["session_state"] == "reset"
    assert fields["session.start"]["backend"] == "native"


def test_standard_logging_gets_text_and_fields(caplog):
    with caplog.at_level(logging.INFO, logger="cloche"), NativePythonSandbox() as sandbox:
        sandbox.execute("1")
    complete = [record for record in caplog.records if record.getMessage().startswith("execution.complete")]
    assert len(complete) == 1
    assert 'outcome="ok"' in complete[0].getMessage()
    assert complete[0].cloche["success"] is True
    assert json.dumps(complete[0].cloche)


def test_a_logger_of_ones_own_may_be_given():
    logger = logging.getLogger("test.own")
    logger.setLevel(logging.INFO)
    records: list[logging.LogRecord] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    handler = Keep()
    logger.addHandler(handler)
    try:
        with NativePythonSandbox(logger=SandboxLogger(logger)) as sandbox:
            sandbox.execute("1")
    finally:
        logger.removeHandler(handler)
    assert any("execution.complete" in record.getMessage() for record in records)


def test_the_code_and_its_output_are_not_in_the_log():
    sink = Sink()
    with NativePythonSandbox(logger=SandboxLogger(sink)) as sandbox:
        sandbox.initialize("secret-context")
        sandbox.execute("x = 'secret-code'\nprint('secret' + '-output')\nx")
    assert "secret" not in repr(sink.events)


def test_a_library_is_silent_until_somebody_listens():
    code = "import cloche; cloche.run('while True: pass', backend='native', timeout_ms=50)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("", "")


STRUCTLOG = """
import structlog
{configure}
import cloche
cloche.run("1/0", backend="native")
"""


def test_structlog_is_used_where_it_is_configured():
    configure = "structlog.configure(processors=[structlog.processors.JSONRenderer()])"
    done = subprocess.run([sys.executable, "-c", STRUCTLOG.format(configure=configure)], capture_output=True, text=True)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["event"] for event in events] == [
        "session.start",
        "execution.start",
        "execution.complete",
        "session.destroy",
    ]
    assert events[2]["outcome"] == "error"


def test_structlog_that_is_only_installed_prints_nothing():
    done = subprocess.run([sys.executable, "-c", STRUCTLOG.format(configure="")], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize("method", ["info", "warning"])
def test_a_logger_that_raises_does_not_leave_the_session_broken(method):
    class Broken(Sink):
        pass

    def fail(self: Any, event: str, **fields: Any) -> None:
        raise RuntimeError("disk full")

    setattr(Broken, method, fail)
    sandbox = NativePythonSandbox(ExecutionPolicy(grace_ms=500), logger=SandboxLogger(Broken()))
    try:
        for _ in range(2):
            try:
                result = sandbox.execute("while True: pass", timeout_ms=100)
            except RuntimeError as exc:
                assert str(exc) == "disk full"  # noqa: PT017 - either is fine, a hang is not
            else:
                assert result.outcome == "timeout"
    finally:
        sandbox.logger = SandboxLogger(Sink())
        sandbox._session.logger = sandbox.logger
        sandbox.destroy()


def test_a_subclass_sees_results_and_limits():
    seen: list[str] = []

    class Mine(SandboxLogger):
        def log_execution_complete(self, result: SandboxResult) -> None:
            seen.append(result.outcome)

        def log_security_event(self, event_type: str, **fields: Any) -> None:
            seen.append(event_type)

    with NativePythonSandbox(ExecutionPolicy(memory_bytes=256 * 2**20), logger=Mine(Sink())) as sandbox:
        sandbox.execute("x = bytearray(2**30)")
    assert seen == ["memory_limit", "memory"]
