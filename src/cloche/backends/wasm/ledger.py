"""What a worker tells its host about sessions without being asked: a page of memory that both have mapped.

A guest cannot write here, unlike on its wire. The worker writes before it sends a reply or closes a wire, so whoever
has seen either finds what belongs to it.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

SLOTS = 4096
"""Processes of one worker at a time."""
SIZE = 256
_FIELDS = struct.Struct("<QQQQIiH")  # fuel, memory, thread, copy, end, status, length of the text
_TEXT = SIZE - _FIELDS.size
_PROCESS = struct.Struct("<I")  # behind the lines: it is there before the session is, and after it
_WHOLE = SLOTS * (SIZE + _PROCESS.size)


class End(IntEnum):
    """How a session ended."""

    NOT = 0
    """It has not."""
    EXITED = 1
    """By its own will, with a status."""
    OUT_OF_FUEL = 2
    TRAPPED = 3
    """It did what no program may do, or ran out of stack; the text says which."""
    ENDED = 4
    """Because the host wanted it so."""
    FAILED = 5
    """It never began."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One session's line."""

    fuel: int = 0
    """What the user's code of the last cell has used."""
    memory: int = 0
    """Size of the guest's memory, which never shrinks."""
    thread: int = 0
    """The thread of the worker that runs it."""
    copy: int = 0
    """The number of the last copy that was made of it."""
    end: End = End.NOT
    status: int = 0
    text: str = ""


class Ledger:
    """One for each worker."""

    def __init__(self, descriptor: int) -> None:
        self._memory = mmap.mmap(descriptor, _WHOLE)

    @classmethod
    def create(cls) -> tuple[Ledger, int]:
        """A new one, and the descriptor that the worker is given."""
        descriptor = _unnamed_file()
        os.ftruncate(descriptor, _WHOLE)
        return cls(descriptor), descriptor

    def read(self, slot: int) -> Entry:
        """What is known of a session."""
        fuel, memory, thread, copy, end, status, length = _FIELDS.unpack_from(self._memory, slot * SIZE)
        start = slot * SIZE + _FIELDS.size
        text = self._memory[start : start + length].decode("utf-8", "replace") if length else ""
        return Entry(fuel, memory, thread, copy, End(end), status, text)

    def write(self, slot: int, entry: Entry) -> None:
        """Replace what is known. The text first: whoever sees an end must find its reason."""
        data = entry.text.encode("utf-8", "replace")[:_TEXT]
        start = slot * SIZE + _FIELDS.size
        self._memory[start : start + len(data)] = data
        values: tuple[Any, ...] = (
            entry.fuel, entry.memory, entry.thread, entry.copy, entry.end, entry.status, len(data),
        )  # fmt: skip
        _FIELDS.pack_into(self._memory, slot * SIZE, *values)

    def process(self, slot: int) -> int:
        """The process that writes to a line; 0 before it is known."""
        (found,) = _PROCESS.unpack_from(self._memory, SLOTS * SIZE + slot * _PROCESS.size)
        return int(found)

    def set_process(self, slot: int, pid: int) -> None:
        """Note it."""
        _PROCESS.pack_into(self._memory, SLOTS * SIZE + slot * _PROCESS.size, pid)

    def close(self) -> None:
        """Unmap it."""
        self._memory.close()


def _unnamed_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("cloche-ledger", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
