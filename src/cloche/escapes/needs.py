"""What any program of a user may need of the kernel: asked of the host's user and of a neighbour, one thing each.

The cells in ``resources`` try to use one of these up. Whether they did is not for them to say: afterwards the host's
user and a session beside are asked again for all of it.
"""

from __future__ import annotations

import json
import subprocess
import sys

NEEDS = """
def _needs():
    import os
    def get(need):
        try:
            return bool(need())
        except Exception:
            return False
    def library():
        import ctypes
        return ctypes.CDLL(None, use_errno=True)
    def closed(number):
        if number >= 0:
            os.close(number)
        return number >= 0
    def process():
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        return os.waitpid(pid, 0)[1] == 0
    def signal():
        import signal
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [41])
        try:
            sent = library().sigqueue(os.getpid(), 41, 0) == 0
            while 41 in signal.sigpending():
                signal.sigtimedwait([41], 0)
            return sent
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    def timer():
        import ctypes
        place = ctypes.c_void_p()
        made = library().timer_create(1, None, ctypes.byref(place)) == 0
        return made and library().timer_delete(place) == 0
    def passing():
        import array, _socket
        one, other = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_DGRAM)
        try:
            one.sendmsg([b"x"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", [0]))])
            got = other.recvmsg(1, 64)[1]
            return closed(int.from_bytes(got[0][2][:4], "little"))
        finally:
            one.close()
            other.close()
    def pipe():
        reader, writer = os.pipe()
        try:
            return os.write(writer, bytes(4096)) == 4096
        finally:
            os.close(reader)
            os.close(writer)
    def epoll():
        import select
        with select.epoll() as watch:
            reader, writer = os.pipe()
            try:
                watch.register(reader)
            finally:
                os.close(reader)
                os.close(writer)
        return True
    def key():
        number = library().syscall(248, b"user", b"cloche-need", b"x", 1, -2)
        return number >= 0 and library().syscall(250, 9, number, -2, 0, 0) == 0
    def queue():
        name = b"cloche-need-%d" % os.getpid()
        number = library().syscall(240, name, 0o102, 0o600, None)
        return closed(number) and library().syscall(241, name) == 0
    def segment():
        number = library().shmget(0, 4096, 0o1600)
        return number >= 0 and library().shmctl(number, 0, None) == 0
    def shared():
        import tempfile
        with tempfile.TemporaryFile(dir="/dev/shm") as file:
            return file.write(bytes(4096)) == 4096
    def locked():
        import fcntl, tempfile
        with tempfile.TemporaryFile() as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    def terminal():
        return [closed(number) for number in os.openpty()]
    def namespace():
        pid = os.fork()
        if pid == 0:
            os._exit(library().unshare(0x10000000) != 0)
        return os.waitpid(pid, 0)[1] == 0
    def port():
        import socket
        with socket.create_server(("127.0.0.1", 0)):
            return True
    def name():
        import socket
        with socket.socket(socket.AF_UNIX) as service:
            service.bind("\\0" + NAME)
            return True
    def entropy():
        return len(os.getrandom(16, os.GRND_NONBLOCK)) == 16
    return {
        "a process": get(process), "a queued signal": get(signal), "a timer": get(timer),
        "to pass a descriptor": get(passing), "a pipe": get(pipe), "epoll": get(epoll),
        "inotify": get(lambda: closed(library().inotify_init1(0))), "a key": get(key), "a message queue": get(queue),
        "a segment": get(segment), "shared memory": get(shared), "a lock": get(locked), "a terminal": get(terminal),
        "a namespace": get(namespace), "a port": get(port), "a name": get(name), "random numbers": get(entropy),
        "an open file": get(lambda: closed(os.open("/dev/null", os.O_RDONLY))),
    }
"""
"""Defines `_needs`: by name, whether each can be had now. Leaves nothing behind. `NAME` is a name for a socket."""

_PATIENCE = 20


def needs_of_user(name: str, uid: int | None = None, python: str = sys.executable) -> dict[str, bool]:
    """What a new program of the host's user (as root: of this one, who can read that interpreter) can get."""
    code = f"NAME = {name!r}\n{NEEDS}\nimport json\nprint(json.dumps(_needs()))"
    try:
        done = subprocess.run(
            [python, "-I", "-S", "-c", code], capture_output=True, text=True, timeout=_PATIENCE, user=uid, check=False
        )
        found: dict[str, bool] = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return {}
    return found


def missing(before: dict[str, bool], now: dict[str, bool]) -> list[str]:
    """What could be had before, and cannot now."""
    return [need for need, had in before.items() if had and not now.get(need)]
