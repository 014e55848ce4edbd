"""Copies of a guest between two requests: then no frame of it is live, and its memory is all that it is.

Only pages that differ from the compiled file are kept. A copy becomes a guest again in a fresh instance that has been
greeted as the first was, so that what WASI holds for it (its folders, its output) goes by the same numbers. Files that
the guest had open could not be given back; then no copy is made.
"""

from __future__ import annotations

import array
import ctypes
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cloche.backends.wasm.worker.memory import LinearMemory

_PAGEMAP = "/proc/self/pagemap"
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_ENTRY = 8
_PRESENT, _SWAPPED, _OF_FILE = 1 << 63, 1 << 62, 1 << 61
_MADV_DONTNEED = 4
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(slots=True)
class Image:
    """One copy."""

    size: int
    greeting: bytes
    """The request with which the session began."""
    total: int
    """Fuel that it had used by then."""
    slept: int
    runs: list[tuple[int, bytes]] = field(default_factory=list)
    """(offset, content) of what differs."""


def copy_memory(memory: LinearMemory, image: Image) -> None:
    """Take the pages that are the guest's own."""
    image.size = memory.size()
    with open(_PAGEMAP, "rb", buffering=0) as file:
        file.seek(memory.base // _PAGE * _ENTRY)
        entries = array.array("Q", file.read(image.size // _PAGE * _ENTRY))
    start = None
    for number, entry in enumerate([*entries, 0]):
        own = entry & (_PRESENT | _SWAPPED) and not entry & _OF_FILE
        if own and start is None:
            start = number
        elif not own and start is not None:
            image.runs.append((start * _PAGE, memory.read(start * _PAGE, (number - start) * _PAGE)))
            start = None


def restore_memory(memory: LinearMemory, image: Image) -> None:
    """Make this memory, which must be large enough, what that was."""
    if memory.size() < image.size:
        raise MemoryError("the copy does not fit")
    # Private pages of a file read as the file again, others as zeroes: what the compiled guest begins with.
    if _libc.madvise(ctypes.c_void_p(memory.base), ctypes.c_size_t(memory.size()), _MADV_DONTNEED):
        raise OSError(ctypes.get_errno(), "madvise")
    for offset, data in image.runs:
        memory.write(offset, data)
