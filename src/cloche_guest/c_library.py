"""Things that only the C library can do."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PR_SET_DUMPABLE = 4
PR_CAPBSET_READ = 23
PR_CAPBSET_DROP = 24
CAP_SYS_PTRACE = 19
LOOKING = 1 << CAP_SYS_PTRACE
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
    except (ImportError, OSError, AttributeError, ValueError):  # no ctypes, or another C library: its output comes late
        pass


def let_others_look(may: bool) -> None:
    """Whether processes of the same user may look into this one: its descriptors, its memory.

    Raises OSError where that cannot be said.
    """
    _control(_linux_library(), PR_SET_DUMPABLE, int(may))


def give_up_looking() -> None:
    """Without the right of the superuser to look into every process, even those that do not let others look.

    It holds for this process and all that it starts from now on. Raises OSError where they keep the right.
    """
    library = _linux_library()
    import ctypes
    import posix

    head = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable ones, low half first
    _check("capget", library.capget(head, sets))
    # A program that the superuser runs has all of the bounding set again. Who is neither the superuser nor able to
    # become one may not change that set, and need not.
    if (any(sets) or 0 in posix.getresuid()) and _control(library, PR_CAPBSET_READ, CAP_SYS_PTRACE):
        _control(library, PR_CAPBSET_DROP, CAP_SYS_PTRACE)
    if any(sets[index] & LOOKING for index in range(3)):
        for index in range(3):
            sets[index] &= ~LOOKING
        _check("capset", library.capset(head, sets))


def _linux_library() -> Any:
    """Functions of the C library by their names. Raises OSError where there are none, or not those of Linux."""
    if sys.platform != "linux":
        raise OSError("only Linux has it")
    try:
        import ctypes
    except ImportError as exc:
        raise OSError("this interpreter has no ctypes") from exc
    return ctypes.CDLL(None, use_errno=True)


def _control(library: Any, option: int, argument: int) -> int:
    import ctypes

    nothing = ctypes.c_ulong(0)
    return _check("prctl", library.prctl(option, ctypes.c_ulong(argument), nothing, nothing, nothing))


def _check(name: str, returned: int) -> int:
    if returned < 0:
        import ctypes
        import posix

        raise OSError(ctypes.get_errno(), "%s: %s" % (name, posix.strerror(ctypes.get_errno())))
    return returned
