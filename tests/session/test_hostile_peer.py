"""A peer that speaks the wire itself, in every phase and at every size, against the machine and the pump.

No process is needed for that, so most of the volume goes through here; `tests/test_hostile_walls.py` does the same to
real walls.
"""

from __future__ import annotations

import functools
import os
import random
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.hostile_frames import HARMLESS, SHAPES, SIZES, frame, speech

from cloche import ExecutionPolicy, Isolation
from cloche.session.actions import CallBridge
from cloche.session.budget import GivenUpCalls
from cloche.session.channel import Channel, Exit
from cloche.session.machine import FRAME_SLACK, Call, Machine, Phase
from cloche.session.pump import Pump
from cloche.session.workspace import Workspace

POLICY = ExecutionPolicy(
    value_max_bytes=20_000, display_max_bytes=20_000, snapshot_max_bytes=10_000, max_bridge_calls=200, max_concurrent=3,
    bridge_timeout_ms=2_000, grace_ms=500, total_timeout_ms=20_000, timeout_ms=1_000,
)  # fmt: skip
BRIDGES = frozenset({"f", "slow", "llm_query", "rlm_query"})
SMALL_SLACK = 40_000
"""In place of the real slack of four megabytes, so that frames of every size are cheap."""
TIMEOUT = POLICY.timeout_ms / 1000
GRACE = POLICY.grace_ms / 1000
CEILING = POLICY.total_timeout_ms / 1000


class MemoryWire:
    """A socket that is two buffers: what it does depends on nothing but what was done to it. It has a descriptor, at
    which it can be seen whether the other end is closed."""

    ROOM = 200_000

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        self.incoming = bytearray()
        self.outgoing = 0

    def fileno(self) -> int:
        return self._reader

    def recv(self, size: int) -> bytes:
        if not self.incoming and self._writer >= 0:
            raise BlockingIOError
        data = bytes(self.incoming[:size])
        del self.incoming[:size]
        return data

    def send(self, data: memoryview) -> int:
        if self._writer < 0:
            raise BrokenPipeError
        room = self.ROOM - self.outgoing
        if room <= 0:
            raise BlockingIOError
        self.outgoing += min(room, len(data))
        return min(room, len(data))

    def close_far_end(self) -> None:
        if self._writer >= 0:
            os.close(self._writer)
            self._writer = -1

    @property
    def is_closed(self) -> bool:
        return self._writer < 0

    def close(self) -> None:
        self.close_far_end()
        os.close(self._reader)


class MemoryWatch:
    """Tells whether the wire in memory is ready."""

    def __init__(self, wire: MemoryWire) -> None:
        self._wire = wire
        self._read = self._write = False

    def add(self, descriptor: int, *, patient: bool = False) -> None:
        self._read = self._read or descriptor == self._wire.fileno()

    def remove(self, descriptor: int) -> None:
        self._read = self._write = False

    def want(self, descriptor: int, *, read: bool, write: bool) -> None:
        self._read, self._write = read, write

    def ready(self, timeout: float | None) -> list[int]:
        readable = self._read and (self._wire.incoming or self._wire.is_closed)
        writable = self._write and (self._wire.outgoing < MemoryWire.ROOM or self._wire.is_closed)
        return [self._wire.fileno()] if readable or writable else []

    def close(self) -> None: ...


class Peerless(Channel):
    """A channel whose guest is the test."""

    isolation = Isolation.NONE

    def __init__(self) -> None:
        self.memory = MemoryWire()
        self.wire = cast("Any", self.memory)
        self.workspace = Workspace(Path("/"), private=False)
        self.greeting = {}
        self.exit: Exit | None = None

    def interrupt(self, *, insist: bool) -> None: ...

    def kill(self) -> None:
        self.exit = Exit(signal=9)

    def reap(self, timeout: float) -> Exit | None:
        return self.exit

    def close(self) -> None:
        self.memory.close()


@functools.cache
def stock(limit: int, shapes: tuple[str, ...]) -> list[bytes]:
    """Frames to choose from: to make one takes longer than to read it."""
    return list(speech(1, 3000, limit, shapes))


def size_of(value: Any) -> int:
    """Bytes of memory that a value takes."""
    size = sys.getsizeof(value)
    if isinstance(value, dict):
        size += sum(size_of(key) + size_of(item) for key, item in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        size += sum(map(size_of, value))
    return size


class Peer(RuleBasedStateMachine):
    """One hostile guest after another, as a session would have them, and the innocent one beside it."""

    frames_per_rule = 8
    spoken = 0

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.given_up = GivenUpCalls()
        self.running: dict[int, CallBridge] = {}
        self.channel = Peerless()
        self.neighbour = Machine(POLICY, BRIDGES)
        self.neighbour.begin([Call("execute")], now=self.now, started=self.now, timeout=10**6)
        self.neighbour.actions.clear()
        self.open()

    def open(self) -> None:
        """A fresh guest, which has not been greeted."""
        self.channel.close()
        self.channel = Peerless()
        self.machine = Machine(POLICY, BRIDGES, given_up=self.given_up)
        self.pump = Pump(self.channel, self.machine, MemoryWatch(self.channel.memory))
        self.limit = self.machine.budget.max_frame
        self.running.clear()
        self.held: dict[int, int] = {}
        self.greeted = False

    def teardown(self) -> None:
        self.channel.close()

    # -- the host ------------------------------------------------------------------------------

    def at_rest(self) -> bool:
        return self.machine.phase is Phase.IDLE

    @precondition(at_rest)
    @rule(method=st.sampled_from(["execute", "get_variable", "snapshot", "ping"]))
    def begin(self, method: str) -> None:
        """A call of the host's; the first one greets the guest."""
        calls = [Call(method)] if self.greeted else [Call("initialize"), Call(method)]
        self.machine.begin(calls, now=self.now, started=self.now, timeout=TIMEOUT)
        self.began = self.now
        self.work()

    @precondition(lambda self: not self.at_rest())
    @rule()
    def cancel(self) -> None:
        self.machine.cancel(self.now)
        self.work()

    @precondition(lambda self: self.running)
    @rule(place=st.integers(0, 10), fails=st.booleans(), size=st.sampled_from([0, 100, 15_000, 30_000]))
    def answer(self, place: int, fails: bool, size: int) -> None:
        """A host function returns, in time or late."""
        key = list(self.running)[place % len(self.running)]
        del self.running[key]
        self.machine.bridge_done(key, "x" * size, ValueError("no") if fails else None, self.now)
        self.work()

    @rule(seconds=st.sampled_from([0.001, 0.1, 0.6, 3.0, 30.0]))
    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            wake = self.pump.next_wake(self.now)
            self.now = end if wake is None else min(end, self.now + max(wake, 0.001))
            self.machine.tick(self.now)
            self.work()

    # -- the guest -----------------------------------------------------------------------------

    @rule(
        seed=st.integers(0, 2**32),
        shapes=st.sampled_from([HARMLESS, SHAPES, SIZES]),
        cut=st.sampled_from([777, 20_000, 70_000, 300_000]),
    )
    def speak(self, seed: int, shapes: tuple[str, ...], cut: int) -> None:
        """Frames, in pieces that end anywhere."""
        choose = random.Random(seed)
        said = stock(self.limit, shapes)
        data = b"".join(choose.choice(said) for _ in range(4 if shapes is SIZES else self.frames_per_rule))
        wire = self.channel.memory
        for start in range(0, len(data), cut):
            if wire.is_closed or len(wire.incoming) > MemoryWire.ROOM:
                break  # it is not read: it would wait, and what it has not said it never says
            wire.incoming += data[start : start + cut]
            type(self).spoken += data.count(b"\n", start, start + cut)
            self.work()

    @precondition(lambda self: self.machine._expected)
    @rule()
    def reply(self) -> None:
        """What an honest guest would say."""
        number, method = self.machine._expected[0]
        self.channel.memory.incoming += b'{"jsonrpc":"2.0","id":%d,"result":{"outcome":"ok"}}\n' % number
        self.work()
        self.greeted = self.greeted or (method == "initialize" and self.machine.finished is None)

    @rule()
    def read(self) -> None:
        """It takes some of what it was sent."""
        self.channel.memory.outgoing = 0
        self.work()

    @rule(code=st.sampled_from([0, 1, 137]))
    def die(self, code: int) -> None:
        self.channel.exit = self.channel.exit or Exit(code=code)
        self.channel.memory.close_far_end()
        self.work()

    @rule(size=st.sampled_from([1, 5_000, 60_000]))
    def print_much(self, size: int) -> None:
        self.machine.receive_output("stdout", b"x" * size)
        self.work()

    # -- what a driver does --------------------------------------------------------------------

    def work(self) -> None:
        """Carry out, read, carry out; and replace a guest that has ended, as a session does."""
        for _ in range(3):
            for action in self.pump.perform(self.now):
                if isinstance(action, CallBridge):
                    self.running[action.key] = action
            if self.at_rest() and self.machine.finished is not None:
                break
            self.pump.handle(self.pump.watch.ready(0), self.now)
        finished = self.machine.finished
        if finished is not None and finished.death is not None:
            assert finished.death in ("exit", "protocol", "killed", "memory", "fuel")
            assert finished.result is None
            for key in list(self.running):  # functions return one day, when their guest is long gone
                self.machine.desk.returned(key)
            self.open()

    # -- what holds ----------------------------------------------------------------------------

    @invariant()
    def the_host_holds_no_more_than_the_budget(self) -> None:
        budget = self.machine.budget
        assert 0 <= budget.calls <= budget.limit + budget.max_cost
        assert budget.calls <= budget.limit + 300_000 or self.machine.desk.under_way <= 1
        assert self.machine._frames.unread <= budget.max_frame + (1 << 18)
        assert len(self.machine.displays) <= 200
        held = {key: self.held.get(key) or size_of(it.call.args) for key, it in self.machine.desk._items.items()}
        self.held = held
        assert sum(held.values()) <= budget.calls + 10_000, "what calls hold is what they were counted for"
        assert 0 <= budget.given_up.bytes <= budget.limit + 3 * (budget.max_cost + (1 << 16) + 4096)

    @invariant()
    def no_more_functions_run_than_may(self) -> None:
        assert self.machine.desk.under_way <= POLICY.max_concurrent

    @invariant()
    def no_call_outlives_its_deadline(self) -> None:
        if self.at_rest():
            return
        spent = self.now - self.began
        assert spent <= CEILING + GRACE + 6.0
        if self.machine.desk.calls == 0:
            assert spent <= TIMEOUT + GRACE + 6.0

    @invariant()
    def the_neighbour_is_not_touched(self) -> None:
        assert self.neighbour.phase is Phase.RUNNING
        assert self.neighbour.actions == []
        assert self.neighbour.budget.calls == 0


def run(steps: int, examples: int, frames: int, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr("cloche.session.machine.FRAME_SLACK", SMALL_SLACK)
    monkeypatch.setattr("cloche.session.frames.UNWEIGHED", 4096)
    monkeypatch.setattr(Peer, "frames_per_rule", frames)
    monkeypatch.setattr(Peer, "spoken", 0)
    assert FRAME_SLACK != SMALL_SLACK
    run_state_machine_as_test(
        Peer, settings=settings(max_examples=examples, stateful_step_count=steps, deadline=None, print_blob=True)
    )
    return Peer.spoken


def test_whatever_a_peer_says_the_host_keeps_its_bounds(monkeypatch: pytest.MonkeyPatch):
    assert run(30, 40, 60, monkeypatch) > 500


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_million_frames(monkeypatch: pytest.MonkeyPatch):
    spoken = 0
    while spoken < 1_000_000:
        spoken += run(60, 100, 200, monkeypatch)


def test_an_example_of_each_shape_is_made():
    made: dict[str, Any] = {shape: frame(random.Random(1), 1000, (shape,)) for shape in SHAPES}
    assert all(isinstance(data, bytes) and data for data in made.values())
