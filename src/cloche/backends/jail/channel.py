"""A worker in the jail, as the host holds it: a wire, two pipes, and a handle that cannot be mistaken for another's."""

from __future__ import annotations

import os
import signal
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from cloche.backends.counted_worker import CountedWorker
from cloche.backends.jail.ends import Ends, process_of
from cloche.backends.jail.gauges import CellCounter
from cloche.backends.jail.seat import CLEAR_PATIENCE, Seat
from cloche.backends.jail.tiers import Mode
from cloche.errors import StartError
from cloche.session.channel import Exit
from cloche.session.deadline import time_left
from cloche.session.processes import CLOCK_TICKS
from cloche_guest.jail import messages

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cloche.backends.jail.broker import Ticket
    from cloche.policy import Mount
    from cloche.session.workspace import Workspace

STACK_BYTES = 64 << 20
"""What a stack may grow to where only limits on data bound memory: they do not count it."""


class JailChannel(CountedWorker):
    """One worker in a seat."""

    def __init__(self, seat: Seat, ends: Ends, approver: Seat) -> None:
        """`approver`: the seat whose PID 1 decides about this worker's calls."""
        self.seat = seat
        self.approver = approver
        self.ends = ends
        self.wire: socket.socket = ends.wire
        self.stdout = ends.stdout
        self.stderr = ends.stderr
        try:
            self._end, self._their_end = os.pipe()
        except OSError:
            ends.close()
            raise
        os.set_blocking(self._end, False)
        self._owner = os.getpid()
        self._closed = False
        self._ticket: Ticket | None = None
        self._handle = -1
        self._pid: int | None = None
        self.isolation = seat.broker.mode.tier(metered=seat.group is not None)
        self._counter = CellCounter(None if seat.group is None else seat.group.gauges)
        self.layers: tuple[str, ...] = ()
        self.greeting: Mapping[str, Any] = {}

    @classmethod
    def start(cls, seat: Seat, options: dict[str, Any], mounts: Sequence[Mount] = ()) -> JailChannel:
        """A worker from the zygote; its seat is asked for with it, unless it is there, and has these in it."""
        channel = cls(seat, Ends(), seat)
        channel.holds_context = "template" in options
        try:
            inner, theirs = messages.pair()  # on which the worker's filter reaches its PID 1
        except OSError:
            channel._release()
            raise
        lines = [*channel.ends.theirs(), theirs.fileno(), channel._their_end]
        trees: list[int] = []
        groups: list[int] = []
        try:
            groups = seat.open_group()
            # memory files are memory that only a cgroup counts
            options = {**options, "groups": len(groups), "memfd": bool(groups)}
            if not groups:
                options["limit_stack"] = STACK_BYTES
            options |= {"user": seat.inside_user, "shared_user": not seat.broker.own_users}
            if seat.ticket is None:
                lines.append(seat.their_control.fileno())
                if options.get("workspace") and seat.broker.mode is Mode.SEALED:
                    trees.append(seat.broker.map_folder(options["workspace"], seat.user[0]))
                # one by one: what is open is closed again, should the next one fail
                trees.extend(
                    seat.broker.map_folder(mount.source, seat.user[0], read_only=not mount.writable) for mount in mounts
                )
                options = {**options, "mounts": [mount.target for mount in mounts]}
                channel._ticket = seat.ticket = seat.broker.request(options, [*lines, *trees, *groups])
            else:
                handles = [seat.ticket.seat, seat.ticket.workspace]
                below = {**options, "below": seat.parent is not None}
                channel._ticket = seat.broker.request(below, [*lines, *handles, *groups], again=True)
            seat.send({"inner": True}, [inner.fileno()])
        except BaseException:
            channel._release()
            raise
        finally:
            inner.close()
            theirs.close()
            seat.their_control.close()
            channel._drop_theirs()
            for descriptor in (*trees, *groups):
                os.close(descriptor)
        return channel

    def take_worker(self, handle: int, adopter: Seat) -> None:
        """This worker is a copy of another: its end will be told by the PID 1 that has taken it over."""
        self._handle = handle
        adopter.send({"track": True}, [handle, self._their_end])
        self._drop_theirs()

    def _drop_theirs(self) -> None:
        self.ends.drop_theirs()
        if self._their_end >= 0:
            os.close(self._their_end)
            self._their_end = -1

    def handle(self) -> int:
        """The worker's handle."""
        if self._handle < 0 and self._ticket is not None:
            return self.seat.broker.wait(self._ticket).worker
        return self._handle

    @property
    def pid(self) -> int | None:
        """The worker's process as this process sees it."""
        if self._pid is None:
            with suppress(StartError):
                self._pid = process_of(self.handle())
        return self._pid

    @property
    def pid_now(self) -> int | None:
        return self.pid if self._ticket is None or self._ticket.arrived else None

    @property
    def workspace(self) -> Workspace:  # type: ignore[override]  # known only when the seat is made
        return self.seat.workspace

    # -- signals and the end -------------------------------------------------------------------

    def interrupt(self, *, insist: bool) -> None:
        self._signal(signal.SIGUSR2 if insist else signal.SIGINT)

    def kill(self) -> None:
        if self._owner == os.getpid():
            self._signal(signal.SIGKILL)
            self.seat.clear()
            if self._exit is None and self._ticket is not None and not self._ticket.arrived:
                self._exit = Exit(signal=signal.SIGKILL, reason="the jail did not make it in time")

    def end_children(self, seconds: float) -> None:
        ticks = int((time.clock_gettime(time.CLOCK_BOOTTIME) - seconds) * CLOCK_TICKS) - 1
        with suppress(StartError):
            self.seat.clear(keep=[self.handle()], since=max(ticks, 0), patience=time_left(CLEAR_PATIENCE))
            self.seat.is_clear()  # the next cell must not meet them

    def _signal(self, number: signal.Signals) -> None:
        if self._owner == os.getpid():
            with suppress(ProcessLookupError, StartError):
                handle = self.handle()
                if handle >= 0:
                    signal.pidfd_send_signal(handle, number)

    @property
    def exit_pipe(self) -> int:
        """On which the worker's end is told, once."""
        return self._end

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._exit is None:
            self.kill()
        if self._owner == os.getpid():
            with suppress(StartError):
                self.handle()  # handles that are still on their way must be closed too
        self._release()

    def drop(self) -> None:
        """End this worker alone, and nothing else in its seat: a savepoint that is not wanted any more."""
        self._closed = True
        self._signal(signal.SIGKILL)
        self._release()

    def _release(self) -> None:
        self.ends.close()
        self.stdout = self.stderr = -1
        handles = [self._end, self._their_end, self._handle]
        ticket, self._ticket = self._ticket, None
        if ticket is not None:
            self.seat.broker.forget(ticket)
            handles.append(ticket.worker)
            if ticket is not self.seat.ticket:
                handles += [ticket.seat, ticket.workspace]  # copies that came with the answer
        for descriptor in handles:
            if descriptor >= 0:
                with suppress(OSError):
                    os.close(descriptor)
        self._end = self._their_end = self._handle = -1
