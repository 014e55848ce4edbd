"""A world without chance: clocks that count the user's instructions, and numbers that are the same in every session."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from wasmtime.component import Linker

VERSION = "0.2.9"
"""Of the interfaces that componentize-py builds against."""
BIRTH = 946_684_800
"""Where the clock begins: the first second of the year 2000."""
FUEL_PER_NANOSECOND = 5
"""About what a processor does; a clock has to run at some speed."""
SECOND = 1_000_000_000


@dataclass(slots=True)
class DateTime:
    """As ``wasi:clocks/wall-clock`` has it."""

    seconds: int
    nanoseconds: int


class Chance:
    """A stream of bytes that is always the same."""

    def __init__(self) -> None:
        self._block = 0
        self._left = b""

    def take(self, count: int) -> bytes:
        """The next `count` bytes."""
        parts = [self._left]
        size = len(self._left)
        while size < count:
            parts.append(hashlib.sha256(b"cloche %d" % self._block).digest())
            size += len(parts[-1])
            self._block += 1
        data = b"".join(parts)
        self._left = data[count:]
        return data[:count]


def add_virtual_world(linker: Linker, function: Callable[[str], Callable[..., Any]]) -> None:
    """Put functions of the session in the place of WASI's. An interface is replaced as a whole, or not at all."""
    linker.allow_shadowing = True
    interfaces = {
        f"wasi:random/random@{VERSION}": {
            "get-random-bytes": "random_bytes",
            "get-random-u64": "random_number",
        },
        f"wasi:clocks/wall-clock@{VERSION}": {"now": "wall_clock", "resolution": "wall_clock_resolution"},
        f"wasi:clocks/monotonic-clock@{VERSION}": {
            "now": "monotonic_clock",
            "resolution": "monotonic_clock_resolution",
            "subscribe-instant": "no_timer",
            "subscribe-duration": "no_timer",
        },
    }
    with linker.root() as root:
        for interface, functions in interfaces.items():
            with root.add_instance(interface) as instance:
                for name, method in functions.items():
                    instance.add_func(name, function(method))
