"""The standard library, kept in memory: a component has no file system of its own."""

from __future__ import annotations

import sys
from _frozen_importlib import ModuleSpec  # under its public name it would have to be found by us

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HOME = "/usr/lib/python%d.%d" % sys.version_info[:2]
"""Where its modules say that they are. Nothing is there."""

_LEFT_OUT = (
    "__pycache__", "config-", "ensurepip", "idlelib", "lib-dynload", "pydoc_data", "site-packages", "test", "tkinter",
    "turtledemo", "turtle.py", "venv",
)  # fmt: skip


class Library:
    """A finder and loader over compiled modules. Stands before the folders of the search path."""

    def __init__(self) -> None:
        self._modules: dict[str, tuple[bool, bytes]] = {}  # name: (is a package, its marshalled code)

    def collect(self, folder: str) -> None:
        """Compile every module below a folder."""
        import os

        for place, folders, files in os.walk(folder):
            folders[:] = [name for name in folders if not name.startswith(_LEFT_OUT)]
            for name in files:
                if name.endswith(".py") and not name.startswith(_LEFT_OUT):
                    self._add(os.path.join(place, name), os.path.join(place, name)[len(folder) :].strip("/"))

    def _add(self, path: str, relative: str) -> None:
        import marshal
        import tokenize

        parts = relative[:-3].split("/")
        package = parts[-1] == "__init__"
        with tokenize.open(path) as handle:
            source = handle.read()
        code = compile(source, HOME + "/" + relative, "exec", 0, True)
        self._modules[".".join(parts[: len(parts) - package])] = (package, marshal.dumps(code))

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        found = self._modules.get(name)
        if found is None:
            return None
        file = "%s/%s%s" % (HOME, name.replace(".", "/"), "/__init__.py" if found[0] else ".py")
        ours: Any = self  # a loader by what it can do
        spec = ModuleSpec(name, ours, origin=file, is_package=found[0])
        spec.has_location = True
        return spec

    def create_module(self, spec: Any) -> None:
        """The usual kind."""

    def exec_module(self, module: Any) -> None:
        exec(self.get_code(module.__spec__.name), module.__dict__)

    def get_code(self, name: str) -> Any:
        """What `runpy` and `pkgutil` ask for."""
        import marshal

        return marshal.loads(self._modules[name][1])

    def is_package(self, name: str) -> bool:
        return self._modules[name][0]

    def get_source(self, name: str) -> None:
        """Not kept."""
