"""Modules that are reached through other modules: ``json.codecs`` is ``codecs``, ``enum.bltns`` is ``builtins``.

For the standard library that is read from the sources, which say what each module imports and under which name; nothing
is imported for it. Of other packages a part that has the name of a module of the standard library is taken for it.
"""

from __future__ import annotations

import functools
import re
import sys
import sysconfig
from pathlib import Path

_IMPORT = re.compile(r"^[ \t]*import[ \t]+([^\n#;]+)", re.MULTILINE)
_FROM = re.compile(r"^[ \t]*from[ \t]+([\w.]+)[ \t]+import[ \t]+(?:\(([^)]*)\)|([^\n#;]+))", re.MULTILINE)
_COMMENT = re.compile(r"#[^\n]*")
_LARGEST_SOURCE = 1 << 20


def canonical(name: str) -> str:
    """The full name of what the chain of attributes `name` leads to, as far as it goes through modules."""
    first, *rest = name.split(".")
    module = first
    while rest:
        found = _imported_by(module).get(rest[0]) or _submodule(module, rest[0])
        if found is None:
            break
        module = found
        rest.pop(0)
    if module == first and first not in sys.stdlib_module_names:
        for place in range(len(rest) - 2, -1, -1):
            if rest[place] in sys.stdlib_module_names:
                return ".".join(rest[place:])
    return ".".join((module, *rest))


@functools.lru_cache(maxsize=256)
def _imported_by(module: str) -> dict[str, str]:
    """The modules that a module of the standard library imports, by the names that they have in it."""
    source = _source(module)
    found: dict[str, str] = {}
    for line in _IMPORT.findall(source):
        for part in line.split(","):
            words = part.split()
            if len(words) == 3 and words[1] == "as":
                found[words[2]] = words[0]
            elif len(words) == 1:
                root = words[0].partition(".")[0]
                found[root] = root
    for origin, inside, plain in _FROM.findall(source):
        for part in _COMMENT.sub("", inside or plain).split(","):
            words = part.split()
            inner = _submodule(_absolute(module, origin), words[0]) if words else None
            if inner is not None:
                found[words[-1]] = inner
    return found


def _absolute(module: str, origin: str) -> str:
    """The package that ``from origin import`` names in a module."""
    level = len(origin) - len(origin.lstrip("."))
    if not level:
        return origin
    package = module.split(".") if _folder(module) is not None else module.split(".")[:-1]
    return ".".join([*package[: len(package) - level + 1], *filter(None, [origin[level:]])])


def _submodule(package: str, name: str) -> str | None:
    folder = _folder(package)
    if folder is None or not name.isidentifier():
        return None
    there = (folder / f"{name}.py").is_file() or (folder / name / "__init__.py").is_file()
    return f"{package}.{name}" if there else None


@functools.lru_cache(maxsize=256)
def _folder(package: str) -> Path | None:
    """Where the parts of a package of the standard library lie."""
    first = package.partition(".")[0]
    if first not in sys.stdlib_module_names or not all(map(str.isidentifier, package.split("."))):
        return None
    folder = Path(sysconfig.get_path("stdlib"), *package.split("."))
    return folder if (folder / "__init__.py").is_file() else None


def _source(module: str) -> str:
    first = module.partition(".")[0]
    if first not in sys.stdlib_module_names or not all(map(str.isidentifier, module.split("."))):
        return ""
    place = Path(sysconfig.get_path("stdlib"), *module.split("."))
    for path in (place.with_suffix(".py"), place / "__init__.py"):
        try:
            if path.stat().st_size <= _LARGEST_SOURCE:
                return path.read_text("utf-8", "replace")
        except OSError:
            continue
    return ""
