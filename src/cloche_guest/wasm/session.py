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
        self._always_open: set[int] = set()
        self.add_methods({"open_files": self.open_files, "grow": self.grow})

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
        self._always_open = _open_descriptors()
        return reply

    def open_files(self, params: dict[str, Any], body: bytearray | None) -> Reply:
        """How many the user has: they cannot be copied with the session."""
        return {"count": len(_open_descriptors() - self._always_open)}, None

    def grow(self, params: dict[str, Any], body: bytearray | None) -> Reply:
        """Have so much more memory, before it is overwritten from outside."""
        del bytearray(params["bytes"])[:]
        return {}, None

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


def _open_descriptors() -> set[int]:
    """Those among the first hundred; more are not looked for."""
    found = set()
    for descriptor in range(100):
        try:
            _os.fstat(descriptor)
        except OSError:
            continue
        found.add(descriptor)
    return found
