"""Settings: taken from where they were given, checked before anything starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from cloche.config import SandboxConfig
from cloche.errors import PolicyError, RequestError
from cloche.policy import ExecutionPolicy

if TYPE_CHECKING:
    from cloche.conformance.fixtures import OpenSandbox
    from cloche.sandbox import SessionSandbox


def test_a_policy_can_be_given_whole(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(policy=ExecutionPolicy(max_output_length=5))
    assert sandbox.policy.max_output_length == 5
    assert sandbox.execute("print('123456789')").stdout.startswith("12345\n...")


def test_a_field_of_the_policy_can_be_given_alone(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(policy=ExecutionPolicy(max_output_length=5), grace_ms=7)
    assert (sandbox.policy.max_output_length, sandbox.policy.grace_ms) == (5, 7)


@pytest.mark.parametrize(
    "config", [{"max_output_length": 5}, {"maxOutputLength": 5}, {"policy": {"maxOutputLength": 5}}]
)
def test_a_configuration_may_be_a_mapping(open_sandbox: OpenSandbox, config: dict[str, Any]) -> None:
    assert open_sandbox(config).policy.max_output_length == 5


def test_a_configuration_may_be_an_object(open_sandbox: OpenSandbox) -> None:
    config = SandboxConfig(policy=ExecutionPolicy(timeout_ms=123))
    assert config.timeout == 123
    assert open_sandbox(config).policy.timeout_ms == 123


def test_only_keywords_that_are_passed_outrank_the_configuration(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox({"timeout": 123, "max_output_length": 5}, timeout_ms=456)
    assert (sandbox.policy.timeout_ms, sandbox.policy.max_output_length) == (456, 5)


@pytest.mark.parametrize(("name", "nearest"), [("timeout_mss", "timeout_ms"), ("memory_byte", "memory_bytes")])
def test_an_unknown_option_is_refused_with_the_nearest_name(open_sandbox: OpenSandbox, name: str, nearest: str) -> None:
    with pytest.raises(TypeError, match=nearest):
        open_sandbox(**{name: 1})


@pytest.mark.parametrize(
    "setting",
    [
        {"timeout_ms": 0},
        {"timeout_ms": "soon"},
        {"max_concurrent": 0},
        {"memory_bytes": 1},
        {"minimum_isolation": "STEEL"},
    ],
)
def test_a_wrong_value_is_refused_by_name(open_sandbox: OpenSandbox, setting: dict[str, Any]) -> None:
    with pytest.raises(PolicyError) as caught:
        open_sandbox(**setting)
    assert caught.value.field in setting


@pytest.mark.parametrize("timeout", [0, -5, "1", 1.5])
def test_a_wrong_deadline_of_a_call_is_refused(sandbox: SessionSandbox, timeout: Any) -> None:
    with pytest.raises(RequestError):
        sandbox.execute("ran = True", timeout_ms=timeout)
    assert sandbox.get_variable("ran") is None


def test_the_policy_of_a_sandbox_cannot_be_changed(sandbox: SessionSandbox) -> None:
    with pytest.raises(AttributeError):
        sandbox.policy.timeout_ms = 1  # type: ignore[misc]  # that it is refused is what is tested
