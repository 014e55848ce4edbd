"""Entry of a worker whose cells were looked at by the host before they came here."""

from __future__ import annotations

from cloche_guest import start
from cloche_guest.guarded.refusals import read_violations, refuse
from cloche_guest.kernel import Kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cloche_guest.cells import Cell


class CheckedKernel(Kernel):
    """Does not run what the host has refused. A cell that is no Python is told so first."""

    def compile(self, params: dict[str, Any], name: str) -> Cell:
        cell = Kernel.compile(self, params, name)
        if params.get("refused"):
            raise refuse(read_violations(params["refused"]), params["code"], name)
        return cell


def main(argv: list[str]) -> None:
    """Run a session until the host goes away."""
    start.main(argv, CheckedKernel)
