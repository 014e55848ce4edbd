"""Starting, stopping and looking at the daemon from outside."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from cloche.backends.daemon.link import Link
from cloche.backends.daemon.places import SOCKET_VARIABLE
from cloche.errors import ClocheError, MachineError
from cloche.session.processes import process_start

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cloche.backends.daemon.places import Places

START_PATIENCE = 60.0
STOP_PATIENCE = 20.0
PING_PATIENCE = 2.0
LOG_LIMIT = 1 << 20
COMMAND = (sys.executable, "-P", "-m", "cloche.daemon")
"""-P: nothing of the current folder is imported, which a guest may be able to write."""
FOLDER = "/"


@dataclass(frozen=True, slots=True)
class Status:
    """What is known of the daemon without trusting its files."""

    running: bool
    pid: int | None = None
    responsive: bool = False
    details: dict[str, Any] | None = None


def recorded_pid(places: Places) -> int | None:
    """The process that the pid file names, if it is still that process and not another with its number."""
    try:
        number, _, start = places.pid.read_text().strip().partition(" ")
        pid = int(number)
    except (OSError, ValueError):
        return None
    return pid if process_start(pid) is not None and str(process_start(pid)) == start else None


def status(places: Places, patience: float = PING_PATIENCE) -> Status:
    """Whether it runs, and whether it answers."""
    pid = recorded_pid(places)
    try:
        link = Link(places, patience)
    except ClocheError:
        return Status(pid is not None, pid)
    try:
        said, _, _ = link.call("stats", timeout=patience)
    except ClocheError:
        return Status(pid is not None, pid)
    finally:
        link.close()
    return Status(True, said.get("pid", pid), True, said)


def refuse_second(found: Status) -> None:
    """One daemon in one place."""
    if found.running:
        raise MachineError(
            f"a daemon is running already (pid {found.pid})" + ("" if found.responsive else ", but it does not answer"),
            remedy="cloche daemon status" if found.responsive else "cloche daemon stop --force",
        )


def environment(places: Places) -> dict[str, str]:
    """Of the daemon's process, which works in another folder than its caller."""
    return {**os.environ, SOCKET_VARIABLE: os.path.abspath(places.socket)}


def become(places: Places, arguments: Sequence[str]) -> NoReturn:
    """Be the daemon, in the place of this process."""
    os.chdir(FOLDER)
    command = [*COMMAND, *arguments]
    os.execve(command[0], command, environment(places))


def start(places: Places, arguments: Sequence[str]) -> int:
    """Start one in the background; returns its process when it answers, or says why it does not."""
    refuse_second(status(places))
    places.prepare()
    if places.log.exists() and places.log.stat().st_size > LOG_LIMIT:
        places.log.replace(places.log.with_suffix(".log.1"))
    ready, told = os.pipe()
    log = os.open(places.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        process = subprocess.Popen(
            [*COMMAND, "--ready", str(told), *arguments],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[told], start_new_session=True, cwd=FOLDER,
            env=environment(places),
        )  # fmt: skip
    finally:
        os.close(log)
        os.close(told)
    try:
        _wait_ready(ready, process, places)
    finally:
        os.close(ready)
    process.returncode = 0  # it is on its own now
    return process.pid


def _wait_ready(ready: int, process: subprocess.Popen[bytes], places: Places) -> None:
    poll = select.poll()
    poll.register(ready, select.POLLIN)
    if not poll.poll(START_PATIENCE * 1000):
        process.kill()
        process.wait()
        raise MachineError("the daemon did not come up in time", remedy="cloche daemon logs")
    said = os.read(ready, 4096).decode(errors="replace")
    if said != "ready":
        process.wait()
        raise MachineError("the daemon did not start", cause=said or last_words(places), remedy="cloche daemon logs")


def last_words(places: Places) -> str:
    """The end of its log."""
    try:
        lines = places.log.read_text(errors="replace").splitlines()
    except OSError:
        return "it left no word"
    # a traceback of several exceptions is drawn in a frame, whose last line says nothing
    said = [line for line in lines if line.strip(" |+-")]
    return said[-1].strip(" |")[:500] if said else "it left no word"


def stop(places: Places, *, force: bool = False) -> int | None:
    """End it: with time for its cells, or at once. Its process, or None when none ran."""
    pid = recorded_pid(places)
    if pid is None:
        return None
    handle = os.pidfd_open(pid)
    try:
        if recorded_pid(places) != pid:
            return None
        signal.pidfd_send_signal(handle, signal.SIGKILL if force else signal.SIGTERM)
        if not _ended(handle, STOP_PATIENCE):
            raise MachineError(
                f"the daemon (pid {pid}) did not end within {STOP_PATIENCE:g} s", remedy="cloche daemon stop --force"
            )
    finally:
        os.close(handle)
    if force:  # it could not tidy up
        for left in (places.socket, places.token, places.pid):
            left.unlink(missing_ok=True)
    return pid


def _ended(handle: int, patience: float) -> bool:
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    end = time.monotonic() + patience
    return bool(poll.poll(max(0.0, end - time.monotonic()) * 1000))
