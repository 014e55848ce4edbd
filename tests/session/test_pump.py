"""Moving bytes between a channel and the machine, against a guest that is nothing but a socket."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.session.guest_side import frame

from cloche import ExecutionPolicy, Isolation
from cloche.session.actions import Send
from cloche.session.channel import Channel, Exit
from cloche.session.machine import Call, Machine
from cloche.session.pump import MAX_UNSENT, PollWatch, Pump, SelectorWatch, Watch
from cloche.session.workspace import Workspace


class Dummy(Channel):
    """A channel to a guest that the test plays."""

    isolation = Isolation.NONE

    def __init__(self) -> None:
        self.wire, self.far = socket.socketpair()
        self.wire.setblocking(False)
        self.far.setblocking(False)
        self.stdout, self.out = os.pipe()
        self.stderr, self.err = os.pipe()
        for descriptor in (self.stdout, self.stderr):
            os.set_blocking(descriptor, False)
        self.workspace = Workspace(Path("/"), private=False)
        self.greeting = {}
        self.done: list[Any] = []
        self.exit: Exit | None = None

    def interrupt(self, *, insist: bool) -> None:
        self.done.append(("interrupt", insist))

    def kill(self) -> None:
        self.done.append("kill")

    def reap(self, timeout: float) -> Exit | None:
        return self.exit

    def close(self) -> None:
        self.wire.close()
        self.far.close()
        for descriptor in (self.stdout, self.out, self.stderr, self.err):
            if descriptor is not None:
                os.close(descriptor)


@pytest.fixture
def channel() -> Iterator[Dummy]:
    dummy = Dummy()
    yield dummy
    dummy.close()


def make(channel: Dummy, bridges: frozenset[str] = frozenset(), **policy: Any) -> tuple[Machine, Pump]:
    machine = Machine(ExecutionPolicy(**policy), bridges)
    pump = Pump(channel, machine, PollWatch())
    machine.begin([Call("execute", {"code": "1"})], now=0.0, started=0.0, timeout=10.0)
    return machine, pump


def turn(pump: Pump, now: float = 0.0) -> list[Any]:
    pump.handle(pump.watch.ready(0), now)
    return list(pump.perform(now))


def test_a_large_body_is_sent_as_the_guest_takes_it_and_encoded_no_sooner(channel):
    machine, pump = make(channel)
    made = 0

    def chunks() -> Iterator[bytes]:
        nonlocal made
        for _ in range(100):
            made += 1
            yield b"x" * 100_000

    machine.actions.append(Send(b"head\n", chunks()))
    pump.perform(0.0)
    assert made < 100
    total, quiet = 0, 0
    while quiet < 3:  # twice nothing: all has been taken
        try:
            total += len(channel.far.recv(1 << 20))
            quiet = 0
        except BlockingIOError:
            quiet += 1
        turn(pump)
    assert made == 100
    assert total > 10_000_000


def test_what_can_wait_is_done_once_and_after_the_request_has_gone_out(channel):
    _, pump = make(channel)
    taken = []
    pump.meanwhile = lambda: taken.append(channel.far.recv(1 << 16))
    assert taken == []
    turn(pump)
    turn(pump)
    assert len(taken) == 1
    assert b"execute" in taken[0]


def test_output_written_before_the_reply_is_there_when_the_reply_is(channel):
    machine, pump = make(channel)
    pump.perform(0.0)
    os.write(channel.out, b"o" * 60_000)
    os.write(channel.err, b"e" * 60_000)
    channel.far.send(frame(id=1, result={"outcome": "ok"}))
    while machine.finished is None:
        pump.handle([channel.wire.fileno()], 0.0)
    pump.drain()
    assert machine.sinks["stdout"].total_bytes == 60_000
    assert machine.sinks["stderr"].total_bytes == 60_000


def test_a_child_that_never_stops_writing_does_not_keep_the_cell_open(channel):
    machine, pump = make(channel)
    read = os.read

    class Endless:
        def __call__(self, descriptor: int, size: int) -> bytes:
            return b"x" * size if descriptor == channel.stdout else read(descriptor, size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cloche.session.pump.os.read", Endless())
        pump.drain()
    assert 0 < machine.sinks["stdout"].total_bytes < 100_000_000


def test_a_guest_that_asks_without_reading_the_answers_is_ended(channel):
    machine, pump = make(channel, frozenset({"f"}), max_bridge_calls=0)
    asked = 0
    while machine.finished is None:
        assert asked < 100 * MAX_UNSENT, "its questions pile up here"
        try:
            channel.far.send(b"".join(frame(id=n, method="bridge", params={"name": "f"}) for n in range(200)))
            asked += 200
        except BlockingIOError:
            asked += 0
        turn(pump)
    assert machine.finished.death == "protocol"
    assert "kill" in channel.done


def test_a_wire_that_closes_with_a_guest_that_lives_on_ends_in_a_kill(channel):
    machine, pump = make(channel)
    channel.far.close()
    turn(pump, 0.0)
    assert "kill" not in channel.done, "it may be about to exit by itself"
    pump.handle([], 0.2)
    assert "kill" in channel.done
    channel.exit = Exit(signal=9)
    pump.handle([], 0.3)
    assert machine.finished is not None
    assert machine.finished.detail == "killed by SIGKILL"


def test_a_process_that_cannot_be_killed_is_given_up(channel):
    machine, pump = make(channel)
    channel.far.close()
    turn(pump, 0.0)
    pump.handle([], 60.0)
    assert machine.finished is not None
    assert machine.finished.death is not None


def test_an_exit_is_told_with_its_status(channel):
    machine, pump = make(channel)
    channel.exit = Exit(code=3)
    os.write(channel.out, b"last words")
    channel.far.close()
    turn(pump, 0.0)
    assert machine.finished is not None
    assert machine.finished.exit_code == 3
    assert machine.sinks["stdout"].finish()[0] == "last words"


def test_what_was_sent_to_a_guest_that_had_ended_is_known_to_be_refused(channel):
    channel.far.close()
    _, pump = make(channel)
    pump.perform(0.0)
    assert pump.refused


def test_an_answer_that_a_dead_guest_did_not_take_does_not_mean_that_it_was_never_asked(channel):
    machine, pump = make(channel, frozenset({"f"}))
    pump.perform(0.0)
    assert b"execute" in channel.far.recv(1 << 16)
    channel.far.send(frame(id=1, method="bridge", params={"name": "f"}))
    turn(pump)
    channel.far.close()
    machine.bridge_done(1, "an answer", None, 0.0)
    pump.perform(0.0)
    assert not pump.writing
    assert not pump.refused


def test_a_stream_that_ends_is_no_longer_watched(channel):
    _, pump = make(channel)
    os.close(channel.out)
    turn(pump)
    assert list(pump.watch.ready(0)) == []
    channel.out, unused = os.pipe()
    os.close(unused)


def test_a_watch_can_wait_for_longer_than_the_system_counts():
    watch = PollWatch()
    reader, writer = os.pipe()
    try:
        watch.add(reader)
        os.write(writer, b"x")
        assert list(watch.ready(1e7)) == [reader]
    finally:
        watch.close()
        os.close(reader)
        os.close(writer)


# -- a guest that has more under way than it may -----------------------------------------------------


def fill(channel: Dummy, pump: Pump) -> None:
    """Calls, until the guest is read no further."""
    params = {"name": "f", "args": ["x" * 900_000]}
    data = memoryview(b"".join(frame(id=number, method="bridge", params=params) for number in range(40)))
    while pump.reading:
        with suppress(BlockingIOError):
            data = data[channel.far.send(data) :]
        turn(pump)
    assert len(data) > 10_000_000


def small(channel: Dummy, watch: Watch | None = None) -> tuple[Machine, Pump]:
    machine = Machine(ExecutionPolicy(value_max_bytes=1 << 20, display_max_bytes=1 << 20), frozenset({"f"}))
    pump = Pump(channel, machine, watch or PollWatch())
    machine.begin([Call("execute", {"code": "1"})], now=0.0, started=0.0, timeout=10.0)
    return machine, pump


@pytest.mark.parametrize("kind", [PollWatch, SelectorWatch])
def test_a_guest_that_has_too_much_under_way_is_not_read_until_there_is_room(channel, kind):
    machine, pump = small(channel, kind())
    fill(channel, pump)
    assert machine.budget.calls <= machine.budget.limit
    assert channel.wire.fileno() not in pump.watch.ready(0)
    for key in range(1, 4):
        machine.bridge_done(key, "done", None, 0.0)
    pump.perform(0.0)
    assert pump.reading
    channel.far.send(b"x")
    assert channel.wire.fileno() in pump.watch.ready(0)
    pump.close()


@pytest.mark.parametrize("kind", [PollWatch, SelectorWatch])
def test_the_end_of_a_guest_that_is_not_read_is_noticed(channel, kind):
    machine, pump = small(channel, kind())
    fill(channel, pump)
    channel.exit = Exit(code=3)
    channel.far.close()
    assert pump.next_wake(0.0) == pytest.approx(0.1)
    turn(pump, 0.1)
    assert machine.finished is not None
    assert machine.finished.exit_code == 3
    pump.close()


def test_a_guest_that_is_not_read_is_stopped_and_then_heard(channel):
    machine, pump = small(channel)
    fill(channel, pump)
    machine.cancel(0.0)
    pump.perform(0.0)
    assert ("interrupt", False) in channel.done
    assert pump.reading


def test_answers_that_the_guest_does_not_take_keep_further_calls_from_being_started(channel):
    machine, pump = small(channel)
    channel.wire.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
    started, number = 0, 0
    for _ in range(100):
        number += 1
        channel.far.send(frame(id=number, method="bridge", params={"name": "f", "args": []}))
        for action in turn(pump):
            started += 1
            machine.bridge_done(action.key, "x" * 900_000, None, 0.0)
    pump.perform(0.0)
    assert number == 100
    assert started * 900_000 <= machine.budget.limit + 5 * 900_000
    assert machine.desk.under_way == 0
    while started < 100:  # and when it takes them, all are served
        with suppress(BlockingIOError):
            channel.far.recv(1 << 20)
        for action in turn(pump):
            started += 1
            machine.bridge_done(action.key, "y", None, 0.0)
    assert machine.finished is None
