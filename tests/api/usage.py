"""What users write, as a type checker sees it. Checked by a test with ``mypy --strict``, never run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, assert_type

import cloche
from cloche import (
    AsyncSandbox,
    CodeError,
    Display,
    ExceptionInfo,
    ExecutionPolicy,
    FileInfo,
    Isolation,
    NativePythonSandbox,
    RemoteObject,
    SandboxConfig,
    SandboxLogger,
    SandboxResult,
    SessionSandbox,
    Skipped,
    Snapshot,
    create_async_sandbox,
    create_sandbox,
)


def ask(prompt: str, model: str | None = None) -> str:
    return f"{model}: {prompt}"


async def ask_later(prompt: str) -> str:
    return prompt


def one_shot() -> None:
    result = cloche.run("print(6 * 7)", timeout_ms=500, context="text", on_output=lambda stream, text: None)
    assert_type(result, SandboxResult)
    assert_type(result.stdout, str)
    assert_type(result.error, str | None)
    assert_type(result.exception, ExceptionInfo | None)
    assert_type(result.displays, tuple[Display, ...])
    assert_type(result.check(), SandboxResult)
    assert_type(result.isolation, Isolation)
    try:
        result.check()
    except CodeError as error:
        assert_type(error.result, SandboxResult)


def session() -> None:
    policy = ExecutionPolicy(timeout_ms=500, memory_bytes=None, minimum_isolation=Isolation.PROCESS)
    with create_sandbox(
        backend="native",
        policy=policy,
        workspace=Path("work"),
        on_llm_query=ask,
        tools={"ask": ask},
        python="python3.8",
    ) as sandbox:
        assert_type(sandbox, SessionSandbox)
        sandbox.initialize({"any": ["plain", "data"]})
        assert_type(sandbox.execute("1", timeout_ms=5), SandboxResult)
        assert_type(sandbox.validate_code("1"), bool)
        assert_type(sandbox.get_variable("x"), Any)
        sandbox.set_variable("x", (1, {2}))
        sandbox.put_file("a/b.txt", b"bytes")
        sandbox.put_file("a/c.txt", "text")
        assert_type(sandbox.get_file("a/b.txt"), bytes)
        assert_type(sandbox.list_files(), list[FileInfo])
        snapshot = sandbox.snapshot()
        assert_type(snapshot, Snapshot)
        assert_type(snapshot.skipped, tuple[Skipped, ...])
        assert_type(sandbox.restore(snapshot.to_bytes()), tuple[Skipped, ...])
        assert_type(sandbox.capabilities, frozenset[str])
        assert_type(sandbox.isolation, Isolation)
        assert_type(sandbox.fork(), SessionSandbox)
        sandbox.cancel()
        sandbox.reset()
    sandbox.destroy()


def configured(settings: Mapping[str, Any]) -> SessionSandbox:
    create_sandbox(SandboxConfig(backend="native", policy=ExecutionPolicy()))
    return create_sandbox(settings, timeout_ms=100)


def by_class() -> NativePythonSandbox:
    sandbox = NativePythonSandbox(ExecutionPolicy(), workspace=None, logger=SandboxLogger(), python="/usr/bin/python3")
    with sandbox as same:
        assert_type(same, NativePythonSandbox)
    return sandbox


async def awaited() -> None:
    async with create_async_sandbox(on_llm_query=ask_later) as sandbox:
        assert_type(sandbox, AsyncSandbox)
        assert_type(await sandbox.execute("1"), SandboxResult)
        assert_type(await sandbox.snapshot(), Snapshot)
        assert_type(await sandbox.get_file("a"), bytes)
        sandbox.cancel()


class Mine(SandboxLogger):
    def log_security_event(self, event_type: str, **fields: Any) -> None:
        super().log_security_event(event_type, **fields)


def remote(value: object) -> str:
    if isinstance(value, RemoteObject):
        return value.type + value.repr
    return ""
