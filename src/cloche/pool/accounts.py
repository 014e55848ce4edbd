"""What each owner uses, and how much of it they may."""

from __future__ import annotations

import time
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from cloche.errors import PolicyError, QuotaError

if TYPE_CHECKING:
    from cloche.policy import ExecutionPolicy
    from cloche.result import SandboxResult


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerQuota:
    """What one owner may use. None: as much as there is."""

    sessions: int | None = None
    """Open at once, those set aside included."""
    memory_bytes: int | None = None
    """Of all live sessions together, by what their policies allow them."""
    cpu_ms: int | None = None
    """In one window."""
    output_bytes: int | None = None
    """In one window."""
    bridge_calls: int | None = None
    """In one window."""
    window_ms: int = 3_600_000

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if value is not None and (type(value) is not int or value < (1 if item.name == "window_ms" else 0)):
                raise PolicyError(f"{item.name} must be a whole number or None, not {value!r:.40}", field=item.name)


class Account:
    """One owner's use of the pool."""

    def __init__(self, owner: str, quota: OwnerQuota) -> None:
        self.owner = owner
        self.quota = quota
        self.sessions = 0
        self.memory_bytes = 0
        self.cpu_ms = 0.0
        self.output_bytes = 0
        self.bridge_calls = 0
        self._window_began = time.monotonic()

    def open_session(self, policy: ExecutionPolicy) -> None:
        """Refuse, or count one more."""
        wanted = policy.memory_bytes or 0
        if self.quota.sessions is not None and self.sessions >= self.quota.sessions:
            raise QuotaError(
                f"this owner has {self.sessions} sessions, which is all that its quota allows",
                quota="sessions",
                remedy="close one, or raise the quota",
            )
        if self.quota.memory_bytes is not None:
            if policy.memory_bytes is None:
                raise QuotaError(
                    "a session without a limit on memory cannot be counted against this owner's quota",
                    quota="memory_bytes",
                    remedy="set policy.memory_bytes",
                )
            if self.memory_bytes + wanted > self.quota.memory_bytes:
                raise QuotaError(
                    f"this owner's sessions may use {self.quota.memory_bytes} bytes together; "
                    f"{self.memory_bytes} are taken and {wanted} more are wanted",
                    quota="memory_bytes",
                    remedy="close a session, or lower policy.memory_bytes",
                )
        self.sessions += 1
        self.memory_bytes += wanted

    def close_session(self, policy: ExecutionPolicy) -> None:
        """One less."""
        self.sessions -= 1
        self.memory_bytes -= policy.memory_bytes or 0

    def check(self) -> None:
        """Before a cell: is anything left?"""
        self._turn_window()
        for name in ("cpu_ms", "output_bytes", "bridge_calls"):
            limit, used = getattr(self.quota, name), getattr(self, name)
            if limit is not None and used >= limit:
                left = self.quota.window_ms / 1000 - (time.monotonic() - self._window_began)
                raise QuotaError(
                    f"this owner has used {used:.0f} of {limit} {name}",
                    quota=name,
                    remedy=f"try again in {max(left, 0):.0f} s, or raise the quota",
                )

    def charge(self, result: SandboxResult) -> None:
        """After a cell."""
        self._turn_window()
        usage = result.usage
        # what the guest says of itself is bounded by what it cannot deny: the time that passed
        self.cpu_ms += usage.cpu_ms if usage.cpu_ms is not None else result.duration_ms
        self.output_bytes += usage.stdout_bytes + usage.stderr_bytes
        self.bridge_calls += usage.bridge_calls

    def _turn_window(self) -> None:
        now = time.monotonic()
        if now - self._window_began >= self.quota.window_ms / 1000:
            self._window_began = now
            self.cpu_ms, self.output_bytes, self.bridge_calls = 0.0, 0, 0

    @property
    def idle(self) -> bool:
        """Nothing is open, and nothing is owed: it can be forgotten."""
        self._turn_window()
        return not self.sessions and not (self.cpu_ms or self.output_bytes or self.bridge_calls)
