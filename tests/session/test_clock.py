"""The deadline of a call: wall time that stands still while the host works, CPU time that never does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cloche.session.clock import Clock

HOUR = 3600.0


def no_cpu() -> float | None:
    return None


def test_time_is_up_when_the_budget_is_spent():
    clock = Clock(100.0, 5.0, HOUR, no_cpu)
    assert not clock.expired(104.9)
    assert clock.expired(105.0)
    assert clock.wake_at(101.0) == 105.0


def test_the_wait_for_the_host_does_not_count():
    clock = Clock(0.0, 5.0, HOUR, no_cpu)
    clock.pause(1.0)
    assert not clock.expired(50.0)
    clock.resume(61.0)
    assert clock.left(61.0) == 4.0
    assert not clock.expired(64.9)
    assert clock.expired(65.0)
    assert clock.bridge_seconds == 60.0


def test_a_second_call_during_a_wait_does_not_start_the_pause_anew():
    clock = Clock(0.0, 5.0, HOUR, no_cpu)
    clock.pause(1.0)
    clock.pause(3.0)
    clock.resume(4.0)
    clock.resume(5.0)
    assert clock.bridge_seconds == 3.0
    assert clock.left(5.0) == 3.0


def test_cpu_time_burnt_during_a_wait_counts():
    cpu = [10.0]
    clock = Clock(0.0, 5.0, HOUR, lambda: cpu[0])
    clock.pause(1.0)
    cpu[0] += 2.0
    assert clock.left(31.0) == 2.0
    clock.resume(31.0)
    assert clock.left(31.0) == 2.0
    cpu[0] += 100.0
    assert clock.left(31.0) == 2.0, "outside of a wait only the wall clock counts"


def test_a_guest_that_burns_cpu_through_the_whole_wait_runs_out_of_time():
    cpu = [0.0]
    clock = Clock(0.0, 1.0, HOUR, lambda: cpu[0])
    clock.pause(0.5)
    cpu[0] = 0.4
    assert not clock.expired(100.0)
    cpu[0] = 0.5
    assert clock.expired(100.0)


def test_several_busy_threads_cannot_make_time_run_faster_than_it_does():
    cpu = [0.0]
    clock = Clock(0.0, 10.0, HOUR, lambda: cpu[0])
    clock.pause(1.0)
    cpu[0] = 8.0
    clock.resume(3.0)
    assert clock.left(3.0) == 7.0


def test_a_guest_whose_cpu_time_cannot_be_read_any_more_is_excused():
    readings = iter([1.0])
    clock = Clock(0.0, 1.0, HOUR, lambda: next(readings, None))
    clock.pause(0.5)
    clock.resume(20.0)
    assert clock.left(20.0) == 0.5


def test_the_ceiling_counts_waits_too():
    clock = Clock(0.0, 5.0, 60.0, no_cpu)
    clock.pause(1.0)
    assert clock.wake_at(59.9) == 60.0
    assert not clock.expired(59.9)
    assert clock.expired(60.0)


def test_during_a_wait_it_looks_again_before_the_budget_could_be_burnt():
    cpu = [0.0]
    clock = Clock(0.0, 4.0, HOUR, lambda: cpu[0])
    clock.pause(0.0)
    assert 0.0 < clock.wake_at(0.0) <= 4.0


@given(
    st.lists(st.tuples(st.floats(0, 5), st.floats(0, 5), st.floats(0, 1)), max_size=8),
    st.floats(0.1, 20),
)
def test_spent_time_is_the_work_plus_what_was_burnt_in_waits(pieces, budget):
    now, cpu, spent = 0.0, [0.0], 0.0
    clock = Clock(now, budget, 1e9, lambda: cpu[0])
    for work, wait, share in pieces:
        now += work
        clock.pause(now)
        now += wait
        cpu[0] += wait * share
        clock.resume(now)
        spent += work + wait * share
    assert abs(clock.left(now) - (budget - spent)) < 1e-6
    assert clock.expired(now + max(0.0, budget - spent) + 1e-6)
