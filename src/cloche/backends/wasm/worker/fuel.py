"""Who pays for the instructions of a request: the user for the cell, and the kernel for its own work up to a limit.

The user's code runs between two marks of the kernel, and can set marks itself: both are in one guest. So a mark never
gives out fuel that was not there before. A request has the user's budget and the kernel's allowance and no more,
whoever spends them, and what the kernel seems to have used beyond its allowance is counted as the user's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wasmtime import Store

UNLIMITED = 1 << 62
CELL = 100_000_000
"""Fuel of the kernel's own work for a cell, about twenty milliseconds: a long traceback takes half of it."""
CELL_PER_CHARACTER = 20_000
"""More of it for each character of the request: the kernel compiles it."""
REQUEST = 2_000_000_000
"""Fuel for what is no cell, such as a snapshot: nobody knows how much there is to do. Time bounds it as well."""
REQUEST_PER_CHARACTER = 100_000
HOST_CALL = 50_000
"""What a call of a host function costs a guest: about what it costs the host."""
CHARACTERS_PER_FUEL = 4
"""What is sent to the host costs it time for each of them."""

RANDOM_BYTE = 100
"""Of a deterministic session; they are hashes."""


class FuelMeter:
    """Counts the fuel of one session's requests."""

    def __init__(self, store: Store, budget: int | None) -> None:
        self._store = store
        self._budget = budget
        self._granted = 0  # what the store was last given
        self._spent = 0  # by then
        self._kernel = 0  # what its own work may take
        self._begin = 0  # spent when the user's code began
        self._end = 0  # spent when it ended
        self.marks = 0

    def begin(self, kernel: int) -> None:
        """A request begins, for which the kernel's own work may take so much."""
        self.marks = self._begin = self._end = 0
        self._kernel = kernel
        self._give(UNLIMITED if self._budget is None else self._budget + kernel, 0)

    def mark(self) -> None:
        """The user's code begins, or has ended. Only the first two of a request count."""
        self.marks += 1
        if self.marks > 2:
            return
        spent = self.spent
        if self.marks == 1:
            self._begin = spent
            if self._budget is not None:
                # what the kernel has left is put aside until the user's code has ended
                self._give(max(0, self._budget - max(0, spent - self._kernel)), spent)
        else:
            self._end = spent
            if self._budget is not None:
                self._give(self._store.get_fuel() + max(0, self._kernel - self._begin), spent)

    def charge(self, amount: int) -> None:
        """Take fuel for work that the host did because the guest wanted it."""
        left = self._store.get_fuel()
        taken = min(amount, left)
        self._give(left - taken, self.spent + taken)

    @property
    def spent(self) -> int:
        """All of it, since the request began."""
        left: int = self._store.get_fuel()
        return self._spent + self._granted - left

    @property
    def used(self) -> int:
        """The user's part. Where there are marks that are not the kernel's, all of it."""
        spent = self.spent
        if self.marks > 2:
            return spent
        cell = 0
        if self.marks:
            cell = (self._end if self.marks == 2 else spent) - self._begin
        return cell + max(0, spent - cell - self._kernel)

    @property
    def used_at_end(self) -> int:
        """The user's part where there is none left. An honest kernel does not run out: without one, all of it."""
        return self.used if self.marks == 1 else self.spent

    def _give(self, amount: int, spent: int) -> None:
        self._store.set_fuel(amount)
        self._granted, self._spent = amount, spent
