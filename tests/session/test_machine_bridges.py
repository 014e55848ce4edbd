"""Calls of the guest to host functions: matched, counted, bounded, and abandoned with their cell."""

from __future__ import annotations

from typing import Any

import pytest
from tests.session.guest_side import Bench, bridge_calls, frame, sent

from cloche.session.actions import AbandonBridge, Interrupt, Kill


def items(*prompts: str) -> list[list[str]]:
    return [[prompt] for prompt in prompts]


def test_a_call_is_handed_out_and_its_answer_sent_under_the_guests_number():
    bench = Bench(["llm_query"])
    bench.begin()
    (call,) = bridge_calls(bench.bridge(7, "llm_query", "hello", model="m"))
    assert (call.name, call.args, call.kwargs) == ("llm_query", ["hello"], {"model": "m"})
    assert sent(bench.answer(call, "hi")) == [{"jsonrpc": "2.0", "id": 7, "result": "hi"}]


def test_answers_may_come_in_any_order():
    bench = Bench(["f"])
    bench.begin()
    calls = bridge_calls(bench.bridge(1, "f", 1) + bench.bridge(2, "f", 2) + bench.bridge(3, "f", 3))
    answered = [sent(bench.answer(call, call.args[0] * 10))[0] for call in reversed(calls)]
    assert [(message["id"], message["result"]) for message in answered] == [(3, 30), (2, 20), (1, 10)]


def test_a_failure_of_the_host_arrives_as_type_and_message_only():
    bench = Bench(["f"])
    bench.begin()
    (call,) = bridge_calls(bench.bridge(1, "f"))
    try:
        raise KeyError("secret/path.py")
    except KeyError as exc:
        (message,) = sent(bench.answer(call, error=exc))
    assert message["error"] == {"code": -32000, "message": "KeyError: 'secret/path.py'", "data": {"type": "KeyError"}}


def test_a_host_exception_whose_text_cannot_be_made_is_still_an_answer():
    class Broken(Exception):
        def __str__(self) -> str:
            raise ZeroDivisionError

    bench = Bench(["f"])
    bench.begin()
    (call,) = bridge_calls(bench.bridge(1, "f"))
    (message,) = sent(bench.answer(call, error=Broken()))
    assert message["error"]["message"] == "Broken: <ZeroDivisionError in str()>"


def test_an_unknown_function_is_refused_and_a_missing_callback_named():
    bench = Bench(["f"])
    bench.begin()
    (unknown,) = sent(bench.bridge(1, "g"))
    assert unknown["error"]["code"] == -32601
    (missing,) = sent(bench.bridge(2, "llm_query", "x"))
    assert "on_llm_query" in missing["error"]["message"]
    (batch,) = sent(bench.bridge(3, "rlm_query_batched", items("x")))
    assert "on_rlm_query" in batch["error"]["message"]


@pytest.mark.parametrize(
    "params",
    [
        None, [], 5, "f", {}, {"name": None}, {"name": ["f"]}, {"name": "f", "args": 5},
        {"name": "f", "args": {"a": 1}},
        {"name": "f", "kwargs": []}, {"name": "f", "kwargs": {"$": "dict", "v": [[1, 2]]}},
        {"name": "f", "args": [{"$": "nonsense"}]}, {"name": "f", "args": [{"$": []}]},
        {"name": "llm_query_batched"}, {"name": "llm_query_batched", "args": ["abc"]},
        {"name": "llm_query_batched", "args": [["abc"]]}, {"name": "llm_query_batched", "args": [5]},
    ],
)  # fmt: skip
def test_bad_arguments_are_answered_and_nothing_is_called(params):
    bench = Bench(["f", "llm_query"])
    bench.begin()
    actions = bench.receive(frame(id=1, method="bridge", params=params))
    assert bridge_calls(actions) == []
    (message,) = sent(actions)
    assert message["error"]["code"] == -32602
    assert not bench.is_over()


@pytest.mark.parametrize("number", [None, "1", 1.0, True, [], {}])
def test_a_call_without_a_usable_number_is_not_made(number):
    bench = Bench(["f"])
    bench.begin()
    assert bench.receive(frame(id=number, method="bridge", params={"name": "f"})) == []
    assert not bench.machine.desk.busy


def test_the_number_of_calls_in_a_cell_is_bounded_and_the_next_cell_counts_anew():
    bench = Bench(["f"], max_bridge_calls=2)
    bench.begin()
    for number in (1, 2):
        bench.answer(bridge_calls(bench.bridge(number, "f"))[0])
    (message,) = sent(bench.bridge(3, "f"))
    assert "limit of 2" in message["error"]["message"]
    bench.reply()
    bench.begin()
    assert len(bridge_calls(bench.bridge(4, "f"))) == 1


def test_each_item_of_a_batch_counts():
    bench = Bench(["llm_query"], max_bridge_calls=4)
    bench.begin()
    bench.bridge(1, "llm_query_batched", items("a", "b", "c"))
    (message,) = sent(bench.bridge(2, "llm_query_batched", items("d", "e")))
    assert "limit of 4" in message["error"]["message"]
    assert bench.machine.desk.calls == 3


def test_a_batch_is_answered_in_its_own_order_when_the_last_item_is_in():
    bench = Bench(["llm_query"], max_concurrent=3)
    bench.begin()
    calls = bridge_calls(bench.bridge(1, "llm_query_batched", items("a", "b", "c"), model="m"))
    assert [(call.name, call.args, call.kwargs) for call in calls] == [
        ("llm_query", [prompt], {"model": "m"}) for prompt in "abc"
    ]
    assert sent(bench.answer(calls[2], "C")) == []
    assert sent(bench.answer(calls[0], "A")) == []
    assert sent(bench.answer(calls[1], "B")) == [{"jsonrpc": "2.0", "id": 1, "result": ["A", "B", "C"]}]


def test_no_more_than_max_concurrent_are_under_way_whoever_made_them():
    bench = Bench(["llm_query"], max_concurrent=2)
    bench.begin()
    running = bridge_calls(bench.bridge(1, "llm_query_batched", items("a", "b", "c")))
    running += bridge_calls(bench.bridge(2, "llm_query", "d"))
    assert [call.args for call in running] == [["a"], ["b"]]
    started = []
    while running:
        assert len(running) <= 2
        fresh = bridge_calls(bench.answer(running.pop(0), "x"))
        started += fresh
        running += fresh
    assert [call.args for call in started] == [["c"], ["d"]]


def test_one_items_failure_is_that_items_alone():
    bench = Bench(["llm_query"])
    bench.begin()
    good, bad = bridge_calls(bench.bridge(1, "llm_query_batched", items("a", "b")))
    bench.answer(bad, error=ValueError("too long"))
    (message,) = sent(bench.answer(good, "A"))
    assert message["result"] == ["A", {"$": "failure", "v": "[Error: ValueError: too long]"}]


def test_an_empty_batch_is_answered_at_once():
    bench = Bench(["llm_query"])
    bench.begin()
    actions = bench.bridge(1, "llm_query_batched", [])
    assert sent(actions) == [{"jsonrpc": "2.0", "id": 1, "result": []}]
    assert not bench.machine.desk.busy


def test_an_answer_that_is_too_large_is_an_error_and_costs_only_itself():
    bench = Bench(["f"], value_max_bytes=1000)
    bench.begin()
    (call,) = bridge_calls(bench.bridge(1, "f"))
    (message,) = sent(bench.answer(call, "x" * 5000))
    assert "1000 bytes" in message["error"]["message"]
    (call,) = bridge_calls(bench.bridge(2, "f"))
    assert sent(bench.answer(call, "ok"))[0]["result"] == "ok"


def test_an_answer_that_does_not_travel_is_refused():
    bench = Bench(["f"])
    bench.begin()
    (call,) = bridge_calls(bench.bridge(1, "f"))
    (message,) = sent(bench.answer(call, object()))
    assert "a value of type object does not cross the wall" in message["error"]["message"]


def test_a_function_that_takes_too_long_is_abandoned_and_the_cell_goes_on():
    bench = Bench(["f"], bridge_timeout_ms=2000)
    bench.begin(timeout=1.0)
    (call,) = bridge_calls(bench.bridge(1, "f"))
    assert bench.pass_time(1.99) == []
    actions = bench.pass_time(0.02)
    assert actions[0] == AbandonBridge(call.key)
    assert "2000 ms" in sent(actions)[0]["error"]["message"]
    assert bench.answer(call, "too late") == []
    bench.reply(outcome="ok")
    assert bench.finished().stop is None


def test_an_item_that_takes_too_long_makes_room_for_the_next():
    bench = Bench(["llm_query"], bridge_timeout_ms=1000, max_concurrent=1)
    bench.begin()
    bench.bridge(1, "llm_query_batched", items("a", "b"))
    (second,) = bridge_calls(bench.pass_time(1.01))
    assert second.args == ["b"]
    (message,) = sent(bench.answer(second, "B"))
    assert message["result"] == [{"$": "failure", "v": "[Error: TimeoutError: no answer within 1000 ms]"}, "B"]


def test_an_item_that_waits_for_its_turn_does_not_use_up_its_time():
    bench = Bench(["llm_query"], bridge_timeout_ms=1000, max_concurrent=1)
    bench.begin()
    (first,) = bridge_calls(bench.bridge(1, "llm_query_batched", items("a", "b")))
    bench.pass_time(0.9)
    (second,) = bridge_calls(bench.answer(first, "A"))
    assert bench.pass_time(0.9) == []
    assert sent(bench.answer(second, "B"))[0]["result"] == ["A", "B"]


def test_without_a_bridge_time_out_a_function_is_waited_for():
    bench = Bench(["f"], bridge_timeout_ms=None, total_timeout_ms=10**9)
    bench.begin()
    (call,) = bridge_calls(bench.bridge(1, "f"))
    assert bench.pass_time(5_000.0) == []
    assert sent(bench.answer(call, 1))[0]["result"] == 1


# -- time --------------------------------------------------------------------------------------


def test_the_wait_for_a_function_does_not_count_against_the_deadline():
    bench = Bench(["f"])
    bench.begin(timeout=1.0)
    bench.pass_time(0.5)
    (call,) = bridge_calls(bench.bridge(1, "f"))
    assert bench.pass_time(60.0) == []
    bench.answer(call)
    assert bench.machine.bridge_seconds == pytest.approx(60.0)
    assert bench.pass_time(0.49) == []
    assert bench.pass_time(0.02) == [Interrupt(insist=False)]


def test_the_clock_runs_again_only_when_the_last_function_is_back():
    bench = Bench(["f"])
    bench.begin(timeout=1.0)
    first, second = bridge_calls(bench.bridge(1, "f") + bench.bridge(2, "f"))
    bench.answer(first)
    assert bench.pass_time(10.0) == []
    bench.answer(second)
    assert bench.pass_time(1.01) == [Interrupt(insist=False)]


def test_cpu_burnt_while_the_host_works_counts():
    cpu = [0.0]
    bench = Bench(["f"], cpu=cpu)
    bench.begin(timeout=1.0)
    (call,) = bridge_calls(bench.bridge(1, "f"))
    bench.pass_time(5.0)
    cpu[0] = 1.5
    assert bench.pass_time(1.0)[:2] == [Interrupt(insist=False), AbandonBridge(call.key)]


def test_the_ceiling_ends_a_cell_that_waits_for_the_host():
    bench = Bench(["f"], total_timeout_ms=3000)
    bench.begin(timeout=1.0)
    bench.bridge(1, "f")
    assert bench.pass_time(2.99) == []
    assert Interrupt(insist=False) in bench.pass_time(0.02)


# -- the end of a cell -------------------------------------------------------------------------


def test_stopping_a_cell_abandons_its_calls_and_answers_them():
    bench = Bench(["llm_query"], max_concurrent=1)
    bench.begin()
    bench.bridge(1, "llm_query_batched", items("a", "b"))
    bench.bridge(2, "llm_query", "c")
    actions = bench.cancel()
    assert [action for action in actions if isinstance(action, AbandonBridge)] != []
    assert {message["id"]: message["error"]["data"]["type"] for message in sent(actions)} == {
        1: "Abandoned",
        2: "Abandoned",
    }
    assert not bench.machine.desk.busy


def test_a_call_made_while_the_cell_is_being_stopped_is_refused():
    bench = Bench(["f"])
    bench.begin()
    bench.cancel()
    actions = bench.bridge(1, "f")
    assert bridge_calls(actions) == []
    assert sent(actions)[0]["error"]["message"] == "the cell was stopped"


def test_a_call_made_while_the_cell_is_being_killed_is_refused():
    bench = Bench(["f"], grace_ms=10)
    bench.begin()
    bench.cancel()
    assert Kill() in bench.pass_time(0.02)
    assert bridge_calls(bench.bridge(1, "f")) == []


def test_calls_that_are_out_when_the_cell_ends_are_abandoned_and_answered():
    bench = Bench(["f"])
    bench.begin()
    (call,) = bridge_calls(bench.bridge(1, "f"))
    actions = bench.reply(outcome="ok")
    assert AbandonBridge(call.key) in actions
    assert sent(actions)[0]["error"]["message"] == "the cell ended before the host answered"
    assert bench.answer(call, 1) == []
    assert bench.finished().result == {"outcome": "ok"}


def test_an_abandoned_function_does_not_hold_a_place():
    bench = Bench(["f"], max_concurrent=1)
    bench.begin()
    bench.bridge(1, "f")
    bench.reply()
    bench.begin()
    assert len(bridge_calls(bench.bridge(2, "f"))) == 1


def test_a_late_answer_of_an_earlier_cell_does_not_answer_a_call_of_this_one():
    bench = Bench(["f"])
    bench.begin()
    (late,) = bridge_calls(bench.bridge(1, "f"))
    bench.reply()
    bench.begin()
    (current,) = bridge_calls(bench.bridge(1, "f"))
    assert bench.answer(late, "old") == []
    assert sent(bench.answer(current, "new"))[0]["result"] == "new"


def test_a_call_that_comes_with_the_reply_is_served_with_the_next_call():
    """A background thread of the guest calls between cells; nobody is there to run the function until the next."""
    bench = Bench(["f"])
    bench.begin()
    actions = bench.receive(frame(id=1, result={}), frame(id=9, method="bridge", params={"name": "f", "args": [5]}))
    assert bridge_calls(actions) == []
    assert bench.finished().death is None
    (call,) = bridge_calls(bench.begin())
    assert call.args == [5]
    assert sent(bench.answer(call, "yes"))[0] == {"jsonrpc": "2.0", "id": 9, "result": "yes"}
    bench.reply(outcome="ok")
    assert bench.finished().death is None


def test_calls_that_come_between_cells_are_bounded():
    bench = Bench(["f"])
    bench.begin()
    bench.reply()
    flood: list[Any] = [frame(id=number, method="bridge", params={"name": "f"}) for number in range(5000)]
    bench.receive(*flood)
    held = bench.finished()
    assert held.death == "protocol"
