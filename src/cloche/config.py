"""Configuration: a file, environment variables and arguments, in rising order of precedence."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cloche.config_files import config_files, nearest_file, snake_case
from cloche.errors import PolicyError
from cloche.policy import ExecutionPolicy, refuse_unknown

PREFIX = "CLOCHE_"
_ALIKE = 0.88
"""How much a name must be like that of a setting to be taken for a slip of the pen."""

_ALIASES = {"timeout": "timeout_ms", "memory": "memory_bytes"}
_OWN = ("backend", "workspace", "python", "policy")


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxConfig:
    """What `create_sandbox` needs to know. Unset fields are filled from below: environment, file, defaults."""

    backend: str | None = None
    policy: ExecutionPolicy = field(default_factory=ExecutionPolicy)
    workspace: str | os.PathLike[str] | None = None
    python: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def timeout(self) -> int:
        """The cell's deadline in milliseconds."""
        return self.policy.timeout_ms

    @property
    def max_output_length(self) -> int:
        """Characters kept of each stream."""
        return self.policy.max_output_length

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any], *, base: SandboxConfig | None = None) -> SandboxConfig:
        """Build from plain data: `backend`, `workspace`, `python`, `timeout` (ms) and any policy field.

        camelCase keys are accepted. A nested `policy` mapping is merged too. Unknown keys raise TypeError.
        """
        base = base or cls()
        if not isinstance(given, Mapping):
            raise PolicyError(
                f"a configuration is a mapping or a SandboxConfig, not {given!r:.60}",
                field="config",
                remedy=f"backend={given!r:.60}" if isinstance(given, str) else None,
            )
        _refuse_kinds(given)
        plain = {_ALIASES.get(name, name): value for name, value in ((snake_case(key), given[key]) for key in given)}
        nested = plain.pop("policy", None)
        own = {name: plain.pop(name) for name in _OWN if name in plain}
        options = {**base.options, **(plain.pop("options", None) or {})}
        refuse_unknown(plain, ExecutionPolicy.field_names() + _OWN + ("options", *_ALIASES), "configuration key")
        policy = base.policy
        if isinstance(nested, ExecutionPolicy):
            policy = nested
        elif nested:
            policy = policy.replace(**{snake_case(key): value for key, value in nested.items()})
        return cls(
            backend=own.get("backend", base.backend),
            policy=policy.replace(**plain) if plain else policy,
            workspace=own.get("workspace", base.workspace),
            python=own.get("python", base.python),
            options=options,
        )


def _refuse_kinds(given: Mapping[str, Any]) -> None:
    """What is neither a number nor a flag is checked here, those by the policy."""
    kinds: dict[str, tuple[type, ...]] = {
        "policy": (Mapping, ExecutionPolicy), "options": (Mapping,), "backend": (str,), "python": (str, os.PathLike),
        "workspace": (str, os.PathLike),
    }  # fmt: skip
    for key, value in given.items():
        if not isinstance(key, str):
            raise TypeError(f"a configuration key must be text, not {key!r}")
        kind = kinds.get(snake_case(key))
        if kind is not None and value is not None and not isinstance(value, kind):
            wanted = " or ".join(each.__name__ for each in kind)
            raise PolicyError(f"{key} must be {wanted}, not {type(value).__name__}", field=snake_case(key))


def load_config(start: Path | None = None, environ: Mapping[str, str] | None = None) -> SandboxConfig:
    """Defaults, then the configuration files that count, then ``CLOCHE_*`` variables."""
    environ = os.environ if environ is None else environ
    config = SandboxConfig()
    for file in config_files(start, environ):
        config = _apply(file.read(), config, f"configuration file {file.path}")
    variables = _from_environment(environ)
    return _apply(variables, config, "environment variable") if variables else config


def find_config_file(start: Path | None = None, environ: Mapping[str, str] | None = None) -> Path | None:
    """``$CLOCHE_CONFIG``, or the nearest file upwards from `start` that counts; the user's own is another."""
    found = nearest_file(start, os.environ if environ is None else environ)
    return None if found is None else found.path


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """Settings named by ``CLOCHE_<FIELD>``; other CLOCHE_ variables (config path, cache, masks) are not settings."""
    found: dict[str, Any] = {}
    for key in [key for key in environ if key.startswith(PREFIX)]:
        name, text = key[len(PREFIX) :].lower(), environ[key]
        known = name in ExecutionPolicy.field_names() or name in _OWN or name in _ALIASES
        if not known:
            _refuse_misspelt(key)
        elif name not in ("policy", "environment", "mounts"):
            found[name] = text if name in _OWN else _parse(key, text)
    return found


def _refuse_misspelt(key: str) -> None:
    """A limit that was meant must not be missing. What is like no setting is somebody else's affair."""
    import difflib

    known = [PREFIX + name.upper() for name in (*ExecutionPolicy.field_names(), *_OWN, *_ALIASES)]
    near = difflib.get_close_matches(key, known, n=1, cutoff=_ALIKE)
    if near:
        raise PolicyError(
            f"{key} is no setting; did you mean {near[0]}?", field=key, remedy="cloche config shows all settings"
        )


def _parse(key: str, text: str) -> Any:
    word = text.strip().lower()
    if key in (PREFIX + "PRELOAD", PREFIX + "PACKAGES"):
        return [name for part in text.split(",") if (name := part.strip()) and word != "none"]
    if word in ("true", "yes", "on"):
        return True
    if word in ("false", "no", "off"):
        return False
    if word in ("none", ""):
        return None
    if re.fullmatch(r"[+-]?\d[\d_]*", word):
        return int(word)
    if key == PREFIX + "CPUS" and re.fullmatch(r"[+]?\d*\.\d+", word):
        return float(word)
    if key == PREFIX + "MINIMUM_ISOLATION":
        return word
    raise PolicyError(f"{key}={text!r} is not a number, true, false or none", field=key)


def _apply(data: Mapping[str, Any], base: SandboxConfig, origin: str) -> SandboxConfig:
    try:
        return SandboxConfig.from_mapping(data, base=base)
    except (TypeError, PolicyError) as exc:
        raise PolicyError(f"in the {origin}: {exc}", field=getattr(exc, "field", None)) from None
