"""Things that only the C library can do. Where it cannot be reached, they are left undone."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PR_SET_DUMPABLE = 4
PR_CAPBSET_DROP = 24
CAP_SYS_PTRACE = 19
CAPABILITY_VERSION = 0x20080522
NO_BUFFER = 2


def write_c_output_at_once() -> None:
    """What C code prints would otherwise lie in a buffer that nobody empties at the end of a cell."""
    try:
        import ctypes

        library = ctypes.CDLL(None)
        for name in ("stdout", "stderr"):
            stream = ctypes.c_void_p.in_dll(library, name)
            library.setvbuf(stream, None, NO_BUFFER, ctypes.c_size_t(0))
    except Exception:  # no ctypes, or another C library: its output comes late
        pass


def let_others_look(may: bool) -> None:
    """Whether processes of the same user may look into this one: its descriptors, its memory. Linux has it."""
    if sys.platform != "linux":
        return
    try:
        import ctypes

        library: Any = ctypes.CDLL(None)
        library.prctl(PR_SET_DUMPABLE, int(may), 0, 0, 0)
    except Exception:  # no ctypes: what matters is out of the other process all the same
        pass


def give_up_looking() -> None:
    """Without the right of the superuser to look into every process, even those that do not let others look."""
    if sys.platform != "linux":
        return
    try:
        import ctypes

        library: Any = ctypes.CDLL(None)
        library.prctl(PR_CAPBSET_DROP, CAP_SYS_PTRACE, 0, 0, 0)
        head = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
        sets = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable ones, low half first
        if library.capget(head, sets) == 0:
            for index in range(3):
                sets[index] &= ~(1 << CAP_SYS_PTRACE)
            library.capset(head, sets)
    except Exception:  # as above
        pass
