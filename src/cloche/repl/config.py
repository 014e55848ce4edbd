"""How a workbench behaves, and how its output is put before a model."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from cloche.errors import PolicyError

if TYPE_CHECKING:
    from typing import Self

Guard = Literal["enforce", "warn", "off"]
GUARDS = ("enforce", "warn", "off")
MOST = 2**40


@dataclass(frozen=True, slots=True)
class REPLConfig:
    """Settings of a `REPLEnvironment`. A wrong one raises `PolicyError`, which names the field."""

    timeout_seconds: float = 600
    """For one turn, its wait for models and tools not counted. Ten minutes: documents take their time."""
    output_cap: int = 8192
    """Characters of a turn's output. What is longer is stored whole, and a summary takes its place."""
    spill_dir: str | None = None
    """Where long outputs are stored; None: in a private folder that goes with the environment."""
    spill_quota_bytes: int = 256 * 1024 * 1024
    """The oldest outputs give way."""
    max_grep_results: int = 100
    require_exploration_before_final: bool = False
    min_exploration_calls: int = 1
    """Successful looks before FINAL, where they are required."""
    parallel_tools: bool = True
    """Independent read-only calls of one turn run side by side."""
    guard: Guard = "enforce"
    """The guard-rails, a linter for the model: refuse what they find, say it, or do not look. They are no wall."""
    roots: tuple[str, ...] = ()
    """Folders that `peek`, `grep`, `list_dir` and `file_info` may see, beside the workspace and stored outputs."""
    sanitize_unicode: bool = True
    """Repair characters that models copy into code that does not compile."""
    redact: bool = True
    """Mask keys, tokens and passwords in whatever a model is shown."""

    def __post_init__(self) -> None:
        _check_number(self, "timeout_seconds", above=0)
        for name in ("output_cap", "spill_quota_bytes", "max_grep_results"):
            _check_number(self, name, above=0, whole=True)
        _check_number(self, "min_exploration_calls", above=-1, whole=True)
        for name in ("require_exploration_before_final", "parallel_tools", "sanitize_unicode", "redact"):
            if not isinstance(getattr(self, name), bool):
                raise _wrong(self, name, "True or False")
        if self.guard not in GUARDS:
            raise _wrong(self, "guard", f"one of {', '.join(GUARDS)}")
        if self.spill_dir is not None:
            object.__setattr__(self, "spill_dir", _folder(self, "spill_dir", self.spill_dir))
        roots: Any = self.roots
        if isinstance(roots, str | bytes) or not isinstance(roots, Iterable):
            raise _wrong(self, "roots", "a list of folders")
        object.__setattr__(self, "roots", tuple(_folder(self, "roots", root) for root in roots))

    @classmethod
    def general(cls, **settings: Any) -> Self:
        """For work other than documents: two minutes a turn."""
        return cls(**{"timeout_seconds": 120, **settings})

    @classmethod
    def from_mapping(cls, settings: dict[str, Any]) -> Self:
        """Settings by name; one that does not exist raises `PolicyError` with the nearest that does."""
        known = [one.name for one in dataclasses.fields(cls)]
        for name in settings:
            if name not in known:
                import difflib

                near = difflib.get_close_matches(name, known, 1)
                raise PolicyError(
                    f"REPLConfig has no field {name!r:.60}",
                    field=str(name),
                    remedy=f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}",
                )
        return cls(**settings)


@dataclass(frozen=True, slots=True)
class PromptConfig:
    """How much of a stored output is put before a model."""

    max_output_preview: int = 1500
    """Characters of a summary with its head and its footer."""
    summary_lines: int = 10
    summary_tokens: int = 512
    """What the model that summarises may answer."""

    def __post_init__(self) -> None:
        for name in ("max_output_preview", "summary_lines", "summary_tokens"):
            _check_number(self, name, above=0, whole=True)


def _check_number(config: Any, name: str, *, above: float, whole: bool = False) -> None:
    value = getattr(config, name)
    kinds = int if whole else int | float
    if isinstance(value, bool) or not isinstance(value, kinds) or not above < value <= MOST:
        raise _wrong(config, name, f"a {'whole ' if whole else ''}number above {above}")


def _folder(config: Any, name: str, value: Any) -> str:
    if not isinstance(value, str | os.PathLike) or not os.fspath(value) or "\0" in str(value):
        raise _wrong(config, name, "a path", value)
    return os.path.abspath(os.path.expanduser(os.fspath(value)))


def _wrong(config: Any, name: str, wanted: str, value: Any = None) -> PolicyError:
    given = getattr(config, name) if value is None else value
    return PolicyError(f"{type(config).__name__}.{name} must be {wanted}, not {given!r:.60}", field=name)
