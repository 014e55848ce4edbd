"""The memory of a running guest, as its worker sees it: where it lies, how large it is, what is in it.

wasmtime has no function for that where components are concerned. But it maps the image of a guest's memory from the
compiled file, so the system's list of mappings tells where the memory begins. Where there is no such list, nothing
here works, and what is built on it is not offered.
"""

from __future__ import annotations

import ctypes
import os
import sys

PAGE = 65536
MOST = 1 << 32
"""No guest can address more."""
_MAPS = "/proc/self/maps"


class _Part(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class LinearMemory:
    """One guest's memory. It never moves, and never shrinks."""

    def __init__(self, base: int, size: int) -> None:
        self.base = base
        self._size = size

    def size(self) -> int:
        """In bytes, by now."""
        if _readable(self.base + self._size):
            step = PAGE
            while _readable(self.base + self._size + step) and self._size + step < MOST:
                step *= 2
            low, high = self._size + step // 2, self._size + step
            while high - low > PAGE:
                middle = (low + high) // 2 // PAGE * PAGE
                low, high = (middle, high) if _readable(self.base + middle) else (low, middle)
            self._size = high
        return self._size

    def read(self, offset: int, length: int) -> bytes:
        """A part of it, which must be there."""
        return ctypes.string_at(self.base + offset, length)

    def number(self, offset: int) -> int:
        """A 32-bit number."""
        return int.from_bytes(self.read(offset, 4), "little")

    def write(self, offset: int, data: bytes) -> None:
        """Overwrite a part of it, which must be there."""
        ctypes.memmove(self.base + offset, data, len(data))

    def write_number(self, offset: int, value: int) -> None:
        self.write(offset, value.to_bytes(4, "little"))


class Mappings:
    """Finds the memories of guests by their mappings of the compiled file."""

    def __init__(self, compiled: str) -> None:
        self._name = b" " + os.fsencode(compiled) + b"\n"
        self._taken: set[int] = set()

    def take_newest(self) -> LinearMemory | None:
        """The memory of the guest that was made last: the one that is not known yet."""
        try:
            with open(_MAPS, "rb", buffering=0) as file:
                text = file.readall()
        except OSError:
            return None
        at = text.find(self._name)
        while at >= 0:
            row = text.rfind(b"\n", 0, at) + 1
            span = _private_span(text[row:at])
            if span is not None:
                base, end = _extent(text, row, at + len(self._name), *span)
                if base not in self._taken:
                    self._taken.add(base)
                    return LinearMemory(base, end - base)
            at = text.find(self._name, at + 1)
        return None

    def give_back(self, memory: LinearMemory) -> None:
        """It has been unmapped, and another may be mapped there."""
        self._taken.discard(memory.base)


def _private_span(line: bytes) -> tuple[int, int] | None:
    """Where a mapping begins and ends, if it is private and writable."""
    span, rights = line.split(b" ", 2)[:2]
    if rights != b"rw-p":
        return None
    start, _, end = span.partition(b"-")
    return int(start, 16), int(end, 16)


def _extent(text: bytes, row: int, after: int, start: int, end: int) -> tuple[int, int]:
    """All of the writable memory around a mapping: what lies before the image, and what was added behind it."""
    while row:
        above = text.rfind(b"\n", 0, row - 1) + 1
        span = _private_span(text[above : row - 1])
        if span is None or span[1] != start:
            break
        row, start = above, span[0]
    while after < len(text):
        below = text.find(b"\n", after)
        span = _private_span(text[after:below])
        if span is None or span[0] != end:
            break
        after, end = below + 1, span[1]
    return start, end


def _readable(address: int) -> bool:
    """Whether one may read there."""
    return _peek(address, 1) is not None


def _peek(address: int, length: int) -> bytes | None:
    """What is there; asked of the system, which answers without a fault where there is nothing."""
    buffer = ctypes.create_string_buffer(length)
    ours, theirs = _Part(ctypes.addressof(buffer), length), _Part(address, length)
    copied: int = _libc.process_vm_readv(os.getpid(), ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0)
    return buffer.raw if copied == length else None


_libc = ctypes.CDLL(None)
if sys.platform == "linux":
    _libc.process_vm_readv.restype = ctypes.c_ssize_t
    _libc.process_vm_readv.argtypes = (
        ctypes.c_int, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong,
    )  # fmt: skip
