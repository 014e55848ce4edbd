"""How many processes and threads a confined session has: counted by its keeper, before each one is made.

The system's own limit counts all of a user's, whichever session they belong to: one session could take what is left
of it from all others.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable


class TaskQuota:
    """Counts what is allowed, and looks how much of it is left when that comes to the limit."""

    def __init__(self, most: int, count: Callable[[], int]) -> None:
        """`count` looks at all that the session has. It takes its time."""
        self._most = most
        self._count = count
        self._known = 1

    def allows(self) -> bool:
        """Whether there can be one more; then it counts."""
        if self._known >= self._most:
            self._known = self._count()
        if self._known >= self._most:
            return False
        self._known += 1
        return True

    def begin_again(self) -> None:
        """There is only a new worker."""
        self._known = 1
