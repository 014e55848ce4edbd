"""How a confined worker gives up what it must not have, and the proof that this kernel holds it to that."""

from __future__ import annotations

import os
import socket
import sys

from cloche_guest.jail import landlock, messages, syscalls, worker
from cloche_guest.jail.confined_filter import build_confined_filter
from cloche_guest.jail.places import DEVICES, SYSTEM, SYSTEM_FILES
from cloche_guest.jail.shared_user import build_shared_user_filter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from cloche_guest.jail.prepared import PreparedSession

_PROC_FILES = (
    "auxv", "cmdline", "comm", "environ", "fd", "fdinfo", "io", "limits", "maps", "mem", "smaps", "stat", "statm",
    "status",
)  # fmt: skip
"""Of the process itself. Not its folder as a whole: `net` in it shows the connections of the host."""
_EBUSY = 16
_ZERO = "/dev/zero"


def run(
    session: PreparedSession, options: dict[str, Any], trees: list[str], lines: list[int], groups: list[int]
) -> None:
    """Be the worker of a session. Never returns."""

    def go_in() -> None:
        worker.join(groups)
        enter(options, trees, lines, memfd=bool(groups))

    worker.serve_behind(go_in, session, options)


def allowed_paths(options: dict[str, Any], trees: list[str], *, memfd: bool) -> list[tuple[str, int]]:
    """What a guest may open, and for what: system and interpreter to read, its own folders to do as it likes."""
    written = [path for path in DEVICES if memfd or path != _ZERO]  # to write to a mapping of it is shared memory
    read = [path for path in (*SYSTEM, *SYSTEM_FILES, *trees) if os.path.exists(path)]
    rules = [(path, landlock.rights_on(path, landlock.READ)) for path in read]
    rules += [(path, landlock.READ_FILE | landlock.WRITE_FILE) for path in written if os.path.exists(path)]
    rules.append((_ZERO, landlock.READ_FILE))
    rules.append(("/proc/self", landlock.READ_FOLDER))
    rules += [
        ("/proc/self/" + name, landlock.READ_FILE) for name in _PROC_FILES if os.path.exists("/proc/self/" + name)
    ]
    rules += [(path, landlock.ALL_BUT_NODES) for path in options["folders"]]
    return rules


def prove() -> None:
    """Put a child behind Landlock and the filter and have it try what they must stop. Raises what is missing."""
    service = socket.socket(socket.AF_UNIX)
    name = b"\0cloche-" + os.urandom(8).hex().encode()
    service.bind(name)
    service.listen(1)
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            said = _try_everything(name)
        except BaseException as exc:
            said = "%s: %s" % (type(exc).__name__, exc)
        os.write(writer, said.encode()[:4000] or b"held")
        os._exit(0)
    os.close(writer)
    said = os.read(reader, 4096).decode()
    os.close(reader)
    os.waitpid(pid, 0)
    service.close()
    if said != "held":
        raise OSError(95, said or "the trial ended early")


def _try_everything(name: bytes) -> str:
    """In the child: '' when all was stopped."""
    parent = os.getppid()
    landlock.restrict([])
    attempts: list[tuple[str, Callable[[], object]]] = [
        ("Landlock does not keep files", lambda: os.open("/proc/%d/environ" % parent, os.O_RDONLY)),
        ("Landlock does not keep signals inside (version 6 is needed)", lambda: os.kill(parent, 0)),
        ("Landlock does not keep abstract sockets inside (version 6 is needed)", lambda: _connect(name)),
    ]
    program = build_confined_filter(syscalls.machine(), listener=False, memfd=False)
    for what, attempt in attempts:
        if _succeeds(attempt):
            return what
    syscalls.drop_capabilities()
    syscalls.install_filter(program, listener=False)
    return "seccomp does not stop a call" if _succeeds(lambda: socket.socket(socket.AF_UNIX)) else ""


def _succeeds(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except PermissionError:
        return False
    return True


def _connect(name: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(name)


def enter(options: dict[str, Any], trees: list[str], lines: list[int], *, memfd: bool) -> None:
    """Give up everything that is not needed. The order matters at every step."""
    os.setpgid(0, 0)  # nothing that it starts can leave this group: see the filter
    worker.arrange_descriptors(lines)
    os.chdir(options["workspace"])
    # its keeper reads names in its memory, and nobody else of its user is meant to be kept out
    syscalls.set_dumpable(True)
    landlock.restrict(allowed_paths(options, trees, memfd=memfd))
    worker.limit(options)
    syscalls.drop_capabilities()
    _install_filter(memfd=memfd)
    # without namespaces all guests of a process share one user
    syscalls.install_filter(build_shared_user_filter(syscalls.machine()), listener=False)
    worker.adapt_modules(memfd=memfd, shared=True)
    _forget_places()


def _install_filter(*, memfd: bool) -> None:
    """With somebody who sets rights and times of files for us; where another has that place already, without."""
    try:
        listener = syscalls.install_filter(build_confined_filter(syscalls.machine(), listener=True, memfd=memfd))
    except OSError as exc:
        if exc.errno != _EBUSY:
            raise
        program = build_confined_filter(syscalls.machine(), listener=False, memfd=memfd)
        syscalls.install_filter(program, listener=False)
        os.close(worker.INNER)
        return
    with socket.socket(fileno=worker.INNER) as line:
        messages.send(line, {"listener": True}, [listener])
    os.close(listener)


def _forget_places() -> None:
    """The zygote's folder for temporary files is not the session's."""
    tempfile = sys.modules.get("tempfile")
    if tempfile is not None:
        tempfile.tempdir = None  # type: ignore[attr-defined]  # a module like any other
