"""What every backend must do: one set of behaviours, run on the sync API and on the async API.

::

    pytest --pyargs cloche.conformance --backend=NAME

runs it on any registered backend. What a backend cannot do is not a matter of the tests but of its
`capabilities`: behaviours that need one it lacks are skipped with that reason, and `cloche.conformance.limits`
proves that asking for it raises a typed error.

To run it inside your own test suite, a conftest and one module are enough; see `load_behaviours`.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["load_behaviours"]


def load_behaviours() -> dict[str, Callable[..., Any]]:
    """All test functions by name, for a test module's ``globals().update(...)``.

    The conftest next to that module imports `open_sandbox`, `sandbox` and `cloche_api` from
    `cloche.conformance.fixtures`, and calls `run_on` from its `pytest_generate_tests`.
    """
    found: dict[str, Callable[..., Any]] = {}
    for module in pkgutil.iter_modules(__path__):
        if module.name.startswith("test_"):
            for name, value in vars(importlib.import_module(f"{__name__}.{module.name}")).items():
                if name.startswith("test_"):
                    if name in found:
                        raise ImportError(f"two behaviours are called {name}")
                    found[name] = value
    return found
