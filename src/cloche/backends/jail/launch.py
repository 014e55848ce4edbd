"""Starting a jail: its process, its lines, and what it is told first.

Light to import, and everything else that a first session needs can be imported while the jail comes up: in a new
process both take about as long.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

from cloche.backends.jail.outside_users import outside_users
from cloche.backends.jail.programs import MISSING, REMEDY, Programs, programs
from cloche.backends.jail.spawning import Child
from cloche.errors import BackendUnavailableError
from cloche_guest.jail import messages

if TYPE_CHECKING:
    from cloche.backends.interpreter import Interpreter

STOP_PATIENCE = 5.0
DEBUG_VARIABLE = "CLOCHE_JAIL_DEBUG"
"""Set: what the jail's own processes complain about is shown."""
ZYGOTE_ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/run/cloche/home",
    "TMPDIR": "/run/cloche/tmp",
    "PWD": "/app",
    "LANG": "C.UTF-8",
    "MPLBACKEND": "Agg",
    "MPLCONFIGDIR": "/run/cloche/home",
    # a fork takes the one thread that calls it; libraries must not have started others
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


class Launch:
    """A jail that was started. It has not said anything yet."""

    def __init__(self, interpreter: Interpreter, preload: tuple[str, ...], *, confined: bool = False) -> None:
        """`confined`: without namespaces (see `tiers.Mode`)."""
        self.interpreter = interpreter
        self.preload = preload
        self.confined = confined
        self.owner = os.getpid()
        self.user = outside_users.jail
        """Of its own processes."""
        self.trees = trees_of(interpreter)
        compiled = None if confined else _compiled()
        self.line, theirs = messages.plain_pair()
        """To its init and its zygote."""
        self.folders, their_folders = messages.plain_pair()
        """For folders of the host that are given to sessions."""
        self.own_users = outside_users.count > 1 and not confined
        """Whether each session has a user of its own."""
        command = interpreter.command() if compiled is None else [compiled.init]
        try:
            self.process = Child(
                [*command, "--control", "3,4"], [theirs.fileno(), their_folders.fileno()],
                stderr=bool(os.environ.get(DEBUG_VARIABLE)),
            )  # fmt: skip
        finally:
            theirs.close()
            their_folders.close()
        messages.send(self.line, self._configuration(compiled))

    def _configuration(self, compiled: Programs | None) -> dict[str, Any]:
        *command, guest = self.interpreter.command()
        command[0] = executable_in_view(self.interpreter)
        return {
            "mode": "confined" if self.confined else "sealed",
            "scratch": _scratch() if self.confined else None,
            "trees": self.trees,
            "library": None if compiled is None else compiled.library,
            "command": command,
            "guest": guest,
            "uid": self.user[0],
            "gid": self.user[1],
            "users": outside_users.count if self.own_users else 1,
            "zygote": {
                "path": list(self.interpreter.path),
                "prefix": self.interpreter.prefix,
                "exec_prefix": self.interpreter.exec_prefix,
                "environment": ZYGOTE_ENVIRONMENT,
                "preload": list(self.preload),
            },
        }

    def leave(self) -> None:
        """In a forked child: let go of the parent's jail without touching it."""
        self.process.leave()
        self.hang_up()

    def hang_up(self) -> None:
        """Close its lines, at which it ends. Whoever uses them must have stopped."""
        self.line.close()
        self.folders.close()

    def close(self) -> None:
        """End it, and wait for that."""
        self.hang_up()
        if not self.process.wait(STOP_PATIENCE):
            self.process.kill()


_ahead: Launch | None = None
_swap = threading.Lock()
"""Several threads may want a first session at once: a launch that nobody knows of would never be waited for."""


def _leave_swap() -> None:
    global _swap
    _swap = threading.Lock()


os.register_at_fork(after_in_child=_leave_swap)


def launch_ahead(interpreter: Interpreter) -> None:
    """Start a bare jail for whoever asks for one next, where there can be one with namespaces."""
    if programs() is None:
        return
    fresh = Launch(interpreter, ())
    _end_launch(_exchange(fresh))


def take_launch(interpreter: Interpreter, preload: tuple[str, ...], *, confined: bool) -> Launch:
    """The one that was started ahead, if it is such a one, or another."""
    found = _exchange(None)
    if found is not None:
        if (found.interpreter, found.preload, found.owner, found.confined) == (
            interpreter, preload, os.getpid(), confined,
        ):  # fmt: skip
            return found
        _end_launch(_exchange(found))
    return Launch(interpreter, preload, confined=confined)


def discard_launch() -> None:
    """Nobody has asked."""
    _end_launch(_exchange(None))


def _exchange(fresh: Launch | None) -> Launch | None:
    global _ahead
    with _swap:
        found, _ahead = _ahead, fresh
    return found


def _end_launch(found: Launch | None) -> None:
    if found is not None:
        found.close() if found.owner == os.getpid() else found.leave()


def _compiled() -> Programs:
    found = programs()
    if found is None:
        raise BackendUnavailableError(MISSING, remedy=REMEDY)
    return found


def _scratch() -> str:
    import tempfile

    return tempfile.gettempdir()


def trees_of(interpreter: Interpreter) -> list[str]:
    """Folders and files that the interpreter needs, wherever they lie. Never a home folder, or one that holds it."""
    wanted = {executable_in_view(interpreter), *interpreter.path}
    for prefix in (interpreter.prefix, interpreter.exec_prefix, interpreter.base_prefix):
        # an environment that somebody made of his home: what is searched in it is named by the path
        wanted.add(os.path.join(prefix, "pyvenv.cfg") if _holds_home(prefix) else prefix)
    trees = sorted(path for path in wanted if path and os.path.exists(path))
    for path in trees:
        if _holds_home(path):
            raise BackendUnavailableError(
                f"{interpreter.executable} cannot be used in the jail",
                cause=f"its search path names {path}, which holds your home folder: every session could read it",
                remedy="take it out of the .pth file that names it, or pass python=/path/to/another/python3",
            )
    return trees


def executable_in_view(interpreter: Interpreter) -> str:
    """The file that is started: as it was named where its environment comes along, else where its links lead.

    Of the folder in which a link lies, nothing else is given.
    """
    named = interpreter.executable
    for prefix in (interpreter.prefix, interpreter.exec_prefix, interpreter.base_prefix):
        if named.startswith(prefix.rstrip("/") + "/") and not _holds_home(prefix):
            return named
    has_environment = os.path.exists(os.path.join(interpreter.prefix, "pyvenv.cfg"))
    return named if has_environment else os.path.realpath(named)


def _holds_home(path: str) -> bool:
    real, home = os.path.realpath(path), os.path.realpath(os.path.expanduser("~"))
    return real == "/" or home == real or home.startswith(real + "/")
