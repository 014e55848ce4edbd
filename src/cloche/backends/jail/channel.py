"""A session in the jail, as the host holds it: a wire, two pipes, and handles that cannot be mistaken for another's."""

from __future__ import annotations

import os
import select
import signal
import socket
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cloche.backends.native import capture_pipe
from cloche.errors import StartError
from cloche.isolation import Isolation
from cloche.session.channel import Channel, Exit
from cloche.session.workspace import Workspace
from cloche_guest.jail import messages, syscalls

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from cloche.backends.jail.broker import Broker, Ticket

ANSWER_PATIENCE = 10.0
END_PATIENCE = 5.0
CLEAR_PATIENCE = 2.0
SOCKET_BUFFER = 1 << 20
_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


class JailWorkspace(Workspace):
    """Files inside the seat. Where we are root, they are touched as the guest's user: no file of ours can be meant."""

    def __init__(self, root: Path, user: tuple[int, int], *, private: bool, location: str) -> None:
        super().__init__(root, private=private, location=location)
        self._user = user

    @contextmanager
    def acting(self) -> Iterator[None]:
        if os.getuid() != 0:
            yield
            return
        syscalls.set_file_user(*self._user)
        try:
            yield
        finally:
            syscalls.set_file_user(0, 0)


class Seat:
    """The namespaces and files of one session. It outlives the worker in it: what crashes leaves its files behind."""

    def __init__(self, broker: Broker, given: str | None) -> None:
        self.broker = broker
        self._given = given
        self._owner = os.getpid()
        self._workspace: JailWorkspace | None = None
        self.ticket: Ticket | None = None
        """The answer that brought the seat."""
        self._clearing = 0
        self._closed = False
        self.control, self.their_control = messages.pair()
        broker.hold()

    def answer(self) -> Ticket:
        """Handles of the seat; waited for when they are first needed."""
        if self.ticket is None:
            raise StartError("the seat was not asked for")
        return self.broker.wait(self.ticket, ANSWER_PATIENCE)

    @property
    def usable(self) -> bool:
        """Whether another worker can be put into it."""
        return (
            self.broker.alive
            and self.ticket is not None
            and self.ticket.arrived
            and self.ticket.error is None
            and not readable(self.ticket.seat, 0)
            and self._is_clear()
        )

    @property
    def workspace(self) -> JailWorkspace:
        """Its files."""
        if self._workspace is None:
            location = f"/proc/self/fd/{self.answer().workspace}/."
            root = Path(self._given or "/app")
            self._workspace = JailWorkspace(root, self.broker.user, private=self._given is None, location=location)
        return self._workspace

    def clear(self) -> None:
        """End everything that runs in it but its idle PID 1."""
        with suppress(OSError):
            messages.send(self.control, {"kill": True})
            self._clearing += 1

    def _is_clear(self) -> bool:
        """Every order to end all has been carried out: one on its way would hit the next worker."""
        while self._clearing:
            if not readable(self.control.fileno(), CLEAR_PATIENCE) or messages.receive(self.control)[0] is None:
                return False
            self._clearing -= 1
        return True

    def close(self) -> None:
        """End it, and everything in it, and wait for that."""
        if self._closed:
            return
        self._closed = True
        self.their_control.close()
        ticket = self.ticket
        if ticket is not None and self._owner == os.getpid():
            with suppress(StartError):
                self.answer()
            if ticket.seat >= 0:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(ticket.seat, signal.SIGKILL)
                readable(ticket.seat, END_PATIENCE)
        self.control.close()
        for descriptor in (ticket.seat, ticket.workspace) if ticket is not None else ():
            if descriptor >= 0:
                with suppress(OSError):
                    os.close(descriptor)
        self.broker.let_go()


class JailChannel(Channel):
    """One worker in a seat."""

    isolation = Isolation.SEALED

    def __init__(self, seat: Seat, options: dict[str, Any]) -> None:
        self._seat = seat
        self._owner = os.getpid()
        self._closed = False
        self._exit: Exit | None = None
        self.wire, theirs = socket.socketpair()
        self.stdout, out = capture_pipe()
        self.stderr, err = capture_pipe()
        self._end, end = os.pipe()
        os.set_blocking(self._end, False)
        for side in (self.wire, theirs):
            side.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BUFFER)
        lines = [theirs.fileno(), out, err, end]
        tree = -1
        try:
            if seat.ticket is None:
                lines.append(seat.their_control.fileno())
                if options.get("workspace"):
                    tree = seat.broker.map_folder(options["workspace"])
                    lines.append(tree)
                self._ticket = seat.ticket = seat.broker.request(options, lines)
            else:
                handles = [seat.ticket.seat, seat.ticket.workspace]
                self._ticket = seat.broker.request(options, [*lines, *handles], again=True)
        except BaseException:
            self.wire.close()
            for descriptor in (self.stdout, self.stderr, self._end):
                os.close(descriptor)
            raise
        finally:
            theirs.close()
            seat.their_control.close()
            for descriptor in (out, err, end, tree):
                if descriptor >= 0:
                    os.close(descriptor)
        self.wire.setblocking(False)
        self.layers: tuple[str, ...] = ()
        self.greeting: Mapping[str, Any] = {}

    def _worker(self) -> int:
        return self._seat.broker.wait(self._ticket, ANSWER_PATIENCE).worker

    @property
    def pid(self) -> int | None:
        """The worker's process as this process sees it."""
        try:
            with open(f"/proc/self/fdinfo/{self._worker()}") as handle:
                for line in handle:
                    if line.startswith("Pid:"):
                        return int(line.split()[1])
        except (OSError, StartError):
            return None
        return None

    @property
    def workspace(self) -> Workspace:  # type: ignore[override]  # known only when the seat is made
        return self._seat.workspace

    def interrupt(self, *, insist: bool) -> None:
        self._signal(signal.SIGUSR2 if insist else signal.SIGINT)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        self._seat.clear()

    def _signal(self, number: signal.Signals) -> None:
        if self._owner == os.getpid():
            with suppress(ProcessLookupError, StartError):
                signal.pidfd_send_signal(self._worker(), number)

    def watch_exit(self) -> int | None:
        return self._end

    def reap(self, timeout: float) -> Exit | None:
        if self._exit is None and readable(self._end, timeout):
            text = os.read(self._end, 64)
            if text:
                code = int(text)
                self._exit = Exit(signal=-code) if code < 0 else Exit(code=code)
            else:
                self._exit = Exit(signal=signal.SIGKILL)  # the zygote itself is gone
        return self._exit

    def cpu_seconds(self) -> float | None:
        try:
            with open(f"/proc/{self.pid}/stat", "rb") as handle:
                fields = handle.read().rpartition(b")")[2].split()
            return (int(fields[11]) + int(fields[12])) / _CLOCK_TICKS
        except (OSError, IndexError, ValueError):
            return None

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._exit is None:
            self.kill()
        self.wire.close()
        ticket = self._ticket
        if self._owner == os.getpid():
            with suppress(StartError):
                self._worker()  # handles that are still on their way must be closed too
        handles = [self.stdout, self.stderr, self._end, ticket.worker]
        if ticket is not self._seat.ticket:
            handles += [ticket.seat, ticket.workspace]  # copies that came with the answer
        for descriptor in handles:
            if descriptor is not None and descriptor >= 0:
                with suppress(OSError):
                    os.close(descriptor)


def readable(descriptor: int, timeout: float) -> bool:
    """Whether there is something to read, or an end to see, within `timeout`."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(timeout * 1000))
