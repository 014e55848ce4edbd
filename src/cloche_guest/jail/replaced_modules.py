"""Changes to modules of the standard library: at once where they are loaded, else when somebody imports them."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict

    Changes = Dict[str, Callable[[Any], None]]


def replace_when_imported(name: str, change: Callable[[Any], None]) -> None:
    """Have `change` called with the module of this name, as soon as there is one."""
    module = sys.modules.get(name)
    if module is not None:
        change(module)
        return
    for finder in sys.meta_path:
        if isinstance(finder, _Waiting):
            break
    else:
        finder = _Waiting()
        sys.meta_path.insert(0, finder)
    finder.changes[name] = change


class _Waiting:
    """First on `sys.meta_path`: finds nothing itself, and changes what the others found."""

    def __init__(self) -> None:
        self.changes: Changes = {}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        change = self.changes.pop(name, None)
        if change is None:
            return None
        for finder in list(sys.meta_path):
            spec: Any = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader = _Changing(spec.loader, change)
                return spec
        return None


class _Changing:
    """A loader that does what another does, and then makes the change."""

    def __init__(self, loader: Any, change: Callable[[Any], None]) -> None:
        self._loader = loader
        self._change = change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        module.__loader__ = module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._change(module)
