"""The bytes that one session may have under way: calls that wait for the host, and answers that wait for the guest."""

from __future__ import annotations

from dataclasses import dataclass, field

from cloche_guest.values import COST_PER_BYTE

FRAMES_AT_ONCE = 2
"""Frames of the largest size that may be under way in one direction."""
PER_CALL = 2048
"""What a call takes beside its arguments."""
PER_THREAD = 1 << 16
"""What a thread takes whose host function has been given up and does not return."""


@dataclass(slots=True)
class GivenUpCalls:
    """Host functions that a session has given up and that have not returned: their arguments are still in memory.

    They outlive the guest that called them, so a session has one of these and each of its guests uses it.
    """

    bytes: int = 0


@dataclass(slots=True)
class Budget:
    """What one guest has under way. `limit` holds for each direction.

    Towards the host: while `calls` and the frame that is being read come to the limit, the wire is not read. Towards
    the guest: while `unsent` is above it, no host function is started. A frame that is larger than what is left waits
    until it is alone; one that is larger than `max_cost` is refused.
    """

    max_frame: int
    calls: int = 0
    unsent: int = 0
    given_up: GivenUpCalls = field(default_factory=GivenUpCalls)
    limit: int = field(init=False)
    """Bytes that may be under way in one direction."""
    max_cost: int = field(init=False)
    """Bytes of memory that a single frame may take."""

    def __post_init__(self) -> None:
        self.limit = self.max_frame * FRAMES_AT_ONCE
        self.max_cost = self.max_frame * COST_PER_BYTE

    def fits(self, cost: int) -> bool:
        """Whether a frame may be decoded now."""
        return self.calls == 0 or self.calls + cost <= self.limit

    @property
    def takes_calls(self) -> bool:
        """Whether host functions may be started: the guest takes its answers."""
        return self.unsent < self.limit

    @property
    def given_up_too_much(self) -> bool:
        """Whether functions that do not return hold as much as all calls of a guest may."""
        return self.given_up.bytes >= self.limit
