"""``python -m cloche.daemon``: the daemon's own process. People type ``cloche daemon start``."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import suppress

import anyio

from cloche.backends.daemon.places import Places
from cloche.daemon.doors import passed_socket
from cloche.daemon.server import Daemon
from cloche.errors import ClocheError
from cloche.pool import PoolLimits

FAILED = 2
"""The status of a run that failed, as the command has it."""
DESCRIPTORS = 1 << 16
"""As many as are ever needed; some systems allow a thousand million."""


def main() -> int:
    """Serve until the end."""
    parser = argparse.ArgumentParser(prog="cloche.daemon")
    parser.add_argument("--ready", type=int, default=-1, help="descriptor on which to say that it is ready, or why not")
    parser.add_argument("--pool-size", type=int, default=64)
    parser.add_argument("--idle-exit", type=float, default=None)
    options = parser.parse_args()

    def say(text: str) -> None:
        if options.ready >= 0:
            os.write(options.ready, text.encode()[:4096])
            os.close(options.ready)
            options.ready = -1

    if options.ready >= 0:
        os.set_inheritable(options.ready, False)
    raise_descriptor_limit()
    try:
        limits = PoolLimits(sessions=options.pool_size)
        daemon = Daemon(Places.default(), limits=limits, idle_exit=options.idle_exit, passed=passed_socket())
        anyio.run(daemon.serve, lambda: say("ready"))
    except Exception as exc:
        trouble = _first(exc)
        say(f"{type(trouble).__name__}: {trouble}" if not isinstance(trouble, (ClocheError, OSError)) else str(trouble))
        if not isinstance(trouble, (ClocheError, OSError)):
            raise  # ours: the log is to have all of it
        with suppress(OSError):  # the disk may be what is full
            sys.stderr.write(f"error: {trouble}\n")
        return FAILED
    return 0


def _first(exc: Exception) -> Exception:
    """What went wrong, out of the group in which a task group wraps it."""
    while isinstance(exc, ExceptionGroup):
        exc = exc.exceptions[0]
    return exc


def raise_descriptor_limit() -> None:
    """A session takes a dozen descriptors and a client one: the usual soft limit is reached by sixty sessions."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


if __name__ == "__main__":
    sys.exit(main())
