"""Canaries: things of the host's that a cell must not reach, and a look at each afterwards."""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

from cloche.escapes.neighbour import Neighbours

if TYPE_CHECKING:
    from collections.abc import Callable

ENVIRONMENT_NAME = "CLOCHE_CANARY_KEY"
PATIENCE = 10.0
_CLOCK_JUMP = 5.0
_GUARD = """
import ctypes, os, resource, signal, sys
held = ctypes.create_string_buffer(sys.argv[1].encode())
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))
def look():
    limits = [resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")]
    waiting = sorted(int(number) for number in signal.sigpending())
    return waiting, held.value, limits, os.getpriority(os.PRIO_PROCESS, 0), os.sched_getaffinity(0)
before = look()
print(ctypes.addressof(held), flush=True)
for line in sys.stdin:
    print("intact" if look() == before else "touched", flush=True)
"""
"""The canary process: blocks what can be blocked, and tells on request whether a signal waits, or its memory, limits,
priority or processors changed."""


class Effect(Enum):
    """What happened to the host."""

    WRITTEN = "written"
    """A file outside the workspace was made, changed or removed."""
    SECRET = "secret"
    """Something secret (of a file, the environment, the memory) came back with the results."""
    CONNECTED = "connected"
    """A service of the host got a connection or a packet."""
    TOUCHED = "touched"
    """Another process of the host was signalled, stopped, ended or changed."""
    SEEN = "seen"
    """Another process of the host was seen."""
    SURVIVED = "survived"
    """Something still runs after the sandbox is gone."""
    STATE = "state"
    """Host name, clock, mounts or control group of the host changed."""
    STARVED = "starved"
    """The host can no longer get what a guest took all of, or holds."""
    EXHAUSTED = "exhausted"
    """The host's user can no longer get something of the kernel's that is counted by user or by machine."""
    STUCK = "stuck"
    """The host waits for ever for something that the guest prepared."""
    NEIGHBOUR = "neighbour"
    """A session beside lost or changed something: variables, files, its process, its deadline or its speed."""


class Canaries:
    """A set of canaries; a context manager. `look()` tells what happened and puts everything right again."""

    def __init__(self) -> None:
        self.token = "canary" + secrets.token_hex(8)
        self._marks = {kind: f"{kind}-{secrets.token_hex(12)}" for kind in ("file", "environment", "memory", "process")}

    def __enter__(self) -> Self:
        self.neighbours = Neighbours()
        """Sessions beside those that techniques run in."""
        self._ended: list[subprocess.Popen[bytes]] = []
        self.folder = Path(tempfile.mkdtemp(prefix="cloche-canary-"))
        self.file = self.folder / "ledger.txt"
        self.secret_file = self.folder / "secret.txt"
        self.shared = self._share()
        self._repair_folder()
        self.descriptor = os.open(self.file, os.O_RDWR | os.O_APPEND)
        os.set_inheritable(self.descriptor, True)  # as careless programs do
        os.environ[ENVIRONMENT_NAME] = self._marks["environment"]
        self.memory = bytearray(self._marks["memory"].encode())
        """Held by the host's process, and nowhere else."""
        self._tcp = socket.create_server(("127.0.0.1", 0))
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind(("127.0.0.1", 0))
        self._unix = socket.socket(socket.AF_UNIX)
        self._unix.bind(str(self.folder / "service"))
        self._datagrams = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._datagrams.bind(str(self.folder / "datagrams"))
        self._abstract = socket.socket(socket.AF_UNIX)
        self._abstract.bind("\0" + self.token)
        for server in (self._unix, self._abstract):
            server.listen()
        self._start_guard()
        self._before = self._picture()
        self._state, self._offset = _state(), _clock_offset()
        return self

    def __exit__(self, *_: object) -> None:
        self.neighbours.close()
        self._end_guard()
        for guard in self._ended:
            guard.wait(PATIENCE)
        for server in (self._tcp, self._udp, self._unix, self._datagrams, self._abstract):
            server.close()
        os.close(self.descriptor)
        os.environ.pop(ENVIRONMENT_NAME, None)
        for path in (*self._strays(), *([self.shared] if self.shared is not None else [])):
            path.unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def addresses(self, neighbour: int | None = None) -> dict[str, Any]:
        """What a cell is told: where everything is, but none of the secrets. `neighbour`: the process beside."""
        return {
            "token": self.token,
            "folder": str(self.folder),
            "file": str(self.file),
            "secret": str(self.secret_file),
            "descriptor": self.descriptor,
            "variable": ENVIRONMENT_NAME,
            "tcp": self._tcp.getsockname()[1],
            "udp": self._udp.getsockname()[1],
            "unix": str(self.folder / "service"),
            "datagrams": str(self.folder / "datagrams"),
            "shared": None if self.shared is None else str(self.shared),
            "segment": int(self.token[-7:], 16),
            "abstract": self.token,
            "pid": self._guard.pid,
            "pointer": self._pointer,
            "host_pid": os.getpid(),
            "neighbour": neighbour,
        }

    def lookup(self, name: object = "") -> str:
        """A tool for the guest: harmless to call, and bound to an object that holds a secret."""
        return f"{len(self.memory)} characters, {str(name)[:40]!r}"

    def preamble(self, neighbour: int | None = None) -> str:
        """The line that tells a cell."""
        return f"canary = __import__('json').loads({json.dumps(self.addresses(neighbour))!r})\n"

    def look(self, said: str, *, starved: bool = False) -> frozenset[Effect]:
        """What happened, by the canaries and by what the guest `said`; then everything is as it was."""
        effects = set()
        if self._written():
            effects.add(Effect.WRITTEN)
        if any(self._marks[kind] in said for kind in ("file", "environment", "memory")):
            effects.add(Effect.SECRET)
        if self._marks["process"] in said:
            effects.add(Effect.SEEN)
        if self._visited():
            effects.add(Effect.CONNECTED)
        if not self._guard_is_intact():
            effects.add(Effect.TOUCHED)
            self._end_guard()
            self._start_guard()
        state, offset = _state(), _clock_offset()
        if state != self._state or abs(offset - self._offset) > _CLOCK_JUMP:
            effects.add(Effect.STATE)
        self._state, self._offset = state, offset
        if starved and self._is_starved():
            effects.add(Effect.STARVED)
        return frozenset(effects)

    def survivors(self) -> list[int]:
        """Processes that carry our token; they are ended."""
        found = []
        for entry in os.listdir("/proc"):
            if not entry.isdigit() or int(entry) in (os.getpid(), self._guard.pid):
                continue
            try:
                words = Path("/proc", entry, "cmdline").read_bytes() + Path("/proc", entry, "environ").read_bytes()
            except OSError:
                continue
            if b"stray-" + self.token.encode() in words:
                found.append(int(entry))
                os.kill(int(entry), signal.SIGKILL)
        return found

    def _repair_folder(self) -> None:
        for entry in self.folder.iterdir():
            if entry.name not in ("service", "datagrams", self.file.name, self.secret_file.name):
                shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        for path, text in ((self.file, "nothing happened\n"), (self.secret_file, self._marks["file"])):
            path.write_text(text)
            path.chmod(0o600)
        with suppress(OSError):  # not every file system has them
            os.setxattr(self.secret_file, "user.secret", self._marks["file"].encode())
        self._before = self._picture()

    def _share(self) -> Path | None:
        """A file of the host's user in the interpreter's folder, which guests can read; where we can make one."""
        path = Path(sys.prefix) / f"canary-{self.token}.txt"
        try:
            path.unlink(missing_ok=True)  # and with it what is kept beside its content
            path.write_text("to be read\n")
            path.chmod(0o644)
        except OSError:
            return None
        return path

    def _picture(self) -> dict[str, Any]:
        """Every file with its content, rights and times."""
        paths = [*self.folder.iterdir(), *([self.shared] if self.shared is not None and self.shared.exists() else [])]
        return {path.name: (path.read_bytes() if path.is_file() else None, *_marks_of(path)) for path in paths}

    def _strays(self) -> list[Path]:
        """Files that a cell left in the interpreter's folder or in shared memory."""
        found = [path for folder in (sys.prefix, "/dev/shm") for path in Path(folder).glob(f"*{self.token}*")]
        return [path for path in found if path != self.shared]

    def _written(self) -> bool:
        strays = self._strays()
        for path in strays:
            path.unlink()
        changed = self._picture() != self._before
        if changed:
            self.shared = self._share()
            self._repair_folder()
        return changed or bool(strays) or _remove_segment(int(self.token[-7:], 16))

    def _visited(self) -> bool:
        """Whether anybody came. A connection waits in the queue until it is taken."""
        visited = False
        servers = [self._tcp, self._udp, self._unix, self._datagrams, self._abstract]
        while ready := select.select(servers, [], [], 0)[0]:
            visited = True
            for server in ready:
                if server.type == socket.SOCK_DGRAM:
                    server.recv(1024)
                else:
                    server.accept()[0].close()
        return visited

    def _is_starved(self) -> bool:
        """Whether an ordinary program of ours can still get what every program needs, and what nobody else should."""
        watch = ctypes.CDLL(None).inotify_init1(0)
        if watch < 0:
            return True
        os.close(watch)
        try:
            subprocess.run(["/bin/true"], check=True)
            with socket.socket(socket.AF_UNIX) as free:
                free.bind("\0" + self.token + "-free")
            if self.shared is not None:
                os.close(os.open(self.shared, os.O_WRONLY | os.O_NONBLOCK))  # would wait for who has a lease on it
        except (OSError, subprocess.SubprocessError):
            return True
        return False

    def _start_guard(self) -> None:
        self._guard = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _GUARD, self._marks["process"]],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0,
            start_new_session=True,
        )  # fmt: skip
        self._pointer = int(self._answer() or 0)

    def _guard_is_intact(self) -> bool:
        question: IO[bytes] = self._guard.stdin  # type: ignore[assignment]  # it is a pipe
        try:
            question.write(b"?\n")
        except OSError:
            return False
        return self._answer() == "intact"

    def _answer(self) -> str | None:
        """None: it does not answer, because it was ended or stopped."""
        answers: IO[bytes] = self._guard.stdout  # type: ignore[assignment]  # it is a pipe
        status = Path("/proc", str(self._guard.pid), "status")
        end = time.monotonic() + PATIENCE
        while not select.select([answers], [], [], 0.05)[0]:
            stopped = "\nstate:\tt" in status.read_text().lower()  # T: by a signal, t: by a debugger
            if stopped or time.monotonic() > end:
                return None
        return answers.readline().decode().strip() or None

    def _end_guard(self) -> None:
        """Ended at once, waited for at the end: while a debugger holds it, its parent cannot see it go."""
        self._guard.kill()
        for pipe in (self._guard.stdin, self._guard.stdout):
            if pipe is not None:
                pipe.close()
        self._ended.append(self._guard)


def _state() -> tuple[Any, ...]:
    """What a guest could change about the machine: its name, our mounts, our control group."""
    return (
        socket.gethostname(),
        Path("/proc/self/mountinfo").read_bytes(),
        Path("/proc/self/cgroup").read_bytes(),
    )


def _clock_offset() -> float:
    """Stays the same unless somebody sets the clock."""
    return time.time() - time.monotonic()


def _marks_of(path: Path) -> tuple[Any, ...]:
    """What belongs to a file beside its content."""
    status = path.lstat()
    common = (status.st_mode, status.st_nlink, status.st_uid, status.st_mtime_ns)
    if not path.is_file():
        return common
    with path.open("rb") as handle:
        return (*common, *(_answer_to(ask, handle, number, bytes(size)) for ask, number, size in _FILE_QUESTIONS))


_FILE_QUESTIONS = ((fcntl.ioctl, 0x80086601, 8), (fcntl.ioctl, 0x80087601, 8), (fcntl.fcntl, 1035, 8))
"""Its flags, its version, and the hint about how its blocks are written."""


def _answer_to(ask: Callable[[Any, int, bytes], Any], handle: IO[bytes], number: int, room: bytes) -> Any:
    try:
        return ask(handle, number, room)
    except OSError:  # not every file system has them
        return None


def _remove_segment(key: int) -> bool:
    """Whether there was a System V segment of this key."""
    table = Path("/proc/sysvipc/shm")
    rows = [line.split() for line in table.read_text().splitlines()[1:]] if table.exists() else []
    found = [int(row[1]) for row in rows if int(row[0]) == key]
    for number in found:
        ctypes.CDLL(None).shmctl(number, 0, None)
    return bool(found)
