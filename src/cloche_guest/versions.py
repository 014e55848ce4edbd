"""What a session runs on: the interpreter, and the packages that it has imported."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_PACKAGES = 500
MAX_TEXT = 100


def describe_versions() -> dict[str, Any]:
    """Interpreter and imported packages, by the names under which they are imported."""
    own = getattr(sys, "stdlib_module_names", None)
    found: dict[str, str] = {}
    for name in sorted(name for name in list(sys.modules) if type(name) is str and "." not in name):
        module = sys.modules.get(name)
        if name.startswith("_") or module is None or len(found) >= MAX_PACKAGES:
            continue
        if name in own if own is not None else not _is_installed(module):
            continue
        version = _version(name, module)
        if version:
            found[name[:MAX_TEXT]] = version[:MAX_TEXT]
    return {
        "python": "%d.%d.%d" % sys.version_info[:3],
        "implementation": sys.implementation.name,
        "platform": sys.platform,
        "packages": [[name, version] for name, version in found.items()],
    }


def _is_installed(module: Any) -> bool:
    """For interpreters that cannot say what is part of them."""
    place = getattr(module, "__file__", None)
    return type(place) is str and ("/site-packages/" in place or "/dist-packages/" in place)


def _version(name: str, module: Any) -> str:
    """Empty for a module of the user's own, and for what does not say."""
    version = getattr(module, "__version__", None)
    if type(version) is str:
        return version
    if not _is_installed(module):
        return ""
    try:
        from importlib import metadata

        return str(metadata.version(name))
    except Exception:  # not under that name, or its record is broken
        return ""
