"""What a result says, and that it holds still."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

import pytest

from cloche.errors import CodeError, ExecutionError
from cloche.result import CodeExecution, SandboxResult

if TYPE_CHECKING:
    from cloche.sandbox import SessionSandbox


def test_a_cell_gives_a_result_with_output_error_and_duration(sandbox: SessionSandbox) -> None:
    result = sandbox.execute("print('out')")
    assert isinstance(result, CodeExecution)
    assert (result.stdout, result.stderr, result.error) == ("out\n", "", None)
    assert result.duration == result.duration_ms > 0


def test_a_result_carries_the_code(sandbox: SessionSandbox) -> None:
    assert sandbox.execute("1 + 1").code == "1 + 1"


def test_a_result_cannot_be_changed(sandbox: SessionSandbox) -> None:
    result = sandbox.execute("1")
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.stdout = "other"  # type: ignore[misc]  # that it is refused is what is tested


def test_success_is_for_code_that_ran_to_its_end(sandbox: SessionSandbox) -> None:
    assert sandbox.execute("1").success
    assert not sandbox.execute("1 / 0").success
    assert not sandbox.execute("raise SystemExit(0)").success


def test_check_returns_a_good_result(sandbox: SessionSandbox) -> None:
    result = sandbox.execute("1")
    assert result.check() is result


def test_check_raises_for_code_that_raised(sandbox: SessionSandbox) -> None:
    with pytest.raises(CodeError, match="ValueError: no"):
        sandbox.execute("raise ValueError('no')").check()


def test_check_raises_for_a_session_that_died(sandbox: SessionSandbox) -> None:
    with pytest.raises(ExecutionError):
        sandbox.execute("import os; os._exit(3)").check()


def test_check_accepts_an_exit_with_status_zero(sandbox: SessionSandbox) -> None:
    assert sandbox.execute("import sys; sys.exit(0)").check().exit_code == 0


@pytest.mark.parametrize("code", ["1", "1 / 0", "import os; os._exit(1)", "print('\\udcff')", "open(b'\\xff', 'w')"])
def test_every_result_can_be_written_as_json(sandbox: SessionSandbox, code: str) -> None:
    plain = json.loads(json.dumps(sandbox.execute(code).to_dict()))
    assert set(plain) >= {field.name for field in dataclasses.fields(SandboxResult)}


def test_a_result_reports_cpu_time(sandbox: SessionSandbox) -> None:
    result = sandbox.execute("sum(range(3_000_000))")
    assert result.usage.cpu_ms is not None
    assert result.usage.cpu_ms > 0


def test_a_long_value_is_shortened(sandbox: SessionSandbox) -> None:
    value = sandbox.execute("'x' * 1_000_000").value
    assert value is not None
    assert len(value) < 101_000
    assert value.endswith("characters left out]")


def test_an_expression_whose_repr_raises_fails_the_cell(sandbox: SessionSandbox) -> None:
    result = sandbox.execute("class Bad:\n    def __repr__(self): raise KeyError('no')\nBad()")
    assert (result.outcome, result.value) == ("error", None)


def test_a_missing_package_comes_with_guidance(sandbox: SessionSandbox) -> None:
    assert "not installed" in str(sandbox.execute("import no_such_package_here").guidance)


def test_input_comes_with_guidance(sandbox: SessionSandbox) -> None:
    assert "set_variable" in str(sandbox.execute("input()").guidance)


def test_a_good_cell_needs_no_guidance(sandbox: SessionSandbox) -> None:
    assert sandbox.execute("1").guidance is None
