"""The kernel of a component: the same as everywhere, with marks around the user's code and the paths of its wall."""

from __future__ import annotations

import posix as _os
import sys

from cloche_guest.imports import SiteOnDemand
from cloche_guest.kernel import Kernel
from cloche_guest.runner import Runner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from cloche_guest.cells import Cell
    from cloche_guest.kernel import Reply
    from cloche_guest.wasm.link import HostLink


class MeteredRunner(Runner):
    """Tells the host where the user's code begins and ends: what the kernel itself costs is not the user's."""

    def __init__(self, names: dict[str, Any], link: HostLink) -> None:
        Runner.__init__(self, names)
        self._link = link

    def run(self, cell: Cell, on_value: Callable[[Any], str]) -> tuple[str | None, BaseException | None]:
        mark = self._link.host.mark
        mark()
        try:
            return Runner.run(self, cell, on_value)
        finally:
            mark()


class ComponentKernel(Kernel):
    """One session in a component."""

    def __init__(self, link: HostLink, capture: Any) -> None:
        Kernel.__init__(self, link, capture)
        self.runner = MeteredRunner(self.space.names, link)
        self._bare_path: list[str] = []

    def initialize(self, params: dict[str, Any], body: bytearray | None) -> Reply:
        """As everywhere; then the search path of this wall."""
        self._bare_path = list(sys.path)
        sys.argv = [""]  # what the component's own start makes of it is an empty list
        _os.chdir(params["workspace"])
        self.capture.begin_session()
        reply = Kernel.initialize(self, dict(params, path=None), body)
        sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder) is not SiteOnDemand]
        sys.path[:] = [*self._bare_path, *(params.get("path") or ()), params["workspace"]]
        sys.modules.pop("component", None)  # it could not be forgotten while it was imported
        return reply

    def execute(self, params: dict[str, Any], body: bytearray | None) -> Reply:
        """Run one cell; with ``"setup": false`` without the paths that were added at the start."""
        if params.get("setup", True):
            return Kernel.execute(self, params, body)
        usual = list(sys.path)
        sys.path[:] = self._bare_path
        try:
            return Kernel.execute(self, params, body)
        finally:
            sys.path[:] = usual
