"""`ioctl`, `fcntl` and `setsockopt` by option: what ordinary programs use works, nothing else gets to the kernel."""

from __future__ import annotations

import os

import pytest
from tests.jail.sessions import jail, value

import cloche

ORDINARY = """
import array, asyncio, fcntl, os, socket, subprocess, termios
one, other = socket.socketpair()
one.setblocking(False)
one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
one.settimeout(5)
other.send(b"four")
waiting = array.array("i", [0])
fcntl.ioctl(one, termios.FIONREAD, waiting)
os.set_inheritable(one.fileno(), True)
with open("locked", "w") as handle:
    fcntl.lockf(handle, fcntl.LOCK_EX)
    flags = fcntl.fcntl(handle, fcntl.F_GETFL)
    fcntl.fcntl(handle, fcntl.F_SETFL, flags | os.O_NONBLOCK)
    os.posix_fadvise(handle.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
reader, writer = os.pipe()
fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 8192)
copied = subprocess.run(["cp", "locked", "copied"]).returncode
async def add():
    process = await asyncio.create_subprocess_exec("true")
    return await process.wait()
(waiting[0], os.isatty(1), copied, asyncio.run(add()))
"""
TRIED = """
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
def ask(*words):
    ctypes.set_errno(0)
    libc.syscall(*[ctypes.c_long(word) for word in words])
    return errno.errorcode.get(ctypes.get_errno(), "0")
IOCTL, FCNTL, SETSOCKOPT = 16, 72, 54
options = {
    "ENOTTY": [(IOCTL, -1, number, 1) for number in range(0x5400, 0x5480) if number not in KNOWN],
    "EPERM": [(FCNTL, -1, number, 1) for number in (8, 10, 12, 13, 15, 17, 1024, 1026, 1029, 1036, 1038, 5000)]
    + [(SETSOCKOPT, -1, 1, number, 1, 4) for number in (26, 27, 44, 50, 51, 52)] + [(SETSOCKOPT, -1, 6, 1, 1, 4)],
}
[words for expected, calls in options.items() for words in calls if ask(*words) != expected]
"""
KNOWN = {0x5401, 0x540F, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451}


@pytest.fixture(params=["sealed", "confined"])
def session(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> cloche.SessionSandbox:
    """A session of either kind of wall."""
    if request.param == "sealed":
        return jail()
    if os.getuid() == 0:
        from tests.ordinary_user import readable_interpreter

        python = readable_interpreter()
        if python is None:
            pytest.skip("no interpreter here that every user can read")
    else:
        python = None
    monkeypatch.setenv("CLOCHE_MASK_LAYERS", "namespaces")
    return jail(python=None if python is None else str(python))


def test_what_ordinary_programs_ask_of_descriptors_works(session: cloche.SessionSandbox) -> None:
    with session:
        assert value(session, ORDINARY) == "(4, False, 0, 0)"


def test_what_is_not_on_the_lists_never_gets_to_the_kernel(session: cloche.SessionSandbox) -> None:
    with session:
        assert value(session, TRIED.replace("KNOWN", repr(KNOWN))) == "[]"
