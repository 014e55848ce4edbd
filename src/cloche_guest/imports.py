"""Import hooks: site-packages without paying for `site` at the start, and cell sources for whoever reads them."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class SiteOnDemand:
    """Last on `sys.meta_path`: asked only for a top-level module that nobody found. Then runs `site` and asks again.

    The kernel starts with ``-S``; one code line in a ``.pth`` file can cost several times the whole start.
    """

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if path is not None or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        import site

        site.main()
        for finder in list(sys.meta_path):
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                return spec
        return None


class CellSources:
    """Source lines of cells, for tracebacks and `inspect.getsource`.

    Kept here until somebody imports `linecache` (it costs as much as the whole start); from then on each cell is
    given to it directly. First on `sys.meta_path` until then.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, str] = {}

    def remember(self, filename: str, source: str) -> None:
        """Keep the text of a cell for tracebacks, without importing what shows them."""
        linecache = sys.modules.get("linecache")
        if linecache is None:
            self._waiting[filename] = source
        else:
            _give(linecache, filename, source)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "linecache":
            return None
        sys.meta_path.remove(self)
        for finder in list(sys.meta_path):
            spec = finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                self._wrap(spec.loader)
                return spec
        return None

    def _wrap(self, loader: Any) -> None:
        run = loader.exec_module

        def exec_module(module: Any) -> None:
            run(module)
            for filename in list(self._waiting):
                _give(module, filename, self._waiting.pop(filename))

        loader.exec_module = exec_module


def _give(linecache: Any, filename: str, source: str) -> None:
    cache = getattr(linecache, "cache", None)
    if isinstance(cache, dict):
        # As it would read a file: `splitlines` also cuts where Python does not, and the last line has an end.
        lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        # mtime None: `linecache.checkcache` leaves such an entry alone
        cache[filename] = (len(source), None, [line + "\n" for line in lines], filename)


def use_site_paths(paths: list[str], prefix: str | None, exec_prefix: str | None, workspace: str | None) -> None:
    """Make the packages of this interpreter importable, as the host found them when it looked once.

    The workspace comes last: a file named like a standard module must not take its place.
    """
    if paths:
        sys.path[:] = paths
    if prefix:
        sys.prefix = prefix
    if exec_prefix:
        sys.exec_prefix = exec_prefix
    if workspace and workspace not in sys.path:
        sys.path.append(workspace)
    if not any(type(finder) is SiteOnDemand for finder in sys.meta_path):
        sys.meta_path.append(SiteOnDemand())


def forget_folder(path: str | None) -> None:
    """Files may have come since the last look, within the clock's grain of a directory's mtime."""
    if path is not None:
        sys.path_importer_cache.pop(path, None)
