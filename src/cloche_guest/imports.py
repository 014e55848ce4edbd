"""Import hooks: packages without paying for `site` at the start, cell sources for `linecache`, displays of IPython."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable


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
                _after_loading(spec.loader, self._give_all)
                return spec
        return None

    def _give_all(self, linecache: Any) -> None:
        for filename in list(self._waiting):
            _give(linecache, filename, self._waiting.pop(filename))


class ChildFlags:
    """First on `sys.meta_path` until `subprocess` is imported: children start as a user's interpreter would.

    The guest was started with ``-I -S``, which is its own affair: `multiprocessing` and others hand the flags of their
    interpreter on, and children would find no package.
    """

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "subprocess":
            return None
        sys.meta_path.remove(self)
        for finder in list(sys.meta_path):
            spec = finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                _after_loading(spec.loader, self.patch)
                return spec
        return None

    def patch(self, subprocess: Any) -> None:
        """Leave our own flags out of those that are handed on."""
        all_flags = getattr(subprocess, "_args_from_interpreter_flags", None)
        if all_flags is not None:
            subprocess._args_from_interpreter_flags = lambda: [flag for flag in all_flags() if flag not in ("-I", "-S")]


class NotebookImports:
    """First on `sys.meta_path`: IPython's displays are ours, and where it is not installed there is a stand-in."""

    def __init__(self, make_functions: Callable[[], Any]) -> None:
        self._make_functions = make_functions
        self._functions: Any = None
        self._stands_in = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name[:7] != "IPython":
            return None
        if self._functions is None:
            self._functions = self._make_functions()
        spec = None
        for finder in list(sys.meta_path):
            if finder is not self:
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    break
        if name == "IPython":  # `SiteOnDemand` asks us as well, and may bring our own answer
            loader: Any = None if spec is None else spec.loader
            self._stands_in = spec is None or loader is self
        if spec is None and self._stands_in and name in self._functions.STAND_INS:
            loader = self
            return type(sys.__spec__)(name, loader, is_package=True)
        if spec is not None and spec.loader is not None and name in self._functions.PATCHED:
            _after_loading(spec.loader, self._functions.patch)
        return spec

    def create_module(self, spec: Any) -> Any:
        """The stand-in."""
        return self._functions.stand_in(spec.name)

    def exec_module(self, module: Any) -> None:
        """Nothing is left to be done."""


def _after_loading(loader: Any, action: Callable[[Any], None]) -> None:
    run = loader.exec_module

    def exec_module(module: Any) -> None:
        run(module)
        action(module)

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
