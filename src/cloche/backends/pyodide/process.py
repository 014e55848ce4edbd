"""A Deno process with a guest in it, as the operating system sees it: descriptors, limits, end."""

from __future__ import annotations

import os
import socket
import subprocess
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cloche.backends.lifeline import kill_group_at_end, lifeline
from cloche.backends.native import capture_pipe
from cloche.backends.pyodide.confinement import confined
from cloche.backends.pyodide.runtime import ENVIRONMENT

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from cloche.backends.pyodide.runtime import Runtime

SOCKET_BUFFER = 1 << 20
PACKET = 1 << 17
"""Bytes in one packet; the reader in the guest's process takes twice as much."""
PAGE = 1 << 16
MOST_PAGES = 65_536
"""What WebAssembly can address: four gigabytes."""
_BYTES = b"\0"


@dataclass(frozen=True, slots=True)
class Kind:
    """What is settled when a process is started; all else is told to it later."""

    runtime: Runtime
    memory_bytes: int | None
    layers: tuple[str, ...]

    def command(self) -> list[str]:
        """How it is started; behind the second wall, where there is one."""
        pages = MOST_PAGES if self.memory_bytes is None else min(MOST_PAGES, self.memory_bytes // PAGE)
        command = self.runtime.command([f"--wasm-max-mem-pages={pages}"])
        return [*confined(self.runtime.readable()), *command] if "landlock" in self.layers else command


class PacketSocket(socket.socket):
    """The wire's near end, as packets: a byte that says what it is, and the rest.

    Zero stands for bytes of the wire, any other number is that of a signal. So an interrupt needs no descriptor of its
    own, and can never overtake the request that it is meant for, nor be late for the next one.
    """

    def send(self, data: ReadableBuffer, flags: int = 0, /) -> int:
        return self.sendmsg([_BYTES, memoryview(data)[:PACKET]], (), flags) - 1

    def send_signal(self, number: int) -> None:
        """Have the guest's interpreter handle a signal. Where it does not listen, the next one may get through."""
        with suppress(OSError):
            self.sendmsg([bytes([number])])


class DenoProcess:
    """A session's process, started and not yet spoken to."""

    def __init__(self, kind: Kind, *, ahead: bool = False) -> None:
        """`ahead`: nobody waits for it yet, so it may rehearse."""
        with ExitStack() as ours, ExitStack() as theirs:
            near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self.wire = ours.enter_context(PacketSocket(fileno=near.detach()))
            theirs.enter_context(far)
            self.wire.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BUFFER)
            self.stderr, err = capture_pipe()
            ours.callback(os.close, self.stderr)
            theirs.callback(os.close, err)
            lines = [lifeline.reader()] if "lifeline" in kind.layers else []
            for line in lines:
                theirs.callback(os.close, line)
            self.popen = subprocess.Popen(
                [*kind.command(), *(["ahead"] if ahead else [])], stdin=far.fileno(), stdout=far.fileno(), stderr=err,
                pass_fds=lines, process_group=0, cwd="/", env=ENVIRONMENT,
            )  # fmt: skip
            for line in lines:
                kill_group_at_end(line, self.popen.pid)
            ours.pop_all()

    @property
    def alive(self) -> bool:
        """Whether it still is there."""
        return self.popen.poll() is None

    def limit(self, which: int, amount: int, hard: int | None = None) -> None:
        """A limit of the operating system's."""
        import resource

        prlimit: Any = getattr(resource, "prlimit", None)
        if prlimit is not None:
            with suppress(ProcessLookupError):  # it has ended; whoever reads from it will hear
                prlimit(self.popen.pid, which, (amount, amount if hard is None else hard))

    def leave(self) -> None:
        """In a forked child: it is our parent's."""
        self.popen.returncode = 0
        self.wire.close()
        os.close(self.stderr)

    def close(self) -> None:
        """End one that nobody has made a channel of."""
        self.popen.kill()
        self.popen.wait()
        self.wire.close()
        os.close(self.stderr)
