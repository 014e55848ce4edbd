"""The public test doubles: what is scripted happens as it would for real, and everything is on record."""

from __future__ import annotations

import pytest

import cloche.testing
from cloche.errors import SessionLostError, StartError
from cloche.factory import create_async_sandbox, create_sandbox
from cloche.testing import DIE, HANG, STALL, Answer, FakeSandbox, Rule, Script, ScriptedModel


def test_the_example_in_the_documentation_is_true():
    example = (cloche.testing.__doc__ or "").partition("::\n\n")[2].partition("\n\nThe double")[0]
    lines = [line.removeprefix("    ") for line in example.splitlines()]
    exec("\n".join(lines), {**vars(cloche.testing), "create_sandbox": create_sandbox})


def test_a_scripted_cell_has_the_output_and_value_of_the_script():
    with FakeSandbox(script=Script({"go()": Answer(stdout="out\n", stderr="err\n", value="7")})) as sandbox:
        result = sandbox.execute("go()")
    assert (result.outcome, result.stdout, result.stderr, result.value) == ("ok", "out\n", "err\n", "7")


def test_a_scripted_cell_may_raise():
    with FakeSandbox(script=Script({"go()": Answer(stdout="before", raises=ValueError("no"))})) as sandbox:
        result = sandbox.execute("go()")
    assert (result.outcome, result.error, result.stdout) == ("error", "ValueError: no", "before")


def test_a_scripted_cell_may_exit():
    with FakeSandbox(script=Script({"go()": Answer(exit_code=3)})) as sandbox:
        assert (sandbox.execute("go()").exit_code, sandbox.execute("1").value) == (3, "1")


def test_scripted_output_is_cut_as_real_output_is():
    script = Script({"go()": Answer(stdout="x" * 57)})
    with create_sandbox(backend="fake", script=script, max_output_length=50) as sandbox:
        assert sandbox.execute("go()").stdout.endswith("[truncated, 7 chars omitted]")


def test_code_that_is_not_in_the_script_runs_for_real():
    with FakeSandbox(script=Script({"go()": Answer()})) as sandbox:
        sandbox.execute("x = 20")
        sandbox.execute("go()")
        assert sandbox.execute("x + 1").value == "21"


def test_rules_may_be_predicates_and_the_first_that_fits_counts():
    rules: list[Rule] = [
        (lambda code: "net" in code, Answer(value="1")),
        ("net", Answer(value="2")),
        ("x", Answer(value="3")),
    ]
    with FakeSandbox(script=Script(rules)) as sandbox:
        assert [sandbox.execute(code).value for code in ("net", "x")] == ["1", "3"]


def test_an_act_may_be_made_from_the_code():
    with FakeSandbox(script=Script([(str.isupper, lambda code: Answer(value=code.lower()))])) as sandbox:
        assert sandbox.execute("ABC").value == "abc"


def test_the_whole_script_may_be_a_function():
    with FakeSandbox(script=Script(lambda code: Answer(value="no") if "rm" in code else None)) as sandbox:
        assert [sandbox.execute(code).value for code in ("rm", "1 + 1")] == ["no", "2"]


def test_a_cell_may_die():
    with FakeSandbox(script=Script({"go()": DIE})) as sandbox:
        sandbox.execute("x = 1")
        result = sandbox.execute("go()")
        assert (result.outcome, result.session_state) == ("killed", "reset")
        assert sandbox.get_variable("x", "gone") == "gone"


def test_a_cell_may_hang_until_it_is_killed():
    with create_sandbox(backend="fake", script=Script({"go()": HANG}), grace_ms=50) as sandbox:
        result = sandbox.execute("go()", timeout_ms=100)
    assert (result.outcome, result.session_state) == ("timeout", "reset")


def test_a_cell_may_stall_until_it_is_asked_to_stop():
    with FakeSandbox(script=Script({"go()": STALL})) as sandbox:
        sandbox.execute("x = 1")
        result = sandbox.execute("go()", timeout_ms=100)
        assert (result.outcome, result.session_state) == ("timeout", "kept")
        assert sandbox.get_variable("x") == 1


def test_a_session_may_be_lost_between_two_cells():
    script = Script()
    with FakeSandbox(script=script) as sandbox:
        sandbox.execute("1")
        script.lose_session()
        with pytest.raises(SessionLostError):
            sandbox.execute("1")
        assert sandbox.execute("1").success
    assert script.starts == 2


def test_a_start_may_be_refused():
    with FakeSandbox(script=Script(refused_starts=1)) as sandbox:
        with pytest.raises(StartError):
            sandbox.execute("1")
        assert sandbox.execute("1").success


def test_every_cell_is_on_record():
    script = Script({"played": Answer()})
    with FakeSandbox(script=script) as sandbox:
        sandbox.execute("played")
        sandbox.execute("x = 1")
        assert sandbox.script is script
    assert script.cells == ["played", "x = 1"]


def test_the_factory_makes_the_same_class():
    assert type(create_sandbox(backend="fake")) is FakeSandbox


def test_the_async_api_follows_the_script_too():
    import anyio

    script = Script({"go()": Answer(value="7"), "die()": DIE})

    async def scenario() -> list[object]:
        async with create_async_sandbox(backend="fake", script=script) as sandbox:
            return [(await sandbox.execute("go()")).value, (await sandbox.execute("die()")).outcome]

    assert anyio.run(scenario) == ["7", "killed"]


def test_a_scripted_model_answers_in_order_and_keeps_the_prompts():
    model = ScriptedModel(["one", "two"])
    with FakeSandbox(on_llm_query=model) as sandbox:
        assert sandbox.execute("[llm_query('a'), llm_query('b', model='m')]").value == "['one', 'two']"
    assert model.prompts == ["a", "b"]
    assert model.calls == [(("a",), {}), (("b",), {"model": "m"})]


def test_a_scripted_model_answers_by_prompt():
    with FakeSandbox(on_llm_query=ScriptedModel({"a": "A", "b": str.upper})) as sandbox:
        assert sandbox.execute("llm_query_batched(['b', 'a'])").value == "['B', 'A']"


def test_a_scripted_model_may_fail():
    with FakeSandbox(on_llm_query=ScriptedModel([TimeoutError("busy")])) as sandbox:
        assert "TimeoutError: busy" in str(sandbox.execute("llm_query('a')").error)


@pytest.mark.parametrize("answers", [[], {"other": "x"}])
def test_a_scripted_model_without_an_answer_says_what_it_was_asked(answers):
    with FakeSandbox(on_llm_query=ScriptedModel(answers)) as sandbox:
        assert "'unexpected'" in str(sandbox.execute("llm_query('unexpected')").error)


def test_a_scripted_model_serves_tasks_with_their_context():
    model = ScriptedModel(["done"])
    with FakeSandbox(on_rlm_query=model) as sandbox:
        sandbox.execute("rlm_query('task', 'part')").check()
    assert model.calls == [(("task", "part"), {})]
