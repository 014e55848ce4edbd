"""Where a daemon and its clients meet: files in one folder that belongs to the user alone."""

from __future__ import annotations

import os
import stat
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path

from cloche.errors import MachineError
from cloche.paths import private_folder

SOCKET_VARIABLE = "CLOCHE_DAEMON_SOCKET"
FOLDER = "~/.rlm"
LONGEST = 107 if sys.platform == "linux" else 103
"""Bytes in the name of a socket."""
PIPE = r"\\.\pipe\rlm-daemon"
"""Where clients come in on Windows; untested. The other files lie in the folder there too."""


@dataclass(frozen=True, slots=True)
class Places:
    """The socket, and what lies beside it."""

    socket: Path

    @classmethod
    def default(cls) -> Places:
        """``$CLOCHE_DAEMON_SOCKET``, or ``~/.rlm/daemon.sock``."""
        named = os.environ.get(SOCKET_VARIABLE)
        return cls(Path(os.path.abspath(os.path.expanduser(named or f"{FOLDER}/daemon.sock"))))

    @property
    def usual(self) -> bool:
        """Whether it lies where it lies when nobody says otherwise."""
        return self.socket == Path(os.path.abspath(os.path.expanduser(FOLDER))) / "daemon.sock"

    def address(self, platform: str = sys.platform) -> Path | str:
        """What clients connect to: the socket; on Windows a pipe, with a name of its own for every other place."""
        if platform != "win32":
            return self.socket
        return PIPE if self.usual else f"{PIPE}-{zlib.crc32(os.fsencode(self.socket)):08x}"

    @property
    def folder(self) -> Path:
        """Only its owner can enter it."""
        return self.socket.parent

    def prepare(self) -> None:
        """Make the folder, or say why a daemon cannot live in it."""
        private_folder(self.folder, variable=SOCKET_VARIABLE, foreign=not self.usual, leaf=self.socket.name)
        if sys.platform == "win32":
            return
        length = len(os.fsencode(self.socket))
        if length > LONGEST:
            raise MachineError(
                f"{self.socket} is too long for a socket",
                cause=f"{length} bytes, and the system takes {LONGEST}",
                remedy=f"set {SOCKET_VARIABLE} to a shorter path",
            )
        if self.socket.exists() and not self.socket.is_socket():
            raise MachineError(
                f"{self.socket} is there and is no socket",
                cause="it may be anybody's, and is not removed",
                remedy=f"remove it, or set {SOCKET_VARIABLE} to another path",
            )

    def _beside(self, suffix: str) -> Path:
        return self.socket.with_suffix(suffix)

    @property
    def pid(self) -> Path:
        """Who the daemon is, and since when."""
        return self._beside(".pid")

    @property
    def token(self) -> Path:
        """What a client must know; new at each start."""
        return self._beside(".token")

    @property
    def lock(self) -> Path:
        """Held as long as the daemon lives."""
        return self._beside(".lock")

    @property
    def log(self) -> Path:
        """What it has to say."""
        return self._beside(".log")

    def read_token(self) -> str | None:
        """The token, where it lies as it should: ours, and for nobody else to read."""
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
        try:
            descriptor = os.open(self.token, flags)
        except OSError:
            return None
        with open(descriptor) as handle:
            status = os.fstat(descriptor)
            exposed = hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & 0o077)
            if not stat.S_ISREG(status.st_mode) or exposed:
                return None
            return handle.read(256).strip() or None
