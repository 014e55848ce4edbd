"""``python -m cloche.daemon``: the daemon's own process. People type ``cloche daemon start``."""

from __future__ import annotations

import argparse
import os
import sys

import anyio

from cloche.backends.daemon.places import Places
from cloche.daemon.server import Daemon
from cloche.errors import ClocheError
from cloche.pool import PoolLimits


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
    try:
        daemon = Daemon(Places.default(), limits=PoolLimits(sessions=options.pool_size), idle_exit=options.idle_exit)
        anyio.run(daemon.serve, lambda: say("ready"))
    except ClocheError as exc:
        say(str(exc))
        sys.stderr.write(f"{exc}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
