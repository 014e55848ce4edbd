"""A call from its request to its end: deadlines, the ladder of ask, insist and kill, cancel, and the ping after it."""

from __future__ import annotations

import pytest
from tests.session.guest_side import Bench, frame, methods, sent

from cloche.session.actions import Emit, Interrupt, Kill, Send
from cloche.session.machine import Call, Phase


def test_a_request_is_sent_and_its_reply_is_the_result():
    bench = Bench()
    assert sent(bench.begin()) == [{"jsonrpc": "2.0", "id": 1, "method": "execute", "params": {"code": "1"}}]
    assert not bench.is_over()
    assert bench.reply(outcome="ok") == []
    finished = bench.finished()
    assert (finished.result, finished.error, finished.death, finished.stop) == ({"outcome": "ok"}, None, None, None)
    assert bench.machine.phase is Phase.IDLE


def test_several_requests_are_sent_at_once_and_the_last_reply_counts():
    bench = Bench()
    assert methods(bench.begin("initialize", "execute")) == ["initialize", "execute"]
    bench.reply(python="3.8")
    assert not bench.is_over()
    bench.reply(value="2")
    assert bench.finished().result == {"value": "2"}


def test_a_first_request_that_fails_ends_the_call_and_is_named():
    bench = Bench()
    bench.begin("initialize", "execute")
    bench.receive(frame(id=1, error={"code": -32600, "message": "this guest speaks protocol 7"}))
    finished = bench.finished()
    assert finished.failed_method == "initialize"
    assert finished.error == {"code": -32600, "message": "this guest speaks protocol 7"}


def test_an_error_reply_is_no_result():
    bench = Bench()
    bench.begin()
    bench.receive(frame(id=1, error={"code": -32602, "message": "no"}, result={"outcome": "ok"}))
    assert bench.finished().result is None
    assert bench.finished().error == {"code": -32602, "message": "no"}


def test_a_body_follows_its_request():
    bench = Bench()
    bench.machine.begin([Call("restore", {}, 6, iter([b"abc", b"def"]))], now=0, started=0, timeout=1)
    (action,) = bench.machine.actions
    assert isinstance(action, Send)
    assert sent([action])[0]["attachment"] == 6
    assert list(action.body or ()) == [b"abc", b"def"]


def test_nothing_happens_before_the_deadline():
    bench = Bench()
    bench.begin(timeout=1.0)
    assert bench.pass_time(0.999) == []


def test_at_the_deadline_the_guest_is_asked():
    bench = Bench()
    bench.begin(timeout=1.0)
    bench.pass_time(0.999)
    assert bench.pass_time(0.001) == [Interrupt(insist=False)]
    bench.receive(frame(id=1, result={"outcome": "interrupted", "interrupts": 1}))
    assert bench.finished().stop == "timeout"
    assert bench.finished().death is None


def test_time_spent_in_the_queue_belongs_to_the_deadline():
    bench = Bench()
    assert bench.begin(timeout=1.0, waited=0.4) != []
    assert bench.pass_time(0.59) == []
    assert bench.pass_time(0.02) == [Interrupt(insist=False)]


def test_a_call_whose_time_was_over_before_it_began_is_stopped_at_once():
    bench = Bench()
    actions = bench.begin(timeout=1.0, waited=2.0)
    assert methods(actions) == ["execute"]
    assert Interrupt(insist=False) in actions


def test_the_ladder_asks_again_then_insists_then_kills_once():
    bench = Bench(grace_ms=1000)
    bench.begin(timeout=1.0)
    bench.pass_time(1.0)
    asked = bench.pass_time(0.0999)
    assert asked != []
    assert all(action == Interrupt(insist=False) for action in asked)
    insisted = bench.pass_time(0.85)
    assert Interrupt(insist=True) in insisted
    assert insisted[-1] == Interrupt(insist=True)
    last = bench.pass_time(0.06)
    assert last[-1] == Kill()
    assert last.count(Kill()) == 1
    assert bench.pass_time(10.0) == []
    assert bench.machine.phase is Phase.KILLED


def test_knocking_is_not_done_more_often_than_every_few_milliseconds():
    bench = Bench(grace_ms=1000)
    bench.begin(timeout=1.0)
    bench.pass_time(1.0)
    for _ in range(200):
        bench.pass_time(0.004)
    knocks = [action for action in bench.actions if isinstance(action, Interrupt)]
    assert 30 <= len(knocks) <= 41


def test_without_grace_the_kill_comes_with_the_deadline():
    bench = Bench(grace_ms=0)
    bench.begin(timeout=1.0)
    assert bench.pass_time(1.001) == [Interrupt(insist=False), Kill()]


def test_a_reply_during_the_grace_saves_the_session():
    bench = Bench()
    bench.begin(timeout=1.0)
    bench.pass_time(1.5)
    bench.reply(outcome="interrupted", interrupts=3)
    assert (bench.finished().stop, bench.finished().death) == ("timeout", None)
    assert bench.pass_time(100.0) == []


def test_a_guest_that_dies_after_the_kill_was_killed_for_the_time_out():
    bench = Bench(grace_ms=100)
    bench.begin(timeout=1.0)
    bench.pass_time(1.2)
    bench.machine.guest_gone("killed by SIGKILL")
    finished = bench.finished()
    assert (finished.death, finished.stop, finished.detail) == ("killed", "timeout", "killed by SIGKILL")


def test_a_guest_that_dies_by_itself_exited():
    bench = Bench()
    bench.begin()
    bench.machine.guest_gone("exited with status 3", 3)
    finished = bench.finished()
    assert (finished.death, finished.stop, finished.exit_code) == ("exit", None, 3)


def test_a_death_after_the_reply_changes_nothing():
    bench = Bench()
    bench.begin()
    bench.reply(outcome="ok")
    bench.machine.guest_gone("exited with status 0", 0)
    assert bench.finished().death is None


def test_cancel_asks_at_once_and_climbs_the_same_ladder():
    bench = Bench(grace_ms=500)
    bench.begin(timeout=60.0)
    assert bench.cancel() == [Interrupt(insist=False)]
    assert bench.pass_time(0.6)[-1] == Kill()
    bench.machine.guest_gone("killed by SIGKILL")
    assert bench.finished().stop == "cancelled"


def test_cancel_is_harmless_when_idle():
    bench = Bench()
    assert bench.cancel() == []
    bench.begin()
    bench.reply(outcome="ok")
    assert bench.cancel() == []
    assert methods(bench.begin()) == ["execute"], "no interrupt was sent, so there is nothing to wait out"


def test_a_second_cancel_does_not_give_more_time():
    bench = Bench(grace_ms=500)
    bench.begin(timeout=60.0)
    bench.cancel()
    bench.pass_time(0.4)
    assert bench.cancel() == []
    assert bench.pass_time(0.11)[-1] == Kill()


def test_a_time_out_during_a_cancel_is_still_a_cancel():
    bench = Bench()
    bench.begin(timeout=1.0)
    bench.pass_time(0.95)
    bench.cancel()
    bench.pass_time(0.2)
    bench.reply(outcome="interrupted", interrupts=1)
    assert bench.finished().stop == "cancelled"


def test_after_an_interrupt_the_next_call_is_preceded_by_a_ping():
    bench = Bench()
    bench.begin()
    bench.cancel()
    bench.reply(outcome="interrupted", interrupts=1)
    assert methods(bench.begin()) == ["ping", "execute"]
    bench.reply()
    assert not bench.is_over()
    bench.reply(outcome="ok")
    assert bench.finished().result == {"outcome": "ok"}
    assert methods(bench.begin()) == ["execute"], "one ping is enough"


def test_a_stop_does_not_outlive_its_call():
    bench = Bench()
    bench.begin(timeout=1.0)
    bench.pass_time(1.1)
    bench.reply(outcome="interrupted", interrupts=1)
    bench.begin(timeout=1.0)
    bench.reply()
    bench.reply(outcome="ok")
    assert bench.finished().stop is None


def test_an_idle_machine_need_not_be_woken():
    bench = Bench()
    assert bench.machine.wake_at(0.0) is None
    bench.begin()
    bench.reply()
    assert bench.machine.wake_at(bench.now) is None
    assert bench.pass_time(1000.0) == []


def test_it_wakes_for_the_deadline_and_for_each_step_of_the_ladder():
    bench = Bench(grace_ms=30)
    bench.begin(timeout=1.0)
    assert bench.machine.wake_at(bench.now) == pytest.approx(101.0)
    bench.pass_time(1.0)
    assert bench.machine.wake_at(bench.now) == pytest.approx(101.02)
    bench.pass_time(0.02)
    assert bench.machine.wake_at(bench.now) == pytest.approx(101.03)


def test_the_ceiling_stops_a_call_that_has_time_left():
    bench = Bench(total_timeout_ms=2000)
    bench.begin(timeout=60.0)
    assert bench.pass_time(1.99) == []
    assert bench.pass_time(0.02) == [Interrupt(insist=False)]


def test_which_replies_are_missing_can_be_asked():
    bench = Bench()
    bench.begin("initialize", "execute")
    assert bench.machine.expects("initialize")
    bench.reply()
    assert not bench.machine.expects("initialize")
    assert bench.machine.expects("execute")


# -- output and displays -----------------------------------------------------------------------


def test_output_is_handed_out_as_it_comes_when_somebody_listens():
    bench = Bench()
    bench.begin(live=True)
    assert bench.output("stdout", b"one") == [Emit("stdout", "one")]
    assert bench.output("stderr", b"two") == [Emit("stderr", "two")]
    assert bench.receive(frame(method="output", params={"stream": "stderr", "text": "three"})) == [
        Emit("stderr", "three")
    ]


def test_output_is_only_kept_when_nobody_listens():
    bench = Bench()
    bench.begin()
    assert bench.output("stdout", b"one") == []
    assert bench.machine.sinks["stdout"].finish() == ("one", False)


def test_half_a_character_is_handed_out_with_its_other_half():
    bench = Bench()
    bench.begin(live=True)
    assert bench.output("stdout", "é".encode()[:1]) == []
    assert bench.output("stdout", "é".encode()[1:]) == [Emit("stdout", "é")]


def test_what_is_cut_is_not_handed_out():
    bench = Bench(max_output_length=3)
    bench.begin(live=True)
    assert bench.output("stdout", b"abcdef") == [Emit("stdout", "abc")]
    assert bench.output("stdout", b"g" * 1000) == []


def test_each_call_has_output_of_its_own():
    bench = Bench()
    bench.begin()
    bench.output("stdout", b"first")
    bench.receive(frame(method="display", params={"data": {"text/plain": "x"}}))
    bench.reply()
    bench.begin()
    assert bench.machine.sinks["stdout"].finish() == ("", False)
    assert bench.machine.displays == []


def test_displays_are_collected_and_binary_ones_decoded():
    bench = Bench()
    bench.begin()
    bench.receive(frame(method="display", params={"data": {"image/png": "AAEC", "text/html": "<b>"}}))
    (display,) = bench.machine.displays
    assert dict(display.data) == {"image/png": b"\0\1\2", "text/html": "<b>"}


def test_displays_beyond_the_budget_are_dropped():
    bench = Bench(display_max_bytes=1_000_000)
    bench.begin()
    for _ in range(10):
        bench.receive(frame(method="display", params={"data": {"text/plain": "x" * 200_000}}))
    assert len(bench.machine.displays) == 5
    assert not bench.is_over()


def test_the_number_of_displays_is_bounded():
    bench = Bench()
    bench.begin()
    bench.receive(*[frame(method="display", params={"data": {"text/plain": "x"}})] * 1000)
    assert len(bench.machine.displays) == 200


def test_an_output_notification_may_hold_lone_surrogates():
    bench = Bench()
    bench.begin()
    bench.receive(frame(method="output", params={"text": "a\ud800b"}))
    assert bench.machine.sinks["stdout"].finish() == ("a?b", False)
