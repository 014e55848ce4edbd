"""What a state is made of: pieces of bytes, none of them copied without need, each known by its digest."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

PIECE = 1 << 22
"""Bytes: what differs from the last save is sent in units of this."""

LARGE = 1 << 16
"""What a pickler writes at once from here on is a value of the user's, and is sent from where it lies."""

LANES = 2


class Stream:
    """A file for a pickler."""

    def __init__(self) -> None:
        self._parts: list[Any] = []
        self._small = bytearray()
        self.marks = 0  # at least as many as there are objects that the pickler remembers

    def write(self, data: Any) -> int:
        """Keep what is large where it lies; gather what is small."""
        size = len(data)
        if size >= LARGE and data[:1] != b"\x95":  # a frame of the pickler's own
            self._flush()
            self._parts.extend(cut(memoryview(data).cast("B")))
            return size
        self.marks += data.count(b"\x94")
        self._small += data
        if len(self._small) >= PIECE:
            self._flush()
        return size

    def pieces(self) -> list[Any]:
        """All that was written, in order."""
        self._flush()
        return self._parts

    def _flush(self) -> None:
        if self._small:
            self._parts.append(memoryview(self._small))
            self._small = bytearray()


def cut(view: memoryview) -> list[memoryview]:
    """A view of bytes in pieces."""
    if len(view) <= PIECE:
        return [view]
    return [view[start : start + PIECE] for start in range(0, len(view), PIECE)]


def digests(pieces: list[Any]) -> list[str]:
    """The digest of each piece. Hashing leaves the interpreter free, so that two may go on side by side."""
    from hashlib import sha256

    found = [""] * len(pieces)

    def work(first: int, step: int) -> None:
        for number in range(first, len(pieces), step):
            found[number] = sha256(pieces[number]).hexdigest()

    if sum(map(len, pieces)) < 2 * PIECE:
        work(0, 1)
    else:
        _side_by_side(work)
    return found


def _side_by_side(work: Callable[[int, int], None]) -> None:
    from _thread import allocate_lock, start_new_thread

    done = allocate_lock()
    done.acquire()

    def other() -> None:
        try:
            work(1, LANES)
        finally:
            done.release()

    try:
        start_new_thread(other, ())
    except RuntimeError:  # no threads here, or no more of them
        work(0, 1)
        return
    try:
        work(0, LANES)
    finally:
        done.acquire()
