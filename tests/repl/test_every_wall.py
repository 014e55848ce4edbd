"""The workbench behind every wall: the same turns, the same answers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.repl.conftest import Walls

from cloche import REPLConfig, REPLEnvironment

LINES = [f"line {number}: item{number} is worth {number * number}" for number in range(2000)]
CONTEXT = "\n".join(LINES) + "\nGrüße, 東京 😀\n"
WALLS = ("inprocess", "native", "jail", "wasm", "daemon")


@pytest.fixture(scope="module", params=WALLS)
def environment(request: pytest.FixtureRequest, behind: Walls) -> Iterator[REPLEnvironment]:
    with behind(request.param) as options, REPLEnvironment(CONTEXT, llm=str.upper, **options) as one:
        yield one


@pytest.fixture
def env(environment: REPLEnvironment) -> REPLEnvironment:
    environment.reset()
    return environment


def test_peek_and_grep_look_at_the_context(env):
    result = env.execute("print(peek(6)); print(grep('item42 '))")
    assert result.output == "line 0\n43: line 42: item42 is worth 1764"
    assert [call.name for call in result.calls] == ["peek", "grep"]


def test_the_context_is_there_as_a_variable_too(env):
    assert env.execute("len(context) == context_len() and '東京' in context").output == "True"


def test_hits_say_where_they_are(env):
    found = env.execute("h = grep('東京')[0]\n(h.line, context[h.start:h.start + 2], h.column)").output
    assert found == "(2001, '東京', 8)"


def test_pieces_of_the_context_make_the_context(env):
    code = "c = chunk_context(7, overlap=0)\n''.join(piece['text'] for piece in c) == context, len(c)"
    assert env.execute(code).output == "(True, 7)"


def test_variables_stay_from_turn_to_turn(env):
    env.execute("x = 20\ndef twice(n): return 2 * n")
    assert env.execute("twice(x) + 2").output == "42"


def test_final_ends_the_turn_even_where_it_is_caught(env):
    result = env.execute("try:\n    FINAL('the answer')\nexcept BaseException:\n    pass\nprint('after')")
    assert (result.is_final, result.final_answer, result.output) == (True, "the answer", "")


def test_final_in_a_comment_a_string_or_dead_code_ends_nothing(env):
    result = env.execute("# FINAL('a')\ns = \"FINAL('b')\"\nif False:\n    FINAL('c')\nprint('went on')")
    assert (result.is_final, result.output) == (False, "went on")


def test_final_var_gives_the_value_of_a_variable(env):
    result = env.execute("total = {'sum': 3}\nFINAL_VAR('total')")
    assert (result.final_answer, result.final_value) == ("{'sum': 3}", {"sum": 3})


def test_an_answer_that_is_ready_is_final(env):
    result = env.execute("answer['content'] = 'done'; answer['ready'] = True")
    assert (result.is_final, result.final_answer) == (True, "done")
    assert not env.execute("print('next')").is_final


def test_an_answer_in_a_dict_of_ones_own_is_final_too(env):
    assert env.execute("answer = {'content': 5, 'ready': True}").final_answer == "5"


def test_an_error_says_its_line_and_keeps_what_was_printed(env):
    result = env.execute("print('so far')\nvalue = 1\nvalue / 0")
    assert result.error is not None
    assert "ZeroDivisionError" in result.error
    assert "(line 3: value / 0)" in result.error
    assert result.output.startswith("so far\n[ERROR] ")


def test_long_output_is_stored_and_the_printed_hints_work(env):
    result = env.execute("for n in range(3000): print('row', n)")
    handle = result.spilled
    assert handle is not None
    assert len(result.output) < 1600
    assert f'peek("{handle}")' in result.output
    again = env.execute(f'print(peek("{handle}", 5)); print(grep("row 2999", "{handle}"))')
    assert again.output == "row 0\n3000: row 2999"


def test_findings_are_noted_down(env):
    env.execute("mark_finding('the sum is 3', tags=['sum'])")
    assert env.execute("[f['content'] for f in list_findings()]").output == "['the sum is 3']"


def test_models_are_asked_one_by_one_and_in_batches(env):
    assert env.execute("llm_call('a'), llm_batch(['b', 'c'])").output == "('A', ['B', 'C'])"


def test_a_turn_that_does_not_end_is_ended(env):
    result = env.execute(
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass", timeout_ms=500
    )
    assert result.error is not None
    assert "timeout" in result.error
    assert env.execute("1 + 1").output == "2"


def test_guard_rails_report_everything_at_once(env):
    result = env.execute("import subprocess\nx = ().__class__\neval('1')")
    assert result.result is None
    assert [f"line {number}" in (result.error or "") for number in (1, 2, 3)] == [True, True, True]


def test_a_checkpoint_brings_everything_back(env):
    env.execute("x = [1]; mark_finding('kept'); peek(1)")
    env.execute("for n in range(3000): print('row', n)")
    saved = env.checkpoint()
    env.reset()
    assert env.restore(saved) == ()
    assert env.execute("x.append(2); x, len(list_findings()), peek('out:2', 5)").output == "([1, 2], 1, 'row 0')"


def test_reset_leaves_nothing_but_the_context(env):
    env.execute("x = 1; mark_finding('a')")
    env.reset()
    assert env.execute("list_findings(), len(context) > 10").output == "([], True)"


@pytest.mark.parametrize("wall", WALLS)
def test_the_exploration_rule_holds(wall, behind):
    config = REPLConfig(require_exploration_before_final=True, min_exploration_calls=2)
    with behind(wall) as options, REPLEnvironment("text", config, **options) as env:
        first = env.execute("peek(1)\ntry: grep('(')\nexcept Exception: pass\nFINAL('too early')")
        assert not first.is_final
        assert "1 of 2 looks" in (first.error or "")
        assert env.execute("grep('t'); FINAL('now')").final_answer == "now"


@pytest.mark.parametrize("wall", [wall for wall in WALLS if wall != "inprocess"])
def test_a_branch_goes_its_own_way(wall, behind):
    with behind(wall) as options, REPLEnvironment("text", **options) as env:
        if "fork" not in env.sandbox.capabilities:
            pytest.skip(f"the {wall} backend does not have fork")
        env.execute("x = 1; mark_finding('common')")
        branch = env.fork()
        try:
            branch.execute("x = 2; mark_finding('mine')")
            assert branch.execute("x, len(list_findings())").output == "(2, 2)"
            assert env.execute("x, len(list_findings())").output == "(1, 1)"
        finally:
            branch.close()


@pytest.mark.parametrize(
    "form", [{"guard": "restricted"}, {"worker": "inline"}, {"guard": "restricted", "worker": "inline"}]
)
def test_the_other_forms_of_the_guard_rails_carry_a_workbench_too(form):
    with REPLEnvironment(CONTEXT, backend="inprocess", **form) as env:
        assert (
            env.execute("print(peek(6)); print(grep('item42 '))").output == "line 0\n43: line 42: item42 is worth 1764"
        )
        env.execute("x = [1]; artifacts['kept'] = 2; mark_finding('a')")
        result = env.execute("try:\n    FINAL(x)\nexcept BaseException:\n    pass\nprint('after')")
        assert (result.is_final, result.final_value, result.output) == (True, [1], "")
        assert env.execute("FINAL_VAR('kept')").final_answer == "2"
        assert env.execute("answer['content'] = 'done'; answer['ready'] = True").final_answer == "done"
        long = env.execute("for n in range(3000): print('row', n)")
        assert env.execute(f"print(grep('row 77$', '{long.spilled}'))").output == "78: row 77"
