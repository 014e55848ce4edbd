"""Moves bytes between a channel and the machine without ever blocking. Both drivers use it; they only differ in how
they wait and in how they run host functions."""

from __future__ import annotations

import os
import select
import selectors
from collections import deque
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

from cloche.errors import ProtocolError
from cloche.session.actions import AbandonBridge, CallBridge, Emit, Interrupt, Kill, Send, Stream, TakeFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from cloche.session.channel import Channel
    from cloche.session.machine import Machine

READ_SIZE = 1 << 18
DRAIN_LIMIT = 1 << 22
"""A child that never stops writing must not keep a finished cell open: more than any pipe can hold."""
JOINED = 1 << 16
MAX_UNSENT = 20_000
"""Frames. More than any number of waiting threads; a guest that asks without end must not fill our memory."""
DEATH_PATIENCE = 0.05
PATIENCE = 0.002
SPIN = 0.00015 if (os.cpu_count() or 1) > 1 else 0.0
"""To be woken costs as much as a small cell takes; so a short while is spent looking before sleeping."""
GIVE_UP = 5.0
UNREAD_LOOK = 0.1
"""Seconds between two looks at whether the other end of a wire is still there that is not read for the time being."""
LONGEST = 1.0
"""A signal that arrives just before poll() does not end it: Ctrl-C is seen a second later then, and not a minute."""
_yield = getattr(os, "sched_yield", int)


class Watch(Protocol):
    """Tells which descriptors are ready."""

    def add(self, descriptor: int, *, patient: bool = False) -> None: ...
    def remove(self, descriptor: int) -> None: ...
    def want(self, descriptor: int, *, read: bool, write: bool) -> None: ...
    def ready(self, timeout: float | None) -> Iterable[int]: ...
    def close(self) -> None: ...


class PollWatch:
    """For a driver that blocks: no descriptor of its own."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._urgent = select.poll()

    def add(self, descriptor: int, *, patient: bool = False) -> None:
        self._poll.register(descriptor, select.POLLIN)
        if not patient:
            self._urgent.register(descriptor, select.POLLIN)

    def remove(self, descriptor: int) -> None:
        for poll in (self._poll, self._urgent):
            with suppress(KeyError):  # a patient one is not urgent, and one of which nothing is wanted is nowhere
                poll.unregister(descriptor)

    def want(self, descriptor: int, *, read: bool, write: bool) -> None:
        """For an urgent one. Where nothing is wanted it is left out: it would be ready for ever once it is closed."""
        if not (read or write):
            self.remove(descriptor)
            return
        events = (select.POLLIN if read else 0) | (select.POLLOUT if write else 0)
        self._poll.register(descriptor, events)
        self._urgent.register(descriptor, events)

    def ready(self, timeout: float | None) -> Iterable[int]:
        # rounded up: waking a moment early would spin until the deadline
        return [fd for fd, _ in self._poll.poll(None if timeout is None else min(timeout, LONGEST) * 1000 + 0.999)]

    def ready_urgent(self, timeout: float | None) -> Iterable[int]:
        """As `ready`, but captured output does not wake us for the first moments: it is read with the reply anyway.

        A short cell that prints then costs one wake-up instead of two.
        """
        if timeout is None or timeout > PATIENCE:
            look = self._urgent.poll
            ready = look(0)
            end = perf_counter() + SPIN
            while not ready and perf_counter() < end:
                _yield()  # the guest may be waiting for this very processor
                ready = look(0)
            ready = ready or look(PATIENCE * 1000)
            if ready:
                return [fd for fd, _ in ready]
        return self.ready(timeout)

    def close(self) -> None:
        """Nothing to release."""


class SelectorWatch:
    """For a driver on an event loop: itself a descriptor that can be waited for."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def fileno(self) -> int:
        return self._selector.fileno()

    def add(self, descriptor: int, *, patient: bool = False) -> None:
        self._selector.register(descriptor, selectors.EVENT_READ)

    def remove(self, descriptor: int) -> None:
        with suppress(KeyError):  # nothing was wanted of it
            self._selector.unregister(descriptor)

    def want(self, descriptor: int, *, read: bool, write: bool) -> None:
        """As for `PollWatch`."""
        events = (selectors.EVENT_READ if read else 0) | (selectors.EVENT_WRITE if write else 0)
        if not events:
            self.remove(descriptor)
        elif descriptor in self._selector.get_map():
            self._selector.modify(descriptor, events)
        else:
            self._selector.register(descriptor, events)

    def ready(self, timeout: float | None) -> Iterable[int]:
        return [key.fd for key, _ in self._selector.select(timeout)]

    def close(self) -> None:
        self._selector.close()


def _is_closed(wire: int) -> bool:
    """Whether the guest has closed its end, though it may have written before that."""
    look = select.poll()
    look.register(wire, getattr(select, "POLLRDHUP", 0))
    return bool(look.poll(0))


class Pump:
    """One channel's input and output."""

    def __init__(self, channel: Channel, machine: Machine, watch: Watch) -> None:
        self.channel = channel
        self.machine = machine
        self.watch = watch
        self._wire = channel.wire.fileno()
        self._outgoing: deque[memoryview | Iterator[bytes | memoryview]] = deque()
        self.writing = False
        self.reading = True
        """The wire is read. It is not while the guest has more under way than its budget: it waits then."""
        self.refused = False
        """Nobody took what was sent: the guest had ended before."""
        self.meanwhile: Callable[[], None] | None = None
        """Done once, when something has been sent: while the guest works on it."""
        self._streams: dict[int, Stream] = {}
        self._dying_since: float | None = None
        self._exit_fd: int | None = None
        self._kill_sent = False
        watch.add(self._wire)
        for descriptor, stream in ((channel.stdout, "stdout"), (channel.stderr, "stderr")):
            if descriptor is not None:
                self._streams[descriptor] = "stdout" if stream == "stdout" else "stderr"
                watch.add(descriptor, patient=True)

    # -- actions -------------------------------------------------------------------------------

    def perform(self, now: float) -> list[CallBridge | AbandonBridge | Emit]:
        """Carry out what concerns the channel; what is left is the driver's."""
        left: list[CallBridge | AbandonBridge | Emit] = []
        if self.machine.concluded_by is not None:
            self.drain()  # before the guest hears that its last word was taken
            self.machine.stop_listening()
        actions = self.machine.actions
        while actions:
            action = actions.pop(0)
            if isinstance(action, Send):
                self.machine.budget.unsent += len(action.data)
                self._outgoing.append(memoryview(action.data))
                if action.body is not None:
                    self._outgoing.append(iter(action.body))
            elif isinstance(action, Interrupt):
                self.channel.interrupt(insist=action.insist)
            elif isinstance(action, Kill):
                self._kill(now)
            elif isinstance(action, TakeFile):
                self._take_file(action)
            else:
                left.append(action)
        if self._outgoing:
            self._join_small()
            self._flush()
            if len(self._outgoing) > MAX_UNSENT and self.machine.finished is None:
                self.machine.break_off(ProtocolError("the guest does not read the answers to its calls"))
                self._drop_unsent()
                self._kill(now)
            if self.meanwhile is not None:
                later, self.meanwhile = self.meanwhile, None
                later()
        if self.reading is not self.machine.takes_input:
            self._want(read=not self.reading, write=self.writing)
        return left

    def _join_small(self) -> None:
        """Frames that go out together are sent together: each send wakes the guest, which costs more than the rest."""
        parts: list[memoryview] = []
        size = 0
        while self._outgoing and isinstance(head := self._outgoing[0], memoryview) and size + len(head) <= JOINED:
            parts.append(head)
            size += len(head)
            self._outgoing.popleft()
        if parts:
            self._outgoing.appendleft(parts[0] if len(parts) == 1 else memoryview(b"".join(parts)))

    def _take_file(self, action: TakeFile) -> None:
        try:
            self.channel.take_file(action.params)
        except ProtocolError as exc:
            self.machine.break_off(exc)

    def _flush(self) -> None:
        """Send until the socket is full. A body is encoded chunk by chunk, so that both sides work at once."""
        send = self.channel.wire.send
        while self._outgoing:
            head = self._outgoing[0]
            if not isinstance(head, memoryview):
                chunk = next(head, None)
                if chunk is None:
                    self._outgoing.popleft()
                    continue
                head = memoryview(chunk)
                self._outgoing.appendleft(head)
            try:
                sent = send(head)
            except BlockingIOError:
                self._want(read=self.reading, write=True)
                return
            except OSError:
                # The guest is gone; reading will say how. What it did not take may be an answer to a call of its own.
                self.refused = not self.machine.request_is_out
                self._drop_unsent()
                break
            self._count_sent(sent)
            if sent < len(head):
                self._outgoing[0] = head[sent:]
            else:
                self._outgoing.popleft()
        else:
            self.machine.request_is_out = True
        self._want(read=self.reading, write=False)

    def _count_sent(self, sent: int) -> None:
        budget = self.machine.budget
        budget.unsent = max(0, budget.unsent - sent)  # bodies were not counted

    def _drop_unsent(self) -> None:
        self._outgoing.clear()
        self.machine.budget.unsent = 0

    def _want(self, *, read: bool, write: bool) -> None:
        if (read, write) != (self.reading, self.writing) and self._wire >= 0:
            self.reading, self.writing = read, write
            self.watch.want(self._wire, read=read, write=write)

    # -- input ---------------------------------------------------------------------------------

    def handle(self, ready: Iterable[int], now: float) -> None:
        """Take what is there from these descriptors."""
        for descriptor in ready:
            if descriptor == self._wire:
                self._read_wire(now)
            elif descriptor in self._streams:
                self._read_stream(descriptor)
        if not self.reading and self._dying_since is None and self._wire >= 0 and _is_closed(self._wire):
            self._begin_dying(now)
        if self._dying_since is not None:
            self._look_for_end(now)

    def next_wake(self, now: float) -> float | None:
        """Seconds until there is something to do though nothing was received."""
        wake = self.machine.wake_at(now)
        if self._dying_since is not None:
            look = now + (0.2 if self._exit_fd is not None and self._kill_sent else 0.005)
            wake = look if wake is None else min(wake, look)
        elif not self.reading:
            wake = now + UNREAD_LOOK if wake is None else min(wake, now + UNREAD_LOOK)
        return None if wake is None else max(0.0, wake - now)

    def drain(self) -> None:
        """After the reply: what was written before it is in the pipes by now. Never wait for their end."""
        for descriptor in list(self._streams):
            left = DRAIN_LIMIT
            while left > 0 and (got := self._read_stream(descriptor)):
                left -= got
                if got < READ_SIZE:
                    break

    def _read_wire(self, now: float) -> None:
        if self.writing:
            self._flush()
            self.machine.answers_taken(now)
        if not self.reading:
            return
        try:
            data = self.channel.wire.recv(READ_SIZE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self.machine.receive(data, now)
        else:
            self.watch.remove(self._wire)
            self._wire = -1
            self._begin_dying(now)

    def _read_stream(self, descriptor: int) -> int:
        try:
            data = os.read(descriptor, READ_SIZE)
        except BlockingIOError:
            return 0
        except OSError:
            data = b""
        if not data:
            self.watch.remove(descriptor)
            del self._streams[descriptor]
            return 0
        self.machine.receive_output(self._streams[descriptor], data)
        return len(data)

    # -- the guest's end -----------------------------------------------------------------------

    def _kill(self, now: float) -> None:
        self.channel.kill()
        self._kill_sent = True
        self._begin_dying(now)

    def _begin_dying(self, now: float) -> None:
        if self._dying_since is None:
            self._dying_since = now
            self._exit_fd = self.channel.watch_exit()
            if self._exit_fd is not None:
                self.watch.add(self._exit_fd)

    def _look_for_end(self, now: float) -> None:
        ended = self.channel.reap(0)
        waited = 0.0 if self._dying_since is None else now - self._dying_since
        if ended is None and waited < GIVE_UP:
            if waited > DEATH_PATIENCE and not self._kill_sent:
                self._kill(now)  # it closed the wire and lives on
            return
        self.drain()
        if ended is None:
            self.machine.guest_gone("did not end when it was killed")
        else:
            self.machine.guest_gone(
                ended.describe(), ended.code, out_of_memory=ended.out_of_memory, out_of_fuel=ended.out_of_fuel
            )

    def close(self) -> None:
        """Stop watching. The channel's descriptors belong to the channel."""
        self.watch.close()
