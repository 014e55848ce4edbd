"""The one value that every door returns."""

from __future__ import annotations

import dataclasses
import json
from typing import get_args

import pytest

import cloche
from cloche import CodeExecution, Display, ExceptionInfo, ExecutionPolicy, Isolation, SandboxResult
from cloche.guidance import guidance_for
from cloche.result import Outcome


def test_it_has_two_names():
    assert CodeExecution is SandboxResult


def test_it_cannot_be_changed():
    result = SandboxResult(outcome="ok")
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.stdout = "x"  # type: ignore[misc]  # that is the test


def test_only_ok_is_success():
    assert [outcome for outcome in get_args(Outcome) if SandboxResult(outcome=outcome).success] == ["ok"]


def test_duration_has_two_names():
    assert SandboxResult(outcome="ok", duration_ms=5.0).duration == 5.0


def test_it_becomes_plain_data_for_json():
    result = SandboxResult(
        outcome="error",
        exception=ExceptionInfo("E", "m", 1, "tb"),
        displays=(Display({"image/png": b"\0\1", "text/plain": "x"}),),
        isolation=Isolation.PROCESS,
        metadata={"a": 1},
    )
    data = json.loads(json.dumps(result.to_dict()))
    assert data["isolation"] == "PROCESS"
    assert data["exception"]["type"] == "E"
    assert data["displays"] == [{"image/png": "AAE=", "text/plain": "x"}]
    assert data["success"] is False
    assert set(data) == {field.name for field in dataclasses.fields(SandboxResult)} | {"success"}


def test_a_real_result_becomes_json_too():
    result = cloche.run("print('x')\nopen('f', 'w')\n1/0", backend="native")
    data = json.loads(json.dumps(result.to_dict()))
    assert data["files_created"] == ["f"]
    assert data["usage"]["stdout_bytes"] == 2


@pytest.mark.parametrize(
    ("code", "outcome", "exit_code"),
    [("1", "ok", 0), ("1/0", "error", 1), ("exit(7)", "exited", 7), ("import os; os._exit(9)", "exited", 9),
     ("import os; os.kill(os.getpid(), 9)", "killed", 137), ("while True: pass", "timeout", 124)],
)  # fmt: skip
def test_exit_codes(code, outcome, exit_code):
    result = cloche.run(code, backend="native", timeout_ms=2000 if outcome != "timeout" else 150)
    assert (result.outcome, result.exit_code) == (outcome, exit_code)


def test_the_cost_is_told():
    result = cloche.run("x = sum(i * i for i in range(300_000))\nprint('é')", backend="native")
    assert result.usage.cpu_ms is not None
    assert result.usage.cpu_ms > 0
    assert result.usage.stdout_bytes == 3
    assert result.memory_used_bytes is not None
    assert result.memory_used_bytes > 1_000_000
    assert result.duration_ms > 0


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("```python", "fence"), ("```", "fence"), ("!pip install x", "IPython"), ("%time f()", "IPython"),
        ("%%bash", "IPython"), ("files = !ls", "IPython"), ("5 % % 3", None), ("def f(:", None),
    ],
)  # fmt: skip
def test_what_models_write_beside_python_is_told_to_them(line, word):
    traceback = f'  File "<cell 1>", line 1\n    {line}\n    ^\nSyntaxError: invalid syntax\n'
    exception = ExceptionInfo("SyntaxError", "invalid syntax", 1, traceback)
    said = guidance_for("error", exception, ExecutionPolicy(), 1000)
    assert said is None if word is None else word in str(said)
