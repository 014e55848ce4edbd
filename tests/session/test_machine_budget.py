"""What a session may have under way towards the host, in bytes: beyond that it waits, and nothing else happens."""

from __future__ import annotations

import json
from typing import Any

from tests.session.guest_side import Bench, bridge_calls, frame, methods, sent

from cloche.session.actions import AbandonBridge, Kill
from cloche.session.machine import FRAME_SLACK, Phase

VALUE = 1 << 20
LIMIT = 2 * (VALUE + FRAME_SLACK)
"""What may be under way with values of that size."""


def make(**policy: Any) -> Bench:
    return Bench(["f", "llm_query"], value_max_bytes=VALUE, display_max_bytes=VALUE, **policy)


def call(number: int, size: int, name: str = "f") -> bytes:
    return frame(id=number, method="bridge", params={"name": name, "args": ["x" * size]})


def test_a_guest_whose_calls_fill_the_budget_is_not_read_until_one_is_answered():
    bench = make()
    bench.begin()
    started = []
    number = 0
    while bench.machine.takes_input:
        number += 1
        started += bridge_calls(bench.receive(call(number, VALUE)))
    assert number * VALUE <= LIMIT
    assert len(started) == bench.machine.desk.under_way == 5
    bench.answer(started[0], "done")
    assert bench.machine.takes_input


def test_small_calls_fill_it_too():
    bench = make(max_bridge_calls=10**6)
    bench.begin()
    number = 0
    while bench.machine.takes_input:
        number += 1
        bench.receive(call(number, 0))
    assert number * 1000 < LIMIT


def test_a_frame_that_is_larger_than_what_is_left_waits_until_there_is_room():
    bench = make()
    bench.begin()
    running = bridge_calls(bench.receive(*(call(number, 3 * VALUE) for number in (1, 2, 3))))
    assert bridge_calls(bench.receive(call(4, 3 * VALUE))) == []
    assert not bench.machine.takes_input
    assert len(bridge_calls(bench.answer(running[0], 0))) == 1
    assert bench.machine.takes_input


def test_a_frame_that_is_larger_than_the_budget_waits_until_it_is_alone():
    bench = make()
    bench.begin()
    small = bridge_calls(bench.receive(call(1, 10)))
    many = {"name": "f", "args": [list(range(300_000))]}
    large = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "bridge", "params": many}).encode() + b"\n"
    assert bridge_calls(bench.receive(large, call(3, 10))) == []
    alone = bridge_calls(bench.answer(small[0], 0))
    assert [it.args for it in alone] == [many["args"]]
    assert [it.args for it in bridge_calls(bench.answer(alone[0], 0))] == [["x" * 10]]
    assert not bench.is_over()


def test_a_frame_that_waits_is_not_lost_when_the_cell_ends_otherwise():
    bench = make()
    bench.begin()
    bench.receive(*(call(number, 3 * VALUE) for number in (1, 2, 3, 4)))
    assert not bench.machine.at_rest
    bench.cancel()
    answers = {message["id"] for message in sent(bench.actions) if "error" in message}
    assert answers == {1, 2, 3, 4}
    assert bench.machine.takes_input


def test_a_reply_does_not_wait_for_room():
    bench = make()
    bench.begin()
    bench.receive(*(call(number, 3 * VALUE) for number in (1, 2, 3)))
    reply = {"jsonrpc": "2.0", "id": bench.waiting[0], "result": {"value": "x" * 3 * VALUE}}
    bench.receive(json.dumps(reply, separators=(",", ":")).encode() + b"\n")
    assert bench.finished().death is None


def test_a_frame_that_is_a_reply_and_a_call_ends_the_guest():
    bench = make()
    bench.begin()
    bench.receive(frame(id=1, result={}, method="bridge", params={"name": "f", "args": []}))
    assert bench.finished().death == "protocol"


def test_a_cell_that_is_to_stop_is_heard_whatever_it_has_under_way():
    bench = make()
    bench.begin()
    bench.receive(*(call(number, 3 * VALUE) for number in (1, 2, 3, 4)))
    heard = [bench.machine.takes_input]
    bench.cancel()
    assert [*heard, bench.machine.takes_input] == [False, True]
    assert bench.machine.budget.calls == 0
    bench.reply(outcome="interrupted")
    assert bench.finished().stop == "cancelled"


def test_a_nested_frame_ends_the_guest_undecoded():
    bench = make()
    bench.begin()
    bench.receive(b'{"jsonrpc":"2.0","id":1,"method":"bridge","params":[' + b"[]," * 1_000_000 + b"0]}\n")
    assert bench.finished().death == "protocol"
    assert "decoded" in bench.finished().detail
    assert Kill() in bench.actions


def test_calls_that_come_between_cells_count_too():
    bench = make()
    bench.begin()
    bench.receive(frame(id=1, result={"outcome": "ok"}), *(call(number, 3 * VALUE) for number in (1, 2, 3, 4)))
    assert bench.machine.phase is Phase.IDLE
    assert 2 * 3 * VALUE < bench.machine.budget.calls <= LIMIT
    served = bridge_calls(bench.begin())
    assert len(served) == 3
    assert len(bridge_calls(bench.answer(served[0], 0))) == 1
    assert not bench.is_over()


def test_everything_is_given_back_when_all_is_answered():
    bench = make()
    bench.begin()
    for it in bridge_calls(bench.receive(call(1, 10), call(2, VALUE), frame(id=3, method="bridge", params=5))):
        bench.answer(it, 0)
    assert bench.machine.budget.calls == 0
    assert bench.machine.budget.given_up.bytes == 0


# -- answers ---------------------------------------------------------------------------------------


def test_no_function_is_started_while_the_guest_does_not_take_its_answers():
    bench = make()
    bench.begin()
    bench.machine.budget.unsent = LIMIT
    assert bridge_calls(bench.receive(call(1, 10))) == []
    bench.machine.budget.unsent = LIMIT - 1
    bench.machine.answers_taken(bench.now)
    assert len(bridge_calls(bench._take())) == 1


def test_a_batch_whose_answers_are_too_much_is_refused_before_all_have_come():
    bench = make(max_concurrent=2)
    bench.begin()
    batch = [[str(number)] for number in range(10)]
    running = bridge_calls(
        bench.receive(frame(id=7, method="bridge", params={"name": "llm_query_batched", "args": [batch]}))
    )
    bench.answer(running[0], "x" * (VALUE // 2))
    told = bench.answer(running[1], "x" * (VALUE // 2))
    assert "cannot cross the wall" in sent(told)[0]["error"]["message"]
    assert any(isinstance(action, AbandonBridge) for action in told)
    assert not bench.machine.desk.busy


def stopped(bench: Bench) -> bool:
    return bench.machine.phase is Phase.ASKED


# -- time ------------------------------------------------------------------------------------------


def test_a_call_that_merely_waits_does_not_stop_the_deadline():
    bench = make()
    bench.begin(timeout=1.0)
    bench.machine.budget.unsent = LIMIT  # the guest does not take what it was answered
    bench.receive(call(1, 10))
    assert bench.machine.desk.busy
    bench.pass_time(1.1)
    assert stopped(bench)


def test_calls_that_wait_for_others_cannot_hold_the_deadline_beyond_the_ceiling():
    bench = make(total_timeout_ms=5_000, max_concurrent=1)
    bench.begin(timeout=1.0)
    bench.receive(*(call(number, 10) for number in range(500)))
    bench.pass_time(4.9)
    assert stopped(bench) is False
    bench.pass_time(0.2)
    assert stopped(bench)


# -- functions that were given up ------------------------------------------------------------------


def test_functions_that_never_return_cannot_gather_without_end():
    bench = make(bridge_timeout_ms=100, max_bridge_calls=10**6)
    started = 0
    for _ in range(30):
        bench.begin()
        started += len(bridge_calls(bench.receive(*(call(number, VALUE) for number in range(5)))))
        bench.pass_time(0.2)
        bench.reply(outcome="ok")
        bench.actions.clear()
    assert started * VALUE <= LIMIT + 5 * VALUE


def test_a_function_that_returns_late_gives_back_what_it_held():
    bench = make(bridge_timeout_ms=100)
    bench.begin()
    late = bridge_calls(bench.receive(call(1, VALUE)))
    bench.pass_time(0.2)
    assert bench.machine.budget.given_up.bytes > VALUE
    bench.answer(late[0], "too late")
    assert bench.machine.budget.given_up.bytes == 0


def test_requests_of_the_host_go_out_beside_a_guest_that_waits():
    bench = make()
    assert methods(bench.begin("initialize", "execute")) == ["initialize", "execute"]
