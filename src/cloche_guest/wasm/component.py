"""What componentize-py is given: the guest is compiled and started here, and its two exports are handed on."""

from __future__ import annotations

import os
import sys

import wit_world  # made by componentize-py

from cloche_guest import bundle

exec(bundle.build(os.path.dirname(bundle.__file__), "wasm"), {"__name__": "__main__"})


class WitWorld(wit_world.WitWorld):  # type: ignore[misc]  # of unknown type, as above
    """The exports of ``session.wit``."""

    def feed(self, piece: str) -> None:
        wit_world.session.feed(piece)

    def serve(self, frame: str) -> str:
        served: str = wit_world.session.serve(frame)
        return served


for name in [name for name in sys.modules if name.partition(".")[0] == "cloche_guest"]:
    del sys.modules[name]
