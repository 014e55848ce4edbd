"""How to interrupt CPython from outside: what its own signal handler would do, written into its memory.

A component cannot be called while it runs, and has no signals. But where CPython notes that one has come is in its
memory, at the same place in every session of a component: the interpreter was started when that was built. So the
places are found once, tried out, and kept with the compiled guest. The guest looks at them before each jump backwards
and then runs the handler that the kernel has set, as it does behind every other wall.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cloche.backends.wasm.worker.memory import LinearMemory

SIGNALS = {False: 2, True: 12}
"""SIGINT asks, SIGUSR2 insists."""
QUESTION = "import _signal\n[id(_signal.getsignal(2)), id(_signal.getsignal(12)), id(0), _signal.NSIG]"
"""A cell whose value tells where some objects are."""
_COOKIE = b"xdebugpy"
_WORD = 4
_HANDLER = 2 * _WORD  # (noted, handler) for each signal
_SIGNALS_PENDING = 2
_REACH = 1 << 16


@dataclass(frozen=True, slots=True)
class Trigger:
    """Places in the guest's memory."""

    handlers: int
    """A pair for each signal: whether it has come, and its handler."""
    tripped: int
    """Whether any has come."""
    breaker: int
    """What the interpreter looks at before a jump backwards."""

    def pull(self, memory: LinearMemory, *, insist: bool) -> None:
        """Note a signal. The guest must not be running at this moment."""
        memory.write_number(self.handlers + SIGNALS[insist] * _HANDLER, 1)
        memory.write_number(self.tripped, 1)
        memory.write_number(self.breaker, memory.number(self.breaker) | _SIGNALS_PENDING)


def find_trigger(memory: LinearMemory, answer: list[int]) -> Trigger | None:
    """The places, by what a guest answered to `QUESTION`. None where this CPython is not built as we know it."""
    ask, insist, zero, signals = answer
    image = memory.read(0, memory.size())
    runtime = image.find(_COOKIE)
    if runtime < 0:
        return None
    offsets = struct.unpack_from("<25Q", image, runtime + len(_COOKIE))
    interpreters_head, threads_head, interpreter_of_thread = offsets[4], offsets[8], offsets[24]
    pair = struct.pack("<I", ask)
    place = image.find(pair, runtime, runtime + _REACH)
    while place >= 0:
        handlers = place - _WORD - SIGNALS[False] * _HANDLER
        after = handlers + signals * _HANDLER
        if (
            _number(image, handlers + SIGNALS[True] * _HANDLER + _WORD) == insist
            and _number(image, after) == 0xFFFFFFFF  # no descriptor is to be woken
            and _number(image, after + 3 * _WORD) == zero  # the default handler
        ):
            interpreter = _number(image, runtime + interpreters_head)
            thread = _number(image, interpreter + threads_head)
            if _number(image, thread + interpreter_of_thread) != interpreter:
                return None
            return Trigger(handlers, after + 2 * _WORD, thread + interpreter_of_thread + _WORD)
        place = image.find(pair, place + 1, runtime + _REACH)
    return None


def _number(image: bytes, offset: int) -> int:
    return int.from_bytes(image[offset : offset + _WORD], "little")
