"""``python -I -S __main__.py CONTROL LEDGER PATH...``: a worker. Started by its host, ends with it."""

from __future__ import annotations

import sys


def main(arguments: list[str]) -> None:
    """Serve one host until it goes away."""
    control, ledger, *path = arguments
    sys.path += path
    from cloche.backends.wasm.worker.zygote import serve

    serve(int(control), int(ledger))


if __name__ == "__main__":
    sys.path.pop(0)  # the folder of this file: its names are not for everybody
    main(sys.argv[1:])
