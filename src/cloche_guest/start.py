"""Entry: ``python -I -S guest.pyc [--capture OUT,ERR] [--lifeline FD]``, the wire on stdin and stdout."""

from __future__ import annotations

import posix as _os
import sys

from cloche_guest import signals
from cloche_guest.capture import OwnCapture, PipeCapture, flush_quietly, keep_private, take_wire
from cloche_guest.kernel import Kernel
from cloche_guest.wire import Wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def main(argv: list[str], kind: type[Kernel] = Kernel) -> None:
    """Run a session until the host goes away."""
    options = dict(zip(argv[1::2], argv[2::2]))
    reader, writer = take_wire()
    pipes = None
    if "--capture" in options:
        out, err = options["--capture"].split(",")
        pipes = (int(out), int(err))
    if "--lifeline" in options:
        die_with_host(int(options["--lifeline"]))
    serve(reader, writer, pipes, kind)


def serve(reader: int, writer: int, pipes: tuple[int, int] | None, kind: type[Kernel] = Kernel) -> None:
    """Be the kernel of a session over these descriptors. Never returns."""
    kernel = prepare(reader, writer, pipes, kind)
    kernel.serve()
    _os._exit(0)


def prepare(reader: int, writer: int, pipes: tuple[int, int] | None, kind: type[Kernel] = Kernel) -> Kernel:
    """The kernel of a session, which nobody has spoken to yet."""
    wire = Wire(reader, writer)
    capture: Any = OwnCapture(wire.notify) if pipes is None else PipeCapture(*pipes)
    capture.install()
    sys.argv = [""]
    signals.install()
    _os.register_at_fork(before=flush_quietly, after_in_child=lambda: _enter_child(wire))
    return kind(wire, capture)


def die_with_host(descriptor: int) -> None:
    """Have the kernel kill our process group when the host's end of this pipe closes.

    No process watches for that and no thread is bound to it (unlike PR_SET_PDEATHSIG, which follows the thread that
    spawned): the descriptor itself raises the signal, even while we are in an endless loop.
    """
    import fcntl

    _os.set_inheritable(descriptor, False)
    lifeline = keep_private(descriptor)
    _os.close(descriptor)
    if _os.getpgrp() != _os.getpid():
        return  # not a group of our own: the signal would hit strangers
    set_signal = getattr(fcntl, "F_SETSIG", 10)
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, -_os.getpgrp())
    fcntl.fcntl(lifeline, set_signal, 9)
    flags = fcntl.fcntl(lifeline, fcntl.F_GETFL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, flags | fcntl.FASYNC)


def _enter_child(wire: Wire) -> None:
    if signals.state.branching:
        return  # a session of its own
    signals.state.forked = True
    wire.leave_in_child()
