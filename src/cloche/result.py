"""What a cell did: the one value that every door returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from types import MappingProxyType
from typing import Any, Literal

from cloche.errors import CodeError, ExecutionError, ExecutionTimeoutError
from cloche.isolation import Isolation

Outcome = Literal["ok", "error", "timeout", "cancelled", "out_of_fuel", "memory", "exited", "killed"]
SessionState = Literal["kept", "restored", "reset"]

EXIT_CODES: Mapping[str, int] = MappingProxyType(
    {"ok": 0, "error": 1, "timeout": 124, "out_of_fuel": 125, "cancelled": 130, "memory": 137, "killed": 137}
)


_SHOWN_LENGTH = 200
_NOT_SHOWN = frozenset({"exception", "layers", "usage", "metadata", "code", "workspace_path", "memory_used_bytes"})
"""In `repr`: what is told by another field, or is there for programs."""


@dataclass(frozen=True, slots=True)
class ExceptionInfo:
    """An exception as the guest reported it: text only, bounded."""

    type: str
    message: str
    line: int | None
    traceback: str


@dataclass(frozen=True, slots=True)
class Display:
    """One rich output: a MIME bundle. Text types are `str`, binary types are `bytes`."""

    data: Mapping[str, str | bytes]
    id: str | None = None
    """The name that code gave it (`display_id`), by which a later one replaces it."""

    def __repr__(self) -> str:
        return f"Display({', '.join(self.data)})"

    def __contains__(self, mime: str) -> bool:
        return mime in self.data


@dataclass(frozen=True, slots=True)
class Usage:
    """What the call cost."""

    cpu_ms: float | None = None
    bridge_calls: int = 0
    bridge_ms: float = 0.0
    stdout_bytes: int = 0
    stderr_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxResult:
    """The result of one cell. A cell that was accepted always has one, however it ended."""

    outcome: Outcome
    stdout: str = ""
    stderr: str = ""
    error: str | None = None
    exception: ExceptionInfo | None = None
    exit_code: int = 0
    duration_ms: float = 0.0
    fuel_consumed: int | None = None
    memory_used_bytes: int | None = None
    files_created: tuple[str, ...] = ()
    files_modified: tuple[str, ...] = ()
    files_deleted: tuple[str, ...] = ()
    workspace_path: str | None = None
    value: str | None = None
    displays: tuple[Display, ...] = ()
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    session_state: SessionState = "kept"
    isolation: Isolation = Isolation.NONE
    layers: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)
    guidance: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    code: str = ""
    stdin: str | None = None
    """What the cell was given to read from standard input."""

    def __repr__(self) -> str:
        """What is worth a look: fields that say something, long texts by their beginnings."""
        shown = []
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name in _NOT_SHOWN or value == each.default or value is None:
                continue
            if isinstance(value, str) and len(value) > _SHOWN_LENGTH:
                text = f"{value[:_SHOWN_LENGTH]!r}... ({len(value)} characters)"
            elif isinstance(value, float):
                text = f"{value:.1f}"
            else:
                text = value.name if isinstance(value, Isolation) else repr(value)
            shown.append(f"{each.name}={text}")
        return f"SandboxResult({', '.join(shown)})"

    @property
    def success(self) -> bool:
        """True when the code ran to its end."""
        return self.outcome == "ok"

    @property
    def duration(self) -> float:
        """Same as `duration_ms`."""
        return self.duration_ms

    def check(self) -> SandboxResult:
        """Return self when the code succeeded, raise otherwise."""
        if self.outcome == "ok" or (self.outcome == "exited" and self.exit_code == 0):
            return self
        message = self.error or f"the code ended with outcome {self.outcome!r}"
        if self.outcome == "timeout":
            raise ExecutionTimeoutError(message, result=self, remedy=self.guidance)
        if self.outcome == "error":
            raise CodeError(message, result=self, remedy=self.guidance)
        raise ExecutionError(message, result=self, remedy=self.guidance)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: binary displays are base64 text."""
        import base64

        plain = {name: getattr(self, name) for name in self.__slots__}
        plain["isolation"] = self.isolation.name
        plain["exception"] = asdict(self.exception) if self.exception else None
        plain["usage"] = asdict(self.usage)
        plain["metadata"] = dict(self.metadata)
        plain["success"] = self.success
        plain["displays"] = [
            {
                mime: base64.b64encode(data).decode("ascii") if isinstance(data, bytes) else data
                for mime, data in display.data.items()
            }
            for display in self.displays
        ]
        return plain


CodeExecution = SandboxResult
"""The name that the REPL specification uses for the same type."""
