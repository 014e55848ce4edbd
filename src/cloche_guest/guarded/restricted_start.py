"""Entry of a worker whose cells are compiled by RestrictedPython."""

from __future__ import annotations

from cloche_guest import start
from cloche_guest.codes import INVALID_REQUEST, RequestFailed
from cloche_guest.guarded.restricted import Restriction
from cloche_guest.kernel import Kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche_guest.cells import Cell
    from cloche_guest.kernel import Reply


class RestrictedKernel(Kernel):
    """Its namespace has other builtins, and its cells another grammar."""

    restriction: Restriction | None = None

    def initialize(self, params: dict[str, Any], body: bytearray | None) -> Reply:
        reply = Kernel.initialize(self, params, body)
        try:
            self.restriction = Restriction(params["modules"])
        except ImportError as missing:
            text = "%s; install it for this interpreter: pip install 'cloche[restricted]'" % missing
            raise RequestFailed(INVALID_REQUEST, text) from None
        self.space.names["__builtins__"] = self.restriction.builtins
        self.space.names["__name__"] = "__main__"
        return reply

    def compile(self, params: dict[str, Any], name: str) -> Cell:
        if self.restriction is None:
            raise RequestFailed(INVALID_REQUEST, "the session was not initialized")
        return self.restriction.compile(params["code"], name)


def main(argv: list[str]) -> None:
    """Run a session until the host goes away."""
    start.main(argv, RestrictedKernel)
