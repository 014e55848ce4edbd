"""What the machine asks its driver to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

Stream = Literal["stdout", "stderr"]


@dataclass(slots=True)
class Send:
    """Write these bytes to the wire, and then these chunks as the wire takes them."""

    data: bytes
    body: Iterable[bytes | memoryview] | None = None


@dataclass(slots=True)
class Interrupt:
    """Ask the guest to stop (`insist` False), or insist."""

    insist: bool


@dataclass(slots=True)
class Kill:
    """End the guest and everything it started."""


@dataclass(slots=True)
class CallBridge:
    """Run a host function and report with `Machine.bridge_done(key, ...)`."""

    key: int
    name: str
    args: list[Any]
    kwargs: dict[str, Any]


@dataclass(slots=True)
class AbandonBridge:
    """Nobody waits for this call any more."""

    key: int


@dataclass(slots=True)
class Emit:
    """Hand captured text to the listener."""

    stream: Stream
    text: str


@dataclass(slots=True)
class TakeFile:
    """Hand to the channel what the guest says of one of its files."""

    params: Any


Action = Send | Interrupt | Kill | CallBridge | AbandonBridge | Emit | TakeFile
