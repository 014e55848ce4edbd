"""Modules that are imported before the first request, and the names under which code finds them."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

PRELOAD_MODULES = [
    "numpy",
    "pandas",
    "scipy",
    "sklearn",
    "statsmodels",
    "matplotlib",
    "seaborn",
    "json",
    "csv",
    "datetime",
    "collections",
    "itertools",
    "functools",
    "math",
    "random",
    "re",
    "os",
    "sys",
]

NAMES: dict[str, tuple[tuple[str, str], ...]] = {
    "numpy": (("np", "numpy"),),
    "pandas": (("pd", "pandas"),),
    "scipy": tuple((part, "scipy." + part) for part in ("stats", "optimize", "interpolate")),
    "sklearn": tuple(
        (part, "sklearn." + part)
        for part in ("linear_model", "tree", "ensemble", "cluster", "preprocessing", "model_selection", "metrics")
    ),
    "statsmodels": (("sm", "statsmodels.api"),),
    "matplotlib": (("matplotlib", "matplotlib"), ("plt", "matplotlib.pyplot")),
    "seaborn": (("sns", "seaborn"),),
}
"""(name, module) of those that are not bound under their own name."""


def bind(names: dict[str, Any], modules: list[str], tell: Callable[[str, str], None]) -> list[str]:
    """Import `modules` and bind their names. `tell(module, reason)` hears of each that cannot be had."""
    bound = []
    if "matplotlib" in modules and "matplotlib.pyplot" not in sys.modules:
        # As the environment would say it: whoever imports it first, nothing here can open a window.
        import os

        os.environ.setdefault("MPLBACKEND", "Agg")
    for module in modules:
        for name, source in NAMES.get(module, ((module.partition(".")[0], module),)):
            why = _bind_one(names, name, source)
            if why is None:
                bound.append(name)
            else:
                tell(source, why)
    return bound


def _bind_one(names: dict[str, Any], name: str, source: str) -> str | None:
    """Why it cannot be, if so."""
    try:
        __import__(source)
        names[name] = sys.modules[name if name == source.partition(".")[0] else source]
    except KeyboardInterrupt:
        raise
    except BaseException as exc:
        return _reason(source, exc)
    return None


def _reason(module: str, exc: BaseException) -> str:
    if isinstance(exc, ModuleNotFoundError) and exc.name and (module + ".").startswith(exc.name + "."):
        return "not installed"
    return ("%s: %s" % (type(exc).__name__, exc))[:300]


def sources(modules: list[str]) -> list[str]:
    """What is imported for these."""
    return [source for module in modules for _, source in NAMES.get(module, (("", module),))]
