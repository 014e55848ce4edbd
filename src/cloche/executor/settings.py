"""What an executor is told: by arguments, or by the variables of the environment that deployments set."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cloche.errors import PolicyError
from cloche_guest.preloads import PRELOAD_MODULES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

MIB = 1024 * 1024
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


@dataclass(frozen=True, slots=True, kw_only=True)
class REPLSettings:
    """Settings of a `REPLExecutor`. Immutable."""

    enabled: bool = True
    """Whether servers are kept warm; otherwise each request starts one. ``REPL_ENABLED``."""
    warmup_timeout_seconds: float = 15.0
    """How long a server may take until it is ready. ``REPL_WARMUP_TIMEOUT_SECONDS``."""
    health_check_timeout_seconds: float = 5.0
    """How long a server that waits may take to say that it is there. ``REPL_HEALTH_CHECK_TIMEOUT_SECONDS``."""
    state_max_size_mb: int = 256
    """Largest state, as text, in units of 1,048,576 bytes. ``STATE_MAX_SIZE_MB``."""
    preload: tuple[str, ...] = tuple(PRELOAD_MODULES)
    """Modules that are imported ahead. ``PRELOAD_MODULES``, with commas between; after a plus sign, in addition."""

    def __post_init__(self) -> None:
        for name in ("warmup_timeout_seconds", "health_check_timeout_seconds"):
            value = getattr(self, name)
            if type(value) not in (int, float) or not 0 < value < 1e6:
                raise PolicyError(f"{name} must be a number of seconds above 0, not {value!r:.40}", field=name)
        size = self.state_max_size_mb
        if type(size) is not int or not 0 < size <= 1 << 20:
            raise PolicyError(
                f"state_max_size_mb must be a whole number from 1 to {1 << 20}, not {size!r:.40}",
                field="state_max_size_mb",
            )
        given: object = self.preload
        if isinstance(given, str):
            raise PolicyError(
                f"preload must be names of modules, not one text: {given!r:.60}",
                field="preload",
                remedy=f"preload=({given!r:.60},)",
            )
        for name in self.preload:
            if not all(part.isidentifier() for part in str(name).split(".")):
                raise PolicyError(f"preload cannot hold {name!r:.60}: it is not the name of a module", field="preload")

    @property
    def state_max_bytes(self) -> int:
        """Largest state in bytes."""
        return self.state_max_size_mb * MIB

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> REPLSettings:
        """Read the variables. A bad value is named."""
        found = os.environ if environment is None else environment
        readers: dict[str, tuple[str, Callable[[str, str], Any]]] = {
            "enabled": ("REPL_ENABLED", _truth),
            "warmup_timeout_seconds": ("REPL_WARMUP_TIMEOUT_SECONDS", _seconds),
            "health_check_timeout_seconds": ("REPL_HEALTH_CHECK_TIMEOUT_SECONDS", _seconds),
            "state_max_size_mb": ("STATE_MAX_SIZE_MB", _megabytes),
            "preload": ("PRELOAD_MODULES", _modules),
        }
        return cls(
            **{field: read(name, found[name]) for field, (name, read) in readers.items() if found.get(name) is not None}
        )


def _refuse(name: str, wanted: str, text: str) -> PolicyError:
    return PolicyError(f"{name} must be {wanted}, not {text!r:.40}", field=name, remedy=f"set {name}, or unset it")


def _truth(name: str, text: str) -> bool:
    word = text.strip().lower()
    if word not in _TRUE + _FALSE:
        raise _refuse(name, "true or false", text)
    return word in _TRUE


def _seconds(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise _refuse(name, "a number of seconds above 0", text)
    return value


def _megabytes(name: str, text: str) -> int:
    if not text.strip().isdecimal() or not 0 < int(text) <= 1 << 20:
        raise _refuse(name, f"a whole number of megabytes from 1 to {1 << 20}", text)
    return int(text)


def _modules(name: str, text: str) -> tuple[str, ...]:
    more = text.strip().startswith("+")
    names = tuple(part.strip() for part in text.strip().removeprefix("+").split(",") if part.strip())
    if not all(part.isidentifier() for each in names for part in each.split(".")):
        raise _refuse(name, "names of modules with commas between", text)
    return (*PRELOAD_MODULES, *names) if more else names
