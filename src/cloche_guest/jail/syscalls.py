"""Linux system calls that Python does not offer. The only module that uses `foreign`; every failure is an OSError.

The interpreter's lock is kept: these calls are short, and several must not be torn apart by another thread.
"""

from __future__ import annotations

import posix as os  # a part of it: `os` would cost the start of a zygote a millisecond
import sys

from cloche_guest.jail import foreign

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_REC, MS_PRIVATE = 16384, 1 << 18
MNT_DETACH = 2

_PR_SET_DUMPABLE = 4
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_LAST_CAPABILITY = 40

_SECCOMP_SET_MODE_FILTER = 1
_SECCOMP_NEW_LISTENER = 8

_MADV_HUGEPAGE = 14
_MADV_COLLAPSE = 25
_NOBODY = 0xFFFFFFFF
_LARGE_PAGE = 2 << 20

# Numbers that differ between machines; the newer ones (from 424 on) are the same everywhere.
_NUMBERS = {
    "x86_64": {"capset": 126, "seccomp": 317},
    "aarch64": {"capset": 91, "seccomp": 277},
}
_PIDFD_OPEN, _PIDFD_SEND_SIGNAL = 434, 424
_CLOSE_RANGE = 436

_libc = foreign.Library()
_library: Any = None


def machine() -> str:
    """The architecture, as the kernel names it."""
    return os.uname().machine


def number_of(name: str) -> int:
    """The number of a system call on this machine."""
    try:
        return _NUMBERS[machine()][name]
    except KeyError:
        raise OSError(38, "no system call numbers for this architecture", machine()) from None


def _check(result: int, what: str) -> int:
    if result < 0:
        code = foreign.get_errno()
        raise OSError(code, os.strerror(code), what)
    return result


def _words(size: int, *numbers: int) -> bytes:
    """Numbers as C has them, each of so many bytes. `struct` would cost the start of a zygote half a millisecond."""
    return b"".join(number.to_bytes(size, sys.byteorder) for number in numbers)


def pack(form: str, *values: Any) -> bytes:
    """`struct.pack`, which is not imported where nothing but `enter` and `fork_away` is used."""
    import struct

    return struct.pack(form, *values)


def _encode(path: str) -> bytes:
    return path.encode(sys.getfilesystemencoding(), "surrogateescape")


def call(what: str, number: int, *args: Any) -> int:
    """A system call by its number; `what` names it in the error."""
    plain = [foreign.c_long(value) if isinstance(value, int) else value for value in args]
    return _check(_libc.syscall(foreign.c_long(number), *plain), what)


def use_library(path: str) -> None:
    """Load the steps that follow a fork. Raises OSError where the library is made for another C library than this
    interpreter's."""
    global _library
    _library = foreign.Library(path)
    _library.cloche_failed_step = _library.text_function("cloche_failed_step")


def enter(
    seat: int,
    namespaces: int,
    lines: list[int],
    below: bool,
    landlock: bool,
    user: int,
    limits: list[tuple[int, int]],
    program: bytes,
    refusals: bytes,
) -> None:
    """All that a worker does before it runs guest code, in one call. See ``native/confine.c``."""
    amounts = _words(8, *(number for limit in limits for number in limit))
    confinement = _words(4, below, landlock, user, 0) + _words(
        8, foreign.address_of(amounts), len(limits), len(program) // 8, foreign.address_of(program),
        len(refusals) // 8, foreign.address_of(refusals),
    )  # fmt: skip
    _check_library(_library.cloche_enter(seat, namespaces, _words(4, *lines), confinement))


def gather_heap() -> None:
    """Before the imports that all sessions share: keep what they allocate together, so that it fits large pages."""
    if _library is not None:
        arena = 1 << 20 if sys.version_info >= (3, 10) else 256 << 10
        _check_library(_library.cloche_gather_heap(foreign.c_size_t(arena)))


def settle_heap() -> None:
    """After them: make large pages of all memory that can be. Then a fork copies, and an exit takes apart, a fraction
    of the page tables. Kernels before 6.1 refuse, and where memory is in pieces it stays as it is."""
    if _library is not None:
        _check_library(_library.cloche_settle_heap())
    with open("/proc/self/maps") as handle:
        mappings = [line.split() for line in handle]
    for place, rights, _, _, inode, *name in mappings:
        if rights == "rw-p" and inode == "0" and (not name or name == ["[heap]"]):
            first, end = (int(number, 16) for number in place.split("-"))
            first, end = -(-first // _LARGE_PAGE) * _LARGE_PAGE, end // _LARGE_PAGE * _LARGE_PAGE
            if first < end:
                _libc.madvise(foreign.c_void_p(first), foreign.c_size_t(end - first), _MADV_COLLAPSE)


def blank_text(length: int, width: int, highest: int) -> tuple[str, memoryview]:
    """A new text, and the memory in which its characters belong, which is to be filled before the text is looked at.

    Asks for large pages before there are any: then a fork copies a page table of a few entries, whatever the length.
    """
    text: str = _libc.object_function("PyUnicode_New")(foreign.c_long(length), foreign.c_uint(highest))
    size = length * width
    start = id(text) + sys.getsizeof(text) - size - width  # the characters and a terminator come last
    first, end = -(-start // _LARGE_PAGE) * _LARGE_PAGE, (start + size) // _LARGE_PAGE * _LARGE_PAGE
    if first < end:
        _libc.madvise(foreign.c_void_p(first), foreign.c_size_t(end - first), _MADV_HUGEPAGE)
    return text, foreign.memory_at(start, size)


def _check_library(result: int) -> int:
    return result if result >= 0 else _check(result, _library.cloche_failed_step().decode())


def unshare(flags: int) -> None:
    """Leave these namespaces for new ones."""
    _check(_libc.unshare(foreign.c_int(flags)), "unshare")


def setns(descriptor: int, flags: int) -> None:
    """Enter the namespaces of a process (by pidfd) or one namespace (by its file)."""
    _check(_libc.setns(foreign.c_int(descriptor), foreign.c_int(flags)), "setns")


def pidfd_open(pid: int) -> int:
    """A handle of a process (`os.pidfd_open` came with 3.9)."""
    return call("pidfd_open", _PIDFD_OPEN, pid, 0)


def pidfd_send_signal(descriptor: int, number: int) -> None:
    """Signal the process of a handle."""
    call("pidfd_send_signal", _PIDFD_SEND_SIGNAL, descriptor, number, None, 0)


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    """mount(2)."""
    text = [None if value is None else _encode(value) for value in (source, target, kind)]
    extra = None if data is None else data.encode()
    _check(_libc.mount(*text, foreign.c_ulong(flags), extra), "mount " + target)


def unmount(target: str) -> None:
    """Detach a mount at once."""
    _check(_libc.umount2(_encode(target), MNT_DETACH), "umount " + target)


def close_from(first: int) -> None:
    """Close every descriptor from `first` on."""
    call("close_range", _CLOSE_RANGE, first, 0xFFFFFFFF, 0)


def drop_capabilities() -> None:
    """Give all capabilities up for good."""
    for capability in range(_LAST_CAPABILITY + 1):
        _libc.prctl(_PR_CAPBSET_DROP, foreign.c_ulong(capability), 0, 0, 0)
    _libc.prctl(_PR_CAP_AMBIENT, foreign.c_ulong(_PR_CAP_AMBIENT_CLEAR_ALL), 0, 0, 0)
    call("capset", number_of("capset"), pack("Ii", 0x20080522, 0), bytes(24))


def set_file_user(uid: int, gid: int) -> None:
    """Open and make files as this user, in the calling thread only. Rights over others' files go with root's id."""
    _libc.setfsgid(foreign.c_uint(gid))
    _libc.setfsuid(foreign.c_uint(uid))
    # They never fail, but for doing nothing. Nobody has the number -1: being asked for it, they tell who we are.
    now = [ask(foreign.c_uint(_NOBODY)) & _NOBODY for ask in (_libc.setfsgid, _libc.setfsuid)]
    if now != [gid, uid]:
        raise PermissionError(1, "files cannot be touched as user %d, group %d" % (uid, gid))


def set_dumpable(value: bool) -> None:
    """Whether others of the same user may look into this process."""
    _check(_libc.prctl(_PR_SET_DUMPABLE, foreign.c_ulong(int(value)), 0, 0, 0), "prctl DUMPABLE")


def no_new_privileges() -> None:
    """No program that is executed from here on can gain privileges."""
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, foreign.c_ulong(1), 0, 0, 0), "prctl NO_NEW_PRIVS")


def adopt_orphans() -> None:
    """Become the parent of all descendants whose own parent has ended."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, foreign.c_ulong(1), 0, 0, 0), "prctl CHILD_SUBREAPER")


def install_filter(program: bytes, *, listener: bool = True) -> int:
    """Load a seccomp program. With `listener`: the descriptor on which calls that somebody must approve are told."""
    head = pack("HP", len(program) // 8, foreign.address_of(program))
    flags = _SECCOMP_NEW_LISTENER if listener else 0
    return call("seccomp", number_of("seccomp"), _SECCOMP_SET_MODE_FILTER, flags, head)


def stand_apart() -> None:
    """One more Landlock domain for this process: it can look into nobody who was forked from it before. Where it has
    none, nothing is done."""
    _check_library(_library.cloche_stand_apart())


def fork_away(namespaces: list[tuple[int, int]], key: int) -> int:
    """Fork a copy of this process into these namespaces (descriptor, kind), entering which PID 1 approves by `key`. Its
    number here; 0 in the copy, which leads a session of its own.

    The copy is no child of ours: the process between us enters the namespaces for it and ends, so it belongs to the
    PID 1 above us, which outlives us and hears of its end.
    """
    flat = [number for pair in namespaces for number in pair]
    return _check_library(_library.cloche_fork_away(_words(4, *flat), len(namespaces), foreign.c_long(key)))
