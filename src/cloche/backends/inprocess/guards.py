"""The two guards: what they are called, what they need, and what the host says of a cell before it runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, get_args

from cloche.errors import BackendUnavailableError, PolicyError
from cloche_guest.guarded.members import MODULES

Guard = Literal["ast", "restricted"]
Worker = Literal["process", "inline"]

_OLDEST_RESTRICTED = (8, 5)
"""Each release before it closed an escape."""


def one_of(kind: Any, value: Any, name: str) -> Any:
    """`value`, which must be one of the words of `kind`."""
    words = get_args(kind)
    if value not in words:
        raise PolicyError(f"{name} must be one of {', '.join(words)}, not {value!r:.40}", field=name)
    return value


def allowed_modules(modules: Iterable[str] | None) -> frozenset[str]:
    """What restricted code may import."""
    if modules is None:
        return MODULES
    names = [] if isinstance(modules, str) else list(modules)
    if isinstance(modules, str) or not all(
        type(name) is str and name.replace(".", "_").isidentifier() for name in names
    ):
        raise PolicyError("modules must be a list of names of modules", field="modules")
    return frozenset(names)


def why_not_restricted() -> str | None:
    """Why RestrictedPython cannot be used here; None when it can."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        found = version("RestrictedPython")
    except PackageNotFoundError:
        return "RestrictedPython is not installed"
    parts = tuple(int(part) for part in found.split(".")[:2] if part.isdigit())
    return f"RestrictedPython {found} is too old" if parts < _OLDEST_RESTRICTED else None


def require_restricted() -> None:
    """Refuse to begin without it."""
    reason = why_not_restricted()
    if reason is not None:
        raise BackendUnavailableError(
            f"guard='restricted' needs RestrictedPython 8.5 or later: {reason}",
            remedy="pip install 'cloche[restricted]', or use guard='ast'",
        )


def violations_in(code: str) -> list[dict[str, Any]]:
    """What the AST guard has against this code, as the guest is told. Code that is no Python is the compiler's."""
    from cloche.guardrails.visitor import check

    try:
        found = check(code, walled=False)
    except (SyntaxError, ValueError):
        # The compiler says so itself, and in more words; should it disagree, nothing is run either.
        return [_unchecked("the code cannot be read")]
    except (RecursionError, MemoryError):
        return [_unchecked("the code is nested too deeply to be checked")]
    found = sorted(found, key=lambda each: (each.line, each.column))
    return [
        {"line": each.line, "column": each.column, "what": each.what, "instead": each.instead or ""} for each in found
    ]


def _unchecked(what: str) -> dict[str, Any]:
    return {"line": None, "column": None, "what": what, "instead": "split it into several cells"}
