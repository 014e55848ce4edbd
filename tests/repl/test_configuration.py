"""REPLConfig: the seed's fields and defaults, and wrong values that name their field."""

from __future__ import annotations

import pytest

from cloche import PolicyError, PromptConfig, REPLConfig, REPLEnvironment, Tool


def test_defaults_are_those_of_the_seed():
    config = REPLConfig()
    assert config.timeout_seconds == 600
    assert config.output_cap == 8192
    assert config.max_grep_results == 100
    assert config.require_exploration_before_final is False
    assert config.min_exploration_calls == 1
    assert config.parallel_tools is True
    assert PromptConfig().max_output_preview == 1500


def test_general_work_has_two_minutes():
    assert REPLConfig.general().timeout_seconds == 120
    assert REPLConfig.general(output_cap=5).output_cap == 5


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("timeout_seconds", 0), ("timeout_seconds", "10"), ("timeout_seconds", True), ("timeout_seconds", float("nan")),
        ("output_cap", -1), ("output_cap", 1.5), ("max_grep_results", 0), ("spill_quota_bytes", None),
        ("min_exploration_calls", -1), ("parallel_tools", 1), ("require_exploration_before_final", "yes"),
        ("guard", "strict"), ("roots", "/one/folder"), ("roots", [5]), ("roots", ["a\0b"]), ("spill_dir", 5),
        ("spill_dir", ""), ("redact", None), ("sanitize_unicode", 0),
    ],
)  # fmt: skip
def test_a_wrong_value_names_its_field(field, value):
    with pytest.raises(PolicyError, match=field) as caught:
        REPLConfig(**{field: value})
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("field", "value"),
    [("config", "guard"), ("config", [1]), ("prompt", {"max_output_preview": 5}), ("tools", [len]), ("llm", 5),
     ("counter", 5), ("counter", len), ("sandbox", "jail")],
)  # fmt: skip
def test_a_wrong_argument_is_named_before_anything_is_started(field, value):
    with pytest.raises(PolicyError, match=field) as caught:
        REPLEnvironment("text", **{field: value})
    assert caught.value.field == field


def test_a_tool_is_listed_with_how_it_is_called_and_what_it_is_for():
    tools = {"add": Tool(lambda a, b=2: a + b, description="Adds.\nAlways."), "ask": Tool(str.upper)}
    with REPLEnvironment("text", backend="native", tools=tools) as env:
        listed = env.execute("print(list_tools())").output
        assert "\nadd(a, b=2): Adds.\n" in listed
        assert env.execute("help(add)").output == "add(a, b=2): Adds.\nAlways."


def test_an_unknown_field_gets_the_nearest_that_there_is():
    with pytest.raises(PolicyError, match="output_kap") as caught:
        REPLEnvironment("text", {"output_kap": 5})
    assert "output_cap" in str(caught.value.remedy)


@pytest.mark.parametrize("name", ["peek", "FINAL", "context", "not a name", "llm_query"])
def test_a_tool_cannot_take_the_name_of_a_builtin(name):
    with pytest.raises(PolicyError, match="tool"):
        REPLEnvironment("text", tools={name: print})


def test_an_async_tool_wants_the_async_environment():
    async def tool() -> None: ...

    with pytest.raises(PolicyError) as caught:
        REPLEnvironment("text", backend="native", tools={"tool": Tool(tool)})
    assert "AsyncREPLEnvironment" in str(caught.value.remedy)


def test_the_time_limit_of_the_configuration_is_that_of_a_turn():
    with REPLEnvironment("text", {"timeout_seconds": 0.3}, backend="native") as env:
        assert "timeout" in str(env.execute("while True: pass").error)
