"""Starts the REPL server: ``python -m cloche_guest.repl_server``, or this file by its path, in any CPython from 3.8 on.

It needs this folder and nothing else; where the interpreter has cloudpickle and lz4, states are written with them.
The server itself is in `repl_service`. To change what it imports ahead, set ``PRELOAD_MODULES``.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def main() -> None:
    """Never returns."""
    here = os.path.dirname(os.path.abspath(__file__))
    # Neither our own modules nor files of the working folder may stand in for a module of that name.
    hidden = (here, os.getcwd(), "")
    if sys.path and sys.path[0] in hidden:
        del sys.path[0]
    names: dict[str, Any] = {"__name__": "cloche_guest.bundle", "__file__": os.path.join(here, "bundle.py")}
    with open(names["__file__"], encoding="utf-8") as source:
        exec(compile(source.read(), names["__file__"], "exec", 0, True), names)
    code = names["build"](here, "repl")
    for name in [name for name in sys.modules if name.partition(".")[0] == "cloche_guest"]:
        del sys.modules[name]
    exec(code, {"__name__": "__main__"})


if __name__ == "__main__":
    main()
