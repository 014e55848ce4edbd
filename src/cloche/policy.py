"""What a session may use: time, memory, output, bridges, and the wall it demands."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from keyword import iskeyword
from typing import Any, NoReturn

from cloche.errors import PolicyError
from cloche.isolation import Isolation

MIB = 1024 * 1024
MOST = 2**53
"""No number of a policy is larger: beyond this the system's own counters end, each somewhere else."""

_DEMANDS = ("cpus", "mounts", "fuel_budget", "network", "deterministic", "protect_state", "packages")
"""Fields that only some backends can honour: set explicitly, they are a demand (see `ExecutionPolicy.demands`)."""


def _setting(default: Any, doc: str, *, minimum: float | None = None) -> Any:
    return field(default=default, metadata={"doc": doc, "minimum": minimum})


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder or file of the host (`source`), and where the guest finds it (`target`)."""

    source: str
    target: str
    writable: bool = False

    def __post_init__(self) -> None:
        for name in ("source", "target"):
            path = getattr(self, name)
            if not isinstance(path, str | os.PathLike) or "\0" in os.fspath(path) or not os.fspath(path):
                raise PolicyError(f"policy.mounts: {name} must be a path, not {path!r:.60}", field="mounts")
            object.__setattr__(self, name, os.fspath(path))
        object.__setattr__(self, "source", os.path.abspath(os.path.expanduser(self.source)))
        if not self.target.startswith("/") or os.path.normpath(self.target) != self.target:
            raise PolicyError(
                f"policy.mounts: target must be an absolute path without detours, not {self.target!r:.60}",
                field="mounts",
                remedy="such as /mnt/data",
            )
        if not isinstance(self.writable, bool):
            raise PolicyError(f"policy.mounts: writable must be True or False, not {self.writable!r}", field="mounts")

    @classmethod
    def parse(cls, given: Any) -> Mount:
        """Accept a `Mount`, a mapping with its fields, or ``SOURCE:TARGET`` and ``SOURCE:TARGET:rw``."""
        if isinstance(given, Mount):
            return given
        if isinstance(given, str):
            source, _, rest = given.rpartition(":")
            writable = rest in ("rw", "ro")
            if writable:
                source, _, target = source.rpartition(":")
            else:
                target = rest
            if source:
                return cls(source, target, rest == "rw")
        elif isinstance(given, Mapping) and set(given) <= {"source", "target", "writable"} and len(given) >= 2:
            with suppress(TypeError):  # one of the two paths is not there
                return cls(**given)
        raise PolicyError(
            f"policy.mounts cannot hold {given!r:.80}",
            field="mounts",
            remedy="SOURCE:TARGET, SOURCE:TARGET:rw, or a mapping with source, target and writable",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionPolicy:
    """Limits and demands of a session. Immutable; `replace()` makes a changed copy."""

    timeout_ms: int = _setting(
        30_000, "Deadline of one call, queue and start included; bridge waits excluded.", minimum=1
    )
    grace_ms: int = _setting(1_000, "After the deadline: time to unwind before the kill.", minimum=0)
    total_timeout_ms: int = _setting(3_600_000, "Ceiling of one call, bridge waits included.", minimum=1)
    bridge_timeout_ms: int | None = _setting(
        300_000,
        "A host callback that takes longer is abandoned; None: it runs in the caller's thread and is waited for.",
        minimum=1,
    )
    max_bridge_calls: int = _setting(1_000, "Bridge calls in one cell, batch items counted singly.", minimum=0)
    max_concurrent: int = _setting(5, "Batch items under way at once.", minimum=1)
    max_output_length: int = _setting(50_000, "Characters kept of stdout, and of stderr.", minimum=0)
    stdout_max_bytes: int = _setting(2_000_000, "Ceiling of stdout in UTF-8 bytes, notice included.", minimum=0)
    stderr_max_bytes: int = _setting(2_000_000, "Ceiling of stderr in UTF-8 bytes, notice included.", minimum=0)
    value_max_bytes: int = _setting(16 * MIB, "Largest value that crosses the wall in one call, as JSON.", minimum=1)
    display_max_bytes: int = _setting(16 * MIB, "All displays of one cell together.", minimum=0)
    snapshot_max_bytes: int = _setting(1024 * MIB, "Largest snapshot.", minimum=1)
    memory_bytes: int | None = _setting(2048 * MIB, "Memory of the guest; None for no limit.", minimum=16 * MIB)
    workspace_bytes: int = _setting(256 * MIB, "Quota of a private workspace, and the largest single file.", minimum=1)
    processes: int = _setting(64, "Processes and threads of the guest (walls that can count them).", minimum=1)
    cpus: float | None = _setting(None, "CPUs that the guest may keep busy, 0.5 is half of one.", minimum=0.01)
    open_files: int = _setting(256, "File descriptors of the guest.", minimum=32)
    minimum_isolation: Isolation | None = _setting(None, "Weakest wall that is accepted; None: the backend's own.")
    fuel_budget: int | None = _setting(None, "Instructions a cell may use (backends that count them).", minimum=1)
    network: bool | None = _setting(None, "False demands a wall without network; None takes the backend's own.")
    deterministic: bool = _setting(False, "Fix clock, randomness and hash seed (backends that can).")
    protect_state: bool = _setting(False, "A killed cell returns to the state before it (backends that can).")
    preload: tuple[str, ...] | None = _setting(
        None, "Modules imported ahead of sessions (walls that fork them); None: the scientific stack; (): none."
    )
    packages: tuple[str, ...] = _setting(
        (), "Packages fetched for the guest, as for pip (walls that have none of the host's)."
    )
    mounts: tuple[Mount, ...] = _setting(
        (), "Folders and files of the host that the guest sees, read-only unless `writable` (walls with a view)."
    )
    environment: Mapping[str, str] = field(
        default_factory=dict,
        metadata={"doc": "Environment variables given to the guest, beside a short allow-list.", "minimum": None},
    )

    def __post_init__(self) -> None:
        for item in _fields():
            self._check(item)
        if self.minimum_isolation is not None:
            object.__setattr__(self, "minimum_isolation", _parse_isolation(self.minimum_isolation))

    def _check(self, item: dataclasses.Field[Any]) -> None:
        value = getattr(self, item.name)
        if value is item.default:
            return  # most of them are; this is done for every sandbox
        kind = str(item.type)
        if value is None and "None" in kind:
            return
        if kind.startswith(("int", "float", "bool")):
            _check_plain(item.name, kind, value, item.metadata["minimum"])
        elif item.name in _GATHERED:
            object.__setattr__(self, item.name, _GATHERED[item.name](value))

    def replace(self, **changes: Any) -> ExecutionPolicy:
        """A copy with some fields changed; an unknown field raises TypeError with the nearest name."""
        refuse_unknown(changes, self.field_names(), "policy field")
        return dataclasses.replace(self, **changes)

    def demands(self) -> tuple[str, ...]:
        """Names of the fields that were set and that only some backends can honour."""
        defaults = {item.name: item.default for item in _fields()}
        wanted = [name for name in _DEMANDS if getattr(self, name) != defaults[name]]
        if self.network is True:
            wanted.remove("network")  # every backend that has a network may be asked for it; refusal is the wall's
            wanted.append("network_access")
        return tuple(wanted)

    @classmethod
    def field_names(cls) -> tuple[str, ...]:
        """Names of all policy fields, in order."""
        return tuple(item.name for item in _fields())


def _check_plain(name: str, kind: str, value: Any, minimum: Any) -> None:
    if kind.startswith("bool"):
        if not isinstance(value, bool):
            _refuse(name, f"must be True or False, not {value!r}")
    elif kind.startswith("float"):
        if isinstance(value, bool) or not isinstance(value, int | float) or not minimum <= value <= MOST:
            _refuse(name, f"must be a number of at least {minimum}, not {value!r}")
    elif isinstance(value, bool) or not isinstance(value, int):
        _refuse(name, f"must be a whole number, not {value!r}")
    elif minimum is not None and value < minimum:
        _refuse(name, f"must be at least {minimum}, not {value}")
    elif value > MOST:
        _refuse(name, f"must be at most {MOST}")


def _parse_mounts(given: Any) -> tuple[Mount, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        _refuse("mounts", f"must be a list, not {given!r:.60}")
    mounts = tuple(map(Mount.parse, given))
    for index, mount in enumerate(mounts):
        for other in mounts[:index]:
            if (mount.target + "/").startswith(other.target + "/") or (other.target + "/").startswith(
                mount.target + "/"
            ):
                _refuse("mounts", f"cannot hold {mount.target} and {other.target}: they overlap")
    return mounts


def _parse_packages(given: Any) -> tuple[str, ...]:
    if not isinstance(given, (list, tuple)) or not all(isinstance(name, str) for name in given):
        _refuse("packages", f"must be a list of requirements, not {given!r:.60}")
    for name in given:
        if not name or name.startswith("-") or not name.isprintable():
            _refuse("packages", f"cannot hold {name!r:.60}: it is not a requirement")
    return tuple(given)


def _parse_preload(given: Any) -> tuple[str, ...]:
    if not isinstance(given, (list, tuple)) or not all(isinstance(name, str) for name in given):
        _refuse("preload", f"must be a list of module names, not {given!r:.60}")
    for name in given:
        if not name.isascii() or not all(part.isidentifier() and not iskeyword(part) for part in name.split(".")):
            _refuse("preload", f"cannot hold {name!r:.60}: it is not the name of a module")
    return tuple(given)


def _parse_environment(given: Any) -> dict[str, str]:
    if not isinstance(given, Mapping) or not all(isinstance(part, str) for pair in given.items() for part in pair):
        _refuse("environment", "must map names to strings")
    for name, text in given.items():
        if not name or "=" in name or "\0" in name + text:
            _refuse("environment", f"cannot hold {name!r}: no process can have such a variable")
    return dict(given)


def _refuse(name: str, why: str) -> NoReturn:
    raise PolicyError(f"policy.{name} {why}", field=name)


def _parse_isolation(value: Isolation | str | int) -> Isolation:
    try:
        return Isolation.parse(value)
    except (KeyError, ValueError):
        tiers = ", ".join(tier.name for tier in Isolation)
        raise PolicyError(
            f"policy.minimum_isolation {value!r} is not a tier", field="minimum_isolation", remedy=f"one of {tiers}"
        ) from None


_GATHERED: dict[str, Callable[[Any], Any]] = {
    "mounts": _parse_mounts,
    "packages": _parse_packages,
    "preload": _parse_preload,
    "environment": _parse_environment,
}
"""Fields of several values: checked, and copied, so that nobody changes them afterwards."""


@functools.cache
def _fields() -> tuple[dataclasses.Field[Any], ...]:
    """Of the policy; to ask a class for them is slow, and this is done for every sandbox."""
    return dataclasses.fields(ExecutionPolicy)


def refuse_unknown(given: Mapping[str, Any], known: tuple[str, ...], what: str) -> None:
    """Raise TypeError for the first name in `given` that is not `known`, with the nearest known one."""
    for name in given:
        if name not in known:
            import difflib

            near = difflib.get_close_matches(name, known, n=1) or [it for it in known if len(name) > 2 and name in it]
            hint = f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(known)}"
            raise TypeError(f"unknown {what} {name!r}{hint}")
